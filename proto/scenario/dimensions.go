package scenario

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"drtmd/proto/chop"
	"drtmd/proto/workload"
	"drtmd/proto/workload/chained"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/opmix"
	"drtmd/proto/workload/ranges"
	"drtmd/proto/workload/rows"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tpcc"
	"drtmd/store/layout"
	"drtmd/verbs/scenario"
)

// Names of the dimensions.
const (
	dimWords    = "words"
	dimLines    = "lines"
	dimSkew     = "skew"
	dimReads    = "reads"
	dimRollback = "rollback"
	dimReuse    = "reuse"
	dimRemote   = "remote"
	dimPlans    = "plans"
	dimError    = "error"
	dimClocks   = "clocks"
	dimReplicas = "replicas"
	dimPieces   = "pieces"
)

// settings are the dimensions of a run.
type settings struct {
	words      bool // the device has line words
	lines      int  // that an entry takes
	skew       float64
	remote     float64 // share of the records, or of SmallBank's second customers
	reads      int     // percent of the transactions that only read
	rollback   float64
	reuse      bool
	plans      bool // many transactions look before they declare what they need
	clockError time.Duration
	edge       bool // each clock errs by all of that
	replicas   int
	script     string // of a small world
}

// readSettings takes the drawn values; those that the scenario does not have are plain.
func readSettings(setting func(string) string) settings {
	s := settings{words: setting(dimWords) != "no", reuse: setting(dimReuse) == "yes",
		plans: setting(dimPlans) == "many",
		edge:  setting(dimClocks) == "edge", clockError: delta, lines: 1, script: setting(dimScript)}
	if percent, err := strconv.Atoi(setting(dimRemote)); err == nil {
		s.remote = float64(percent) / 100
	}
	// The values are those of the lists below: they can be read.
	if v := setting(dimLines); v != "" {
		s.lines, _ = strconv.Atoi(v)
	}
	if s.replicas, _ = strconv.Atoi(setting(dimReplicas)); s.replicas == 0 {
		s.replicas = 1
	}
	s.reads, _ = strconv.Atoi(setting(dimReads))
	s.skew, _ = strconv.ParseFloat(setting(dimSkew), 64)
	percent, _ := strconv.Atoi(setting(dimRollback))
	s.rollback = float64(percent) / 100
	if d, err := time.ParseDuration(setting(dimError)); err == nil {
		s.clockError = d
	}
	return s
}

// dimension has its first value as the plainest.
func dimension(name, doc string, values []string, drawn ...string) scenario.Dimension {
	return scenario.Dimension{Name: name, Doc: doc, Values: values, Drawn: drawn}
}

const wordsDoc = "the device has line words, so that its atomics exclude the CPU's"

