package control

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/metadata"

	"drtmd/proto"
	"drtmd/proto/member"
)

// Caller is who calls. The command line fills in Build alone.
type Caller struct {
	Build    string
	IsMember bool // what follows is filled in
	Cluster  string
	Epoch    member.Epoch // the newest that it knows
	Self     member.Member
}

// Keys of the metadata.
const (
	keyBuild       = "drtmd-build"
	keyCluster     = "drtmd-cluster"
	keyEpoch       = "drtmd-epoch"
	keyNode        = "drtmd-node"
	keyIncarnation = "drtmd-incarnation"
)

// attach puts the caller into the metadata of a call.
func (c *Caller) attach(ctx context.Context) context.Context {
	pairs := []string{keyBuild, c.Build}
	if c.IsMember {
		pairs = append(pairs, keyCluster, c.Cluster, keyEpoch, strconv.FormatUint(uint64(c.Epoch), 10),
			keyNode, strconv.Itoa(int(c.Self.Node)), keyIncarnation,
			strconv.FormatUint(uint64(c.Self.Incarnation), 10))
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// callerOf reads the metadata of a call.
func callerOf(md metadata.MD) (Caller, error) {
	var c Caller
	var errs error
	one := func(key string) string {
		switch v := md.Get(key); {
		case len(v) == 1:
			return v[0]
		case errs == nil:
			errs = fmt.Errorf("%d values of %s instead of one", len(v), key)
		}
		return ""
	}
	number := func(key string, bits int) uint64 {
		v := one(key)
		n, err := strconv.ParseUint(v, 10, bits)
		if err != nil && errs == nil {
			errs = fmt.Errorf("%s: %.40q is not a number of %d bits", key, v, bits)
		}
		return n
	}
	c.Build = one(keyBuild)
	if len(md.Get(keyNode)) > 0 {
		c.IsMember = true
		c.Cluster = one(keyCluster)
		c.Epoch = member.Epoch(number(keyEpoch, 64))
		c.Self.Node = proto.NodeID(number(keyNode, 16))
		c.Self.Incarnation = member.Incarnation(number(keyIncarnation, 64))
	}
	if errs != nil {
		return Caller{}, errs
	}
	return c, nil
}
