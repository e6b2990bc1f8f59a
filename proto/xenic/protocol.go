package xenic

import (
	"errors"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/verbs/smartnic"
)

// Options of the protocol.
const (
	OptCores    = "nic-cores"
	OptMemory   = "nic-memory"
	OptLogBytes = "nic-log-bytes"
	OptCaching  = "nic-caching"
	OptBatching = "nic-batching"
	OptLocal    = "local-transactions"
)

const (
	defaultCores = 8
	defaultLog   = 256 << 10
	leastLog     = 4 << 10
	mostLog      = 1 << 30
	mostMemory   = 1 << 40
)

func options() option.List {
	return option.List{
		option.Int(OptCores, defaultCores, 1, 1024, "`N` cores of each NIC that run the protocol"),
		option.Size(OptMemory, 0, 0, mostMemory, "`SIZE` of each NIC's memory for indexes and cached records; 0: enough for all "+
			"records of its node"),
		option.Size(OptLogBytes, defaultLog, leastLog, mostLog, "`SIZE` of each log: a node keeps one for each core of its NIC").Because(
			"a log has room for several commits, and each node keeps one for each core"),
		option.Bool(OptCaching, true, "NICs keep the records that they have read from their hosts"),
		option.Bool(OptBatching, true, "cores gather messages for one destination in a packet, packets and DMAs in bursts"),
		option.Bool(OptLocal, true, "hosts execute transactions whose records are all of their own shard"),
		protocol.Displacement(),
	}
}

// ErrConfig is wrapped by everything that is refused.
var ErrConfig = errors.New("xenic: bad configuration")

// batching is what cores and ports gather.
func batching(o option.Values) smartnic.Batching {
	if o.Bool(OptBatching) {
		return smartnic.Gathered
	}
	return smartnic.Separate
}

// Protocol describes Xenic.
func Protocol() protocol.Protocol {
	return protocol.Protocol{Name: "xenic",
		Doc:    "optimistic transactions on NICs with cores, modelled: locks and a cache in NIC memory, logs by DMA (SOSP 2021)",
		Preset: preset, Options: options(),
		Needs: protocol.Needs{LineWords: true, Replicates: true, Index: layout.Robinhoods, Layout: layout.KindLineVersions,
			Chips: &protocol.Chips{Cores: true, Preset: preset,
				// What depends on tables and on the NIC, New refuses.
				Check: func(protocol.Sizes, option.Values) error { return nil },
				New:   func(e *protocol.ChipEnv) (any, error) { return newChip(e) }}},
		Offers: proto.OfferDebts, Optimistic: true, ByRPC: true,
		Simulation: protocol.Simulation{Steps: protocol.Steps{All: Steps()}},
		Unmutated:  "its deliberate bugs are found by the tests of packages nics, nicindex and robinhood",
		// Locks are in NIC memory, not in records.
		Holder: func(uint64) (proto.NodeID, bool) { return 0, false },
		New:    func(e *protocol.Env) (proto.Engine, error) { return protocol.Engine(New(e)) }}
}

const preset = "liquidio3"
