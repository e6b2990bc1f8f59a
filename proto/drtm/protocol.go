package drtm

import (
	"fmt"
	"math"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

// Protocol describes DrTM.
func Protocol() protocol.Protocol {
	return protocol.Protocol{Name: "drtm",
		Doc:      "DrTM: leases and locks over verbs between nodes, emulated HTM within one",
		Needs:    protocol.Needs{Declared: true, Clocks: true, Early: true, Scans: true, OwnLog: ownLog, CheckOwnLog: checkOwnLog},
		MaxNodes: MaxNodes, Options: options(),
		Offers: proto.OfferDebts | proto.OfferOrphans | proto.OfferRegions | proto.OfferLeases |
			proto.OfferChains | proto.OfferLogs,
		Simulation: simulation(),
		Mutations:  Mutations().List(""),
		Holder: func(state uint64) (proto.NodeID, bool) {
			return State(state).Owner(), State(state).Locked()
		},
		New: func(e *protocol.Env) (proto.Engine, error) {
			cfg, err := ConfigOf(e)
			if err != nil {
				return nil, err
			}
			return protocol.Engine(New(cfg))
		}}
}

// Names of the options.
const (
	optLease         = "lease"
	optLeaseReadOnly = "lease-read-only"
	optRegionAborts  = "region-aborts"
	optRegionWrites  = "region-writes"
	optAttempts      = "fallback-after"
	optLockWait      = "lock-wait"
	optReadLeases    = "read-leases"
	optPublishEvery  = "publish-every"
	optDurable       = "durable"
	optLogBytes      = protocol.OptLogBytes
)

func options() option.List {
	lease := func(name, doc, usual string, value time.Duration) option.Option {
		return option.Duration(name, 0, time.Microsecond, math.MaxInt64, doc).Because(
			"leases are counted in microseconds").ChosenBy(
			usual+", more where a round trip is long or clocks differ", value)
	}
	return option.List{
		lease(optLease, "`TIME` that a read lease lasts", "0.4ms", DefaultLease),
		lease(optLeaseReadOnly, "`TIME` that a lease of a read-only transaction lasts", "1ms",
			DefaultLeaseReadOnly),
		option.Int(optRegionAborts, DefaultRegionAborts, 1, math.MaxInt, "run the fallback handler after "+
			"`N` aborted regions of a transaction"),
		option.Int(optRegionWrites, 0, 0, 255, "a transaction's region may write `N` lines of 64 bytes, wherever they lie, as "+
			"DrTM §2.1 has 768 bytes; 0: as many as the cache holds"),
		option.Int(optAttempts, DefaultAttempts, 1, math.MaxInt, "run the fallback handler after `N` "+
			"attempts of a transaction"),
		option.Duration(optLockWait, DefaultLockWait, time.Microsecond, math.MaxInt64,
			"`TIME` that the fallback handler waits for one lock"),
		option.Bool(optReadLeases, true, "lease records of other nodes that are only read; else lock them (DrTM §8.5). "+
			"Read-only transactions lease them in any case"),
		option.Bool(protocol.OptChopped, false, "run transactions in the pieces that their workload has for them"),
		option.Duration(optPublishEvery, DefaultPublishEvery, time.Microsecond, math.MaxInt64, "`TIME` between two barriers "+
			"at which pieces that a workload defers are published (DrTM §4.2); with chopped"),
		option.Bool(optDurable, false, "log transactions in the memory of the tables, so that daemons, and programs "+
			"that attach to kept memory, come back with them"),
		option.Size(optLogBytes, defaultLogBytes, 4<<10, 1<<30, "`SIZE` of each worker's log, which has two parts "+
			"for each of its fibers, and a third one with chopped; with durable").Because("a part has room for the updates of one transaction"),
		protocol.OrphanAfter()}
}

const defaultLogBytes = 1 << 20

// ownLog is the memory of each worker's log.
func ownLog(o option.Values) int {
	if !o.Bool(optDurable) {
		return 0
	}
	return int(o.Size(optLogBytes))
}

// inKiB is a size in whole KiB.
func inKiB(bytes int) option.Bytes { return option.Bytes(bytes+1<<10-1) &^ (1<<10 - 1) }

// checkOwnLog refuses logs whose slots a transaction of the workload would not fit into: it would never commit.
func checkOwnLog(o option.Values, s protocol.Sizes, writes, valueBytes int) error {
	if !o.Bool(optDurable) {
		return nil
	}
	n := slotsFor(s.Fibers, o.Bool(protocol.OptChopped))
	slot := slotHeadBytes + 2*recordHeadBytes + writes*(lockEntryBytes+writeEntryBytes+7) + valueBytes
	slot = (slot + layout.LineBytes - 1) &^ (layout.LineBytes - 1)
	if log := o.Size(optLogBytes); (int(log)-areaHeadBytes)/n < slot {
		return fmt.Errorf("%w: %s of %v has %d slots, for %d fibers, and a transaction that writes %d records with %d bytes "+
			"needs one of %d bytes: give at least %s %v", ErrConfig, optLogBytes, log, n, s.Fibers, writes, valueBytes, slot,
			optLogBytes, inKiB(areaHeadBytes+n*slot))
	}
	return nil
}

// simulation has leases of some round trips only, so that many end in the middle of a transaction, and
// calls a lock orphaned long after any transaction of such a run would have given it back.
func simulation() protocol.Simulation {
	leases := func(lease, readOnly string) option.Settings {
		return option.Settings{optLease: lease, optLeaseReadOnly: readOnly}
	}
	short := func(lease string) protocol.DimensionValue {
		return protocol.DimensionValue{Name: lease, Options: leases(lease, lease)}
	}
	return protocol.Simulation{Atomics: true,
		Steps: protocol.Steps{All: Steps(), NoLineWords: []string{htm.StepRecordsLocked,
			htm.StepRecordsConfirmed, htm.StepRecordsValid, htm.StepRecordsStored, htm.StepRecordsUnlocked},
			Critical: []string{"drtm: confirmed before XEND", "drtm: before XBEGIN",
				"drtm: after lock", htm.StepListed, htm.StepLocked},
			Fine: []string{"drtm: before access", "drtm: between lines", "drtm: between rounds",
				"drtm: before XBEGIN", "drtm: after lock", htm.StepLocked, htm.StepPublished},
			Held: []string{"drtm: after lock", "drtm: before XBEGIN", "drtm: after commit",
				"drtm: before release", "drtm: fallback locked one", "drtm: finish"},
			Leased:        []string{"drtm: before XBEGIN"},
			Chained:       []string{"drtm: before piece", "drtm: chain at rest"},
			Deferred:      []string{"drtm: at barrier", "drtm: before publishing"},
			Paying:        "drtm: finish",
			Durable:       []string{"drtm: locks logged", "drtm: writes logged", "drtm: log record half written"},
			DurableChains: []string{"drtm: rest of the chain logged", "drtm: piece taken down"},
			Inner: []string{htm.StepListed, htm.StepLocked, htm.StepCommitted, htm.StepStored,
				htm.StepPublished}},
		Options: option.Settings{optLease: "30us", optLeaseReadOnly: "40us", optLockWait: "200us",
			protocol.OptOrphanAfter: "2ms",
			optPublishEvery:         "60us"},
		Dimensions: []protocol.Dimension{
			{Name: "fallback", Doc: "the fallback handler comes soon: after one abort of a region",
				Values: []protocol.DimensionValue{{Name: "late"},
					{Name: "soon", Options: option.Settings{optRegionAborts: "1", optAttempts: "2"}}},
				Drawn: []string{"late", "late", "late", "soon"}, Short: "soon"},
			{Name: "lease", Doc: "how long leases last; the shortest are as long as START takes, and with 60us those " +
				"of readers last 4us",
				Values: []protocol.DimensionValue{{Name: "30us", Options: leases("30us", "40us")},
					{Name: "12us", Options: leases("12us", "16us")},
					short("4us"), short("3.8us"), short("3.7us"), short("3.6us"), short("3.4us"),
					{Name: "60us", Options: leases("60us", "4us")}},
				Drawn: []string{"30us", "12us", "12us"}, Only: []string{"leases", "ends", "returns"}}}}
}

// ConfigOf is the configuration of a worker's engine; programs that set more of it make their own
// Protocol with it.
func ConfigOf(e *protocol.Env) (Config, error) {
	mutation, err := Mutations().Find(e.Mutation)
	if err != nil {
		return Config{}, err
	}
	o := e.Options
	return Config{Env: *e, Mutation: mutation, Lease: o.Duration(optLease),
		LeaseReadOnly: o.Duration(optLeaseReadOnly), RegionAborts: o.Int(optRegionAborts),
		RegionWrites: o.Int(optRegionWrites),
		Attempts:     o.Int(optAttempts), LockWait: o.Duration(optLockWait),
		OrphanAfter: o.Duration(protocol.OptOrphanAfter), Chopped: o.Bool(protocol.OptChopped),
		PublishEvery: o.Duration(optPublishEvery),
		LockReads:    !o.Bool(optReadLeases), Durable: o.Bool(optDurable)}, nil
}

// Steps are the steps that the engine marks for the simulator's nemesis, those of its regions
// included.
func Steps() []string {
	return []string{
		"drtm: before lookup", "drtm: before ensure", "drtm: before lock", "drtm: after lock",
		"drtm: before XBEGIN", "drtm: before access", "drtm: between lines", "drtm: before reclaim",
		"drtm: after commit", "drtm: before release", "drtm: after release",
		"drtm: abort", "drtm: finish", "drtm: fallback", "drtm: fallback locked one",
		"drtm: fallback confirmed", "drtm: between rounds", "drtm: after second round",
		"drtm: confirmed before XEND", "drtm: unlocked before write-back", // by mutations
		htm.StepListed, htm.StepLocked, htm.StepConfirmed, htm.StepValidated, htm.StepCommitted,
		htm.StepStored, htm.StepPublished}
}
