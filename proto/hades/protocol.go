package hades

import (
	"drtmd/htm/directory"
	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

// Options of the protocols: the sizes of HADES Table III, and what it leaves open.
const (
	OptPerCore     = "tx-per-core"
	OptTagBits     = "tag-bits"
	OptReadBits    = "read-filter-bits"
	OptWriteBits   = "write-filter-bits"
	OptIndexBits   = "index-filter-bits"
	OptNICBits     = "nic-filter-bits"
	OptNICPairs    = "nic-filter-pairs"
	OptBuffers     = "locking-buffers"
	OptSets        = "llc-sets"
	OptWays        = "llc-ways"
	OptPatience    = "squashes-before-lock"
	OptLineCycles  = "nic-line-cycles"
	OptLockCycles  = "nic-lock-cycles"
	OptKeepCycles  = "persist-cycles"
	perCore        = 2 // m (cited: Table III)
	defaultSquash  = 16
	mostFilterBits = 1 << 20
)

func options() option.List {
	return option.List{
		option.Int(OptPerCore, perCore, 1, 1024, "`M` transactions that a core multiplexes: pairs of filters of each; other "+
			"fibers wait"),
		option.Int(OptTagBits, 0, 0, 16, "`N` bits of WrTX_ID in the LLC; 0: as many as the transactions of a node need"),
		option.Int(OptReadBits, 1024, 0, mostFilterBits, "`N` bits of the read filters of cores"),
		option.Int(OptWriteBits, 512, 0, mostFilterBits, "`N` bits by CRC of the write filters of cores"),
		option.Int(OptIndexBits, 4096, 0, mostFilterBits, "`N` bits by cache set of the write filters of cores"),
		option.Int(OptNICBits, 1024, 0, mostFilterBits, "`N` bits of the filters of NICs"),
		option.Int(OptNICPairs, 0, 0, 1<<20, "`N` pairs of filters in each NIC; 0: one for each transaction of other nodes"),
		option.Int(OptBuffers, 0, 0, 1<<20, "`N` Locking Buffers of each directory; 0: one for each pair of filters"),
		option.Int(OptSets, 4096, 1, 1<<20, "`N` sets of the LLC's slice of each core"),
		option.Int(OptWays, 16, 1, 64, "`N` ways of the LLC"),
		option.Int(OptPatience, defaultSquash, 1, 1<<20, "`N` squashes after which a transaction locks all that it will need, "+
			"then executes"),
		option.Int(OptLineCycles, 2, 0, 1<<20, "`N` cycles of a core in which a NIC inserts a line into a filter, or compares it "+
			"with all"),
		option.Int(OptLockCycles, 40, 0, 1<<20, "`N` cycles of a core in which a NIC takes a Locking Buffer or gives it back"),
		option.Int(OptKeepCycles, 600, 0, 1<<30, "`N` cycles of a core in which a replica makes a record durable"),
	}
}

// settings are the options, as the model takes them.
type settings struct {
	config   hardware.Config
	patience int
}

func settingsOf(s protocol.Sizes, o option.Values, hybrid bool) (settings, error) {
	c := hardware.TableIII(s.Nodes, s.Workers, o.Int(OptPerCore))
	c.Hybrid, c.VersionAt = hybrid, layout.VersionOffset
	d := &c.Directory
	d.TagBits, d.Buffers = o.Int(OptTagBits), o.Int(OptBuffers)
	d.Read.Bits, d.Write.Bits, d.Write.IndexBits = o.Int(OptReadBits), o.Int(OptWriteBits), o.Int(OptIndexBits)
	d.LLC.Sets, d.LLC.Ways = o.Int(OptSets), o.Int(OptWays)
	c.Cycles = hardware.Cycles{Line: o.Int(OptLineCycles), Lock: o.Int(OptLockCycles),
		Keep: o.Int(OptKeepCycles)}
	c.Filter.Bits, c.Pairs = o.Int(OptNICBits), o.Int(OptNICPairs)
	return settings{c, o.Int(OptPatience)}, c.Check()
}

// Protocol describes HADES.
func Protocol() protocol.Protocol {
	return describe("hades", "transactions in hardware, modelled: Bloom filters, directory, Locking Buffers, smart NICs (ISCA "+
		"2024)", false)
}

// Hybrid describes HADES-H.
func Hybrid() protocol.Protocol {
	return describe("hades-h", "HADES-H: local accesses in software, validated by versions; remote ones as in HADES", true)
}

func describe(name, doc string, hybrid bool) protocol.Protocol {
	return protocol.Protocol{Name: name, Doc: doc, Fibers: perCore, Preset: "hades", Options: options(),
		Needs: protocol.Needs{Scans: true, Replicates: true, Chips: &protocol.Chips{
			Check: func(s protocol.Sizes, o option.Values) error {
				_, err := settingsOf(s, o, hybrid)
				return err
			},
			New: func(e *protocol.ChipEnv) (any, error) { return newChip(e, hybrid) }}},
		Offers: proto.OfferDebts | proto.OfferRecovery | proto.OfferTruncations, Optimistic: true, LocksLate: true,
		Simulation: simulation(hybrid),
		Mutations:  mutationsOf(hybrid),
		New:        func(e *protocol.Env) (proto.Engine, error) { return protocol.Engine(New(e)) }}
}

// simulation is how scenarios run a protocol: with small caches, and with what brings out its rules.
func simulation(hybrid bool) protocol.Simulation {
	value := func(name string, settings ...string) protocol.DimensionValue {
		o := option.Settings{}
		for i := 0; i < len(settings); i += 2 {
			o[settings[i]] = settings[i+1]
		}
		return protocol.DimensionValue{Name: name, Options: o}
	}
	list := []protocol.Dimension{
		{Name: "filters", Doc: "filters of the usual size, or of 16 bits, so that many answers are wrong",
			Values: []protocol.DimensionValue{value("usual"),
				value("tiny", OptReadBits, "16", OptWriteBits, "16", OptNICBits, "16")},
			Drawn: []string{"usual", "usual", "tiny"}},
		{Name: "pairs", Doc: "pairs of filters in a NIC: one for each transaction, or two",
			Values: []protocol.DimensionValue{value("all"), value("two", OptNICPairs, "2")},
			Drawn:  []string{"all", "all", "two"}},
		{Name: "cores", Doc: "transactions of a core: one for each fiber, or one in all",
			Values: []protocol.DimensionValue{value("all", OptPerCore, "4"), value("one", OptPerCore, "1")},
			Drawn:  []string{"all", "all", "one"}},
		{Name: "nic", Doc: "NICs with the usual cycles, or ones that take microseconds for a line",
			Values: []protocol.DimensionValue{value("usual"), value("slow", OptLineCycles, "4000", OptLockCycles, "200")},
			Drawn:  []string{"usual", "slow"}},
		{Name: "patience", Doc: "squashes before a transaction locks everything: the usual number, or one",
			Values: []protocol.DimensionValue{value("usual"), value("one", OptPatience, "1")},
			Drawn:  []string{"usual", "one"}},
	}
	s := protocol.Simulation{Steps: Steps(),
		Options: option.Settings{OptSets: "256", OptIndexBits: "256"}, Dimensions: list}
	if !hybrid {
		s.Dimensions = append(s.Dimensions, protocol.Dimension{Name: "cache", Doc: "last-level cache of 256 sets of 16 ways, or of one " +
			"set of six: lines that were written are evicted",
			Values: []protocol.DimensionValue{value("usual"), value("tiny", OptSets, "1", OptIndexBits, "1", OptWays, "6")},
			Drawn:  []string{"usual", "usual", "tiny"}})
	}
	return s
}

// mutationsOf are the deliberate bugs of a protocol's hardware.
func mutationsOf(hybrid bool) (list []mutation.Mutation) {
	for _, m := range hardware.Mutations().All() {
		if m.In(hybrid) {
			x := hardware.Mutations()[m]
			if m == hardware.FullLinesUnlocked {
				x.Equivalent = "engines fetch the header's line of every record that they write, so that the filter has it: the small " +
					"world of package hardware, which writes lines as a whole, finds it"
			}
			list = append(list, x)
		}
	}
	for _, m := range bugs.List("") {
		directed := m.Name == bugs[fillUnkept].Name || m.Name == bugs[appliedForgotten].Name
		if !hybrid || !directed { // the code is the same, and its directed run is of HADES
			list = append(list, m)
		}
	}
	if !hybrid {
		list = append(list, directory.Mutations().List("htm/directory")...)
	}
	return list
}