// dimensions of a scenario; those of a short run are plain unless they are set.
func (x spec) dimensions() []scenario.Dimension {
	list := []scenario.Dimension{
		dimension(dimWords, wordsDoc, []string{"yes", "no"}, "yes", "no"),
		dimension(dimSkew, "theta of Zipf with which records are drawn; 0: micro has none, "+
			"SmallBank its hot set", []string{"0", "0.7", "0.99"}, "0", "0.7", "0.99"),
		dimension(dimRemote, "percent of the records, or of SmallBank's customers, that are elsewhere",
			[]string{"50", "10", "2"}, "50", "10", "2"),
		dimension(dimReads, "percent of the transactions that only read; default: the workload's own",
			[]string{"default", "50", "80"}, "default", "default", "50", "50", "80"),
	}
	if x.protocol.LineWords {
		list = list[1:]
	}
	if x.small {
		list = x.smallDimensions()
	}
	if x.load == loadChained || x.load == loadTPCC || x.load == loadFields {
		list = slices.DeleteFunc(list, func(d scenario.Dimension) bool { return d.Name == dimSkew || d.Name == dimReads })
	}
	if x.script != nil {
		list = slices.DeleteFunc(list, func(d scenario.Dimension) bool { return d.Name != dimWords })
	}
	if x.load == loadChained {
		list = append(list, dimension(dimRollback, "percent of the reserves that the user aborts",
			[]string{"0", "20", "50"}, "20", "50"))
	}
	if x.load == loadTPCC && x.durable {
		list = append(list, dimension(dimPieces, "transactions run in pieces, or as a whole", []string{"yes", "no"},
			"yes", "yes", "no"))
	}
	if x.load == loadRanges {
		list = slices.DeleteFunc(list, func(d scenario.Dimension) bool { return d.Name == dimSkew })
		list = append(list,
			dimension(dimLines, "lines of 64 bytes that a record takes", []string{"1", "2", "5"}, "1", "1", "2", "5"),
			dimension(dimRollback, "percent of the scans that roll back in the end", []string{"0", "20"}, "0", "20"))
	}
	if x.load == loadClients {
		list = slices.DeleteFunc(list, func(d scenario.Dimension) bool { return d.Name == dimReads || d.Name == dimRemote })
	}
	if x.load == loadSkews || x.load == loadClients {
		list = append(list, dimension(dimLines, "lines of 64 bytes that a record takes", []string{"1", "2"}, "1", "1", "2"))
	}
	if x.load == loadMicro {
		list = append(list,
			dimension(dimLines, "lines of 64 bytes that a record takes",
				[]string{"1", "2", "3", "4", "5"}, "1", "1", "2", "3", "4", "5"),
			dimension(dimRollback, "percent of the transactions that roll back in the end",
				[]string{"0", "20", "50"}, "0", "20", "50"),
			dimension(dimReuse, "items come and go: entries are given back and to other keys",
				[]string{"no", "yes"}, "no", "yes"),
			dimension(dimPlans, "how many transactions peek at a record to learn which one they need",
				[]string{"few", "many"}, "few", "few", "many"))
	}
	if x.replicated && !x.small {
		list = append(list, dimension(dimReplicas, "replicas of each record", []string{"2", "3"}, "2", "3", "3"))
	}
	if x.protocol.Clocks && !x.small {
		list = append(list,
			dimension(dimError, "bound of a clock's error, DELTA; leases last 30 us and 40 us",
				[]string{"3us", "12us", "100ns"}, "3us", "12us"),
			dimension(dimClocks, "each clock errs somewhere within the bound, or by all of it",
				[]string{"within", "edge"}, "within", "edge"))
	}
	short := map[string]string{}
	for _, d := range x.protocol.Simulation.Dimensions {
		if d.Only != nil && !slices.Contains(d.Only, x.name) {
			continue
		}
		var values []string
		for _, v := range d.Values {
			values = append(values, v.Name)
		}
		list = append(list, dimension(d.Name, d.Doc, values, d.Drawn...))
		short[d.Name] = d.Short
	}
	for i := range list {
		if x.short {
			list[i].Drawn = nil
			if value := short[list[i].Name]; value != "" {
				list[i].Drawn = []string{value}
			}
		}
		if drawn := x.drawnOf[list[i].Name]; drawn != nil {
			list[i].Drawn = drawn
		}
	}
	return list
}

// workload makes the load of a run.
func (x spec) workload(nodes int, s settings, chopping chop.Mutation) (workload.Workload, error) {
	kind, _ := x.protocol.Tables()
	switch x.load {
	case loadRanges:
		return rangesLoad(nodes, x.keys, kind, s)
	case loadChained:
		return chained.New(chained.Options{Nodes: nodes, Keys: few, Remote: s.remote, RollBack: s.rollback,
			Deferred: x.deferred, Mutation: chopping})
	case loadTPCC:
		return tpccLoad(nodes, s)
	case loadSkews:
		return skewsLoad(nodes, kind, s)
	case loadClients:
		return clientsLoad(nodes, kind, s)
	case loadFields:
		return rows.New(rows.Options{Nodes: nodes, Rows: few, Distributed: s.remote,
			Declared: x.protocol.Declared, Frames: x.frames})
	case loadScript:
		if x.script != nil {
			return &script{nodes: nodes, transactions: x.script, endless: true}, nil
		}
		return &script{nodes: nodes, transactions: scriptNamed(s.script), atHome: s.script == mine}, nil
	case loadMicro:
		return microLoad(nodes, cmp.Or(x.keys, accounts), x.mix, x.singles, kind, s)
	}
	return smallBank(nodes, s)
}

