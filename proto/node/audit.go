package node

import (
	"bytes"
	"fmt"

	"drtmd/proto"
	"drtmd/store/layout"
)

// AuditError says of one record that its replicas are not what they must be when nothing runs.
type AuditError struct {
	Shard proto.ShardID
	Node  proto.NodeID // of the replica
	Table string
	Key   proto.Key
	What  string // "locked by node 3"
}

func (e *AuditError) Error() string {
	return fmt.Sprintf("shard %d on node %d, table %s, key %d: %s", e.Shard, e.Node, e.Table, e.Key, e.What)
}

// Audit is that of package node over the members in this process.
func (c *Cluster) Audit() error { return Audit(c.Members) }

// Audit looks at the replicas that some members hold when nothing runs any more, those of the first one's
// map: no record may be locked, and all replicas of a shard must hold the same, byte for byte. The error is
// an *AuditError. With one replica there is nothing to compare.
func Audit(members []*Member) error {
	if members[0].cluster.Replicas == 1 {
		return nil
	}
	m := members[0].Map()
	for s := range m.Shards {
		var first *Member
		for _, x := range members {
			shard := proto.ShardID(s)
			if !m.Holds(x.ID, shard) {
				continue
			}
			if err := x.auditLocks(shard); err != nil {
				return err
			}
			if first == nil {
				first = x
				continue
			}
			if err := first.auditAgainst(x, shard); err != nil {
				return err
			}
			if err := x.auditAgainst(first, shard); err != nil {
				return err
			}
		}
	}
	return nil
}

// auditLocks finds a record that is locked.
func (m *Member) auditLocks(s proto.ShardID) (err error) {
	m.Entries(s, func(t proto.TableID, h layout.Head, _ []byte) bool {
		if owner, locked := m.cluster.Protocol.Holder(h.State); locked {
			err = m.auditError(s, t, h.Key, fmt.Sprintf("locked by node %d (state word %#x)", owner, h.State))
		}
		return err == nil
	})
	return err
}

// auditAgainst finds a record of a shard that another member does not have in the same way. A deleted one
// may be gone there without a trace.
func (m *Member) auditAgainst(other *Member, s proto.ShardID) (err error) {
	m.Entries(s, func(t proto.TableID, h layout.Head, value []byte) bool {
		its, there, found := other.find(s, t, proto.Key(h.Key))
		traceless := h.Version.Trace() == 0 || its.Version.Trace() == 0
		switch {
		case !h.Version.Live() && (!found || !its.Version.Live() && traceless):
		case !found:
			err = other.auditError(s, t, h.Key, fmt.Sprintf("not there, and version %v on node %d", h.Version, m.ID))
		case its.Version != h.Version:
			err = other.auditError(s, t, h.Key, fmt.Sprintf("version %v, and %v on node %d", its.Version, h.Version,
				m.ID))
		case h.Version.Live() && !bytes.Equal(there, value):
			err = other.auditError(s, t, h.Key, fmt.Sprintf("version %v with value %x, and %x on node %d",
				its.Version, there, value, m.ID))
		}
		return err == nil
	})
	return err
}

func (m *Member) auditError(s proto.ShardID, t proto.TableID, k uint64, what string) error {
	return &AuditError{Shard: s, Node: m.ID, Table: m.tables[t-1].name, Key: proto.Key(k), What: what}
}
