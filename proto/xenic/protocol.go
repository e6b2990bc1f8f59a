package xenic

import (
	"errors"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/xenic/nics"
	"drtmd/store/layout"
	"drtmd/store/nicindex"
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
	OptShipping = "function-shipping"
	OptMultiHop = "multi-hop"
	OptRequests = "nic-requests"
	OptDMA      = "nic-dma"
)

// Choices of OptRequests and OptDMA; the first is the default.
const (
	RequestsCombined = "combined"
	RequestsSeparate = "separate"
	DMAVectors       = "vectors"
	DMABlocking      = "blocking"
)

// Choices of OptShipping; the first is the default.
const (
	ShipDeclared = "declared"
	ShipOn       = "on"
	ShipOff      = "off"
)

const (
	defaultCores = 8
	defaultLog   = 256 << 10
	leastLog     = 4 << 10
	mostLog      = 1 << 30
	mostMemory   = 1 << 40
)

func options() option.List {
	return append(option.List{
		option.Int(OptCores, defaultCores, 1, 1024, "`N` cores of each NIC that run the protocol"),
		option.Size(OptMemory, 0, 0, mostMemory, "`SIZE` of each NIC's memory for indexes and cached records; 0: enough for all "+
			"records of its node. A shard that a backup takes over gets as much again"),
		option.Size(OptLogBytes, defaultLog, leastLog, mostLog, "`SIZE` of each log: a node keeps one for each core of its NIC").Because(
			"a log has room for several commits, and each node keeps one for each core"),
		option.Bool(OptCaching, true, "NICs keep the records that they have read from their hosts"),
		option.Bool(OptBatching, true, "cores gather messages for one destination in a packet, packets and DMAs in bursts"),
		option.Choice(OptShipping, []string{ShipDeclared, ShipOn, ShipOff}, "`WHICH` transactions NICs execute: those that the "+
			"workload declares as functions (declared), the same and it must declare some (on), or none (off)"),
		option.Bool(OptMultiHop, true, "functions on the records of one other node, or of one and the own, are executed there, "+
			"and backups answer the coordinator"),
		option.Choice(OptRequests, []string{RequestsCombined, RequestsSeparate}, "`HOW` NICs ask each other: one request locks and "+
			"reads all records of a node (combined), or each record is read and validated by a request of its own and locked "+
			"behind the program, as DrTM+H does (separate)"),
		option.Choice(OptDMA, []string{DMAVectors, DMABlocking}, "`HOW` a core accesses its host: programs await DMAs that share "+
			"vectors (vectors), or the core waits for each one (blocking)"),
		option.Bool(OptLocal, true, "hosts execute transactions whose records are all of their own shard"),
		protocol.Displacement(),
	}, roleOptions()...)
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
		Needs: protocol.Needs{LineWords: true, Replicates: true, Scans: true, Index: layout.Robinhoods, Layout: layout.KindLineVersions,
			Chips: &protocol.Chips{Cores: true, Preset: preset,
				// What depends on tables and on the NIC, New refuses.
				Check: checkRoles, Roles: roles,
				New: func(e *protocol.ChipEnv) (any, error) { return newChip(e) }}},
		Offers: proto.OfferDebts | proto.OfferRecovery, Optimistic: true, ByRPC: true,
		Simulation: simulation(),
		Mutations:  mutations(),
		// Locks are in NIC memory, not in records.
		Holder: func(uint64) (proto.NodeID, bool) { return 0, false },
		New:    func(e *protocol.Env) (proto.Engine, error) { return protocol.Engine(New(e)) }}
}

