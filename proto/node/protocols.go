package node

import (
	"slices"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/hades"
	"drtmd/proto/nocc"
	"drtmd/proto/occ/dandelion"
	"drtmd/proto/occ/drtmh"
	"drtmd/proto/occ/drtmocc"
	"drtmd/proto/occ/drtmr"
	"drtmd/proto/occ/farm"
	"drtmd/proto/occ/fasst"
	"drtmd/proto/twopl"
	"drtmd/proto/xenic"
)

// Protocols lists what transactions can run on; the first is the default. A protocol is added here,
// and nowhere else outside of its folder. A program may add its own, which come last.
func Protocols(own ...Protocol) []Protocol {
	list := []Protocol{
		drtm.Protocol(),
		nocc.Protocol(),
		twopl.Protocol(),
		twopl.LocalProtocol(),
		drtmh.Protocol(),
		drtmh.Uncached(),
		drtmocc.Protocol(),
		drtmr.Protocol(),
		drtmr.Evaluated(),
		farm.Protocol(),
		fasst.Protocol(),
		dandelion.Dnl4(),
		dandelion.Dnl2(),
		dandelion.Dnl1(),
		hades.Protocol(),
		hades.Hybrid(),
		xenic.Protocol(),
	}
	list = append(list, own...)
	for i := range list {
		p := &list[i]
		if p.Unmutated == "" && p.Chips == nil {
			p.Mutations = withKeeper(append(slices.Clip(p.Mutations), layers(p)...), p.ByRPC)
		}
		if p.Holder == nil {
			p.Holder = func(uint64) (proto.NodeID, bool) { return 0, false }
		}
	}
	return list
}