func rangesLoad(nodes, keys int, kind layout.Kind, s settings) (workload.Workload, error) {
	o := ranges.Default(nodes)
	o.Distributed, o.RollBack = s.remote, s.rollback
	o.Keys = cmp.Or(keys, o.Keys)
	o.Longest = min(o.Longest, o.Keys)
	o.ValueBytes = layout.Fit(kind, s.lines)
	o.Mix = ranges.DefaultMix()
	own := o.Mix[ranges.Scan-1] + o.Mix[ranges.Both-1]
	o.Mix = ranges.Mix(share(o.Mix[:], s.reads, own, func(i int) bool {
		return ranges.Kind(i+1) == ranges.Scan || ranges.Kind(i+1) == ranges.Both
	}))
	return ranges.New(o)
}

// clientsLoad has transactions that declare nothing: they ask for two records at once, and put another one blindly.
func clientsLoad(nodes int, kind layout.Kind, s settings) (workload.Workload, error) {
	return opmix.New(opmix.Options{Nodes: nodes, Keys: 6, ValueBytes: layout.Fit(kind, s.lines), Gets: 2, Puts: 1,
		Theta: s.skew, Interactive: true})
}

// tpccLoad is as small as the workload can be.
func tpccLoad(nodes int, s settings) (workload.Workload, error) {
	o := tpcc.Default(nodes)
	o.Items, o.Customers, o.Orders = 100, 10, 1000
	o.RemoteItems, o.RemotePayments = 0, 0
	if nodes > 1 {
		o.RemoteItems, o.RemotePayments = 100*s.remote, 100*s.remote
	}
	return tpcc.New(o)
}

func smallBank(nodes int, s settings) (workload.Workload, error) {
	o := smallbank.Default(nodes)
	o.Accounts, o.Distributed, o.Anywhere = accounts, s.remote, s.remote
	o.HotAccounts, o.HotAccess, o.Theta = 0.25, 0.75, s.skew
	own := o.Mix[smallbank.Balance-1]
	o.Mix = smallbank.Mix(share(o.Mix[:], s.reads, own, func(i int) bool {
		return smallbank.Kind(i+1) == smallbank.Balance
	}))
	return smallbank.New(o)
}

func microLoad(nodes, keys int, mix micro.Mix, singles bool, kind layout.Kind, s settings) (workload.Workload, error) {
	o := micro.Default(nodes)
	o.Keys, o.Distributed, o.Theta, o.RollBack = keys, s.remote, s.skew, s.rollback
	o.ValueBytes = layout.Fit(kind, s.lines)
	o.Mix = micro.DefaultMix()
	o.Restless = s.reuse
	// increment, insert, delete, move, look, read-many, follow, redirect, depend
	switch {
	case mix != micro.Mix{}:
		o.Mix = mix
	case s.plans:
		o.Mix = micro.Mix{5, 10, 10, 5, 5, 5, 25, 30, 5}
	case s.reuse:
		o.Mix = micro.Mix{5, 15, 5, 30, 20, 5, 5, 5, 10}
	}
	if s.reuse {
		o.Items = keys + keys/2
	}
	own := o.Mix[micro.Look-1] + o.Mix[micro.ReadMany-1]
	switch {
	case singles:
		o.LeastReads = 1
	case s.reads > 0:
		o.LeastReads = 2
	}
	o.Mix = micro.Mix(share(o.Mix[:], s.reads, own, func(i int) bool {
		return micro.Kind(i+1) == micro.Look || micro.Kind(i+1) == micro.ReadMany
	}))
	return micro.New(o)
}

// share gives those kinds of a mix that only read the wanted percentage together, instead of their
// own, and the others what is left, in proportion; 0 leaves it as it is.
func share(mix []int, want, own int, reads func(int) bool) []int {
	if want == 0 {
		return mix
	}
	out, left := make([]int, len(mix)), 100
	last := [2]int{}
	for i, v := range mix {
		if reads(i) {
			out[i], last[0] = v*want/own, i
		} else {
			out[i], last[1] = v*(100-want)/(100-own), i
		}
		left -= out[i]
	}
	out[last[0]] += left // of rounding
	return out
}