// simulation is how scenarios run it: with two cores of each NIC, and what brings out its rules.
func simulation() protocol.Simulation {
	value := func(name string, settings ...string) protocol.DimensionValue {
		o := option.Settings{}
		for i := 0; i < len(settings); i += 2 {
			o[settings[i]] = settings[i+1]
		}
		return protocol.DimensionValue{Name: name, Options: o}
	}
	return protocol.Simulation{Steps: protocol.Steps{All: append(Steps(), nics.StepSubmitted, nics.StepApply), Fine: []string{stepExecuted},
		Logged:     []string{nics.StepAnswered, nics.StepShipped},
		Recovering: []string{nics.StepRecover, nics.StepRestored, nics.StepDecide, nics.StepSettle, stepFill}},
		Options: option.Settings{OptCores: "2", OptLogBytes: "16KiB"},
		Dimensions: []protocol.Dimension{
			{Name: "local", Doc: "transactions of one shard run on its host, or all at NICs",
				Values: []protocol.DimensionValue{value("yes"), value("no", OptLocal, "false")}, Drawn: []string{"yes", "yes", "no"}},
			{Name: "nic", Doc: "a NIC's cores gather messages and keep what they have read; or neither, with a request for each record and a " +
				"core that waits for each DMA; or there is one core",
				Values: []protocol.DimensionValue{value("usual"), value("plain", OptBatching, "false", OptCaching, "false", OptRequests, RequestsSeparate, OptDMA, DMABlocking),
					value("single", OptCores, "1")}, Drawn: []string{"usual", "usual", "plain", "single"}},
			{Name: "logs", Doc: "logs with room for many commits, or for a few",
				Values: []protocol.DimensionValue{value("usual"), value("short", OptLogBytes, "4KiB")},
				Drawn:  []string{"usual", "usual", "short"}},
			{Name: "ship", Doc: "NICs execute the functions of SmallBank, at another primary too or at the coordinator only, or none",
				Values: []protocol.DimensionValue{value("hop"), value("coordinator", OptMultiHop, "false"),
					value("none", OptShipping, ShipOff)}, Drawn: []string{"hop", "hop", "coordinator", "none"}, Only: []string{"smallbank"}},
			{Name: "roles", Doc: "each worker runs transactions and applies logs, or the first one runs transactions and the last one " +
				"applies logs", Values: []protocol.DimensionValue{value("all"), value("apart", OptApplications, "1", OptRobinhoods, "1")},
				Only: []string{"roles", "losses-scans", "losses-tpcc"}},
			{Name: "limit", Doc: "records of a Robinhood table stand up to 16 slots from home, or one: the rest is in overflow blocks",
				Values: []protocol.DimensionValue{value("16"), value("1", protocol.OptDisplacement, "1")},
				Drawn:  []string{"16", "1"}},
		}}
}

const preset = "liquidio3"

// mutations are the deliberate bugs of the protocol and of the NIC's index. Those of Robinhood tables are found by the
// tests of their package.
func mutations() []mutation.Mutation {
	list := append(nics.Mutations().List("xenic"), nicindex.Mutations().List("store/nicindex")...)
	for i := range list {
		list[i].Equivalent = unseen[list[i].Name]
	}
	return list
}

// unseen are mutations that no cluster of a scenario shows, and why.
var unseen = map[string]string{
	nics.LogUnawaited.String():    backupsUnseen,
	nics.LogUnordered.String():    backupsUnseen,
	nics.TakenAgain.String():      "the simulator's NICs get each packet once: TestAPacketThatComesTwiceIsTakenOnce finds it where workers play them",
	nics.LocalUnlocked.String():   "no workload of scenarios ships a function that reads one shard and writes another: " + foundAlone,
	nicindex.EvictPinned.String(): fewRecords,
	nicindex.Unpinned.String():    fewRecords,
	nics.AbsenceUnlocked.String(): "no workload of scenarios reads an absent record of an ordered table by its key: " +
		"TestTheOrderOfATableTellsWhatIsAbsent finds it",
	nicindex.HintLowered.String(): "a look-up reads on to D_m, and proves an absence by the host's own word: a d_i that is too low costs " +
		"a trip and leads nobody astray; TestHintsAreNotLowered of package nicindex finds it",
	nicindex.StaleTaken.String(): "a scenario's few records all stay in the cache: the tests of package nicindex find it",
}

const (
	foundAlone    = "TestEachMutationIsFound of package nics finds it"
	backupsUnseen = "nobody looks at a backup in the nanoseconds before its log has everything, but for a crash at that moment: " + foundAlone
	fewRecords    = "a scenario's few records all stay in the cache: TestEachMutationOfTheIndexIsFound of package nics finds it"
)
