package tatp

import (
	"math"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload/workloadtest"
)

func small(t *testing.T, change func(*Options)) *TATP {
	t.Helper()
	o := Options{Nodes: 3, Subscribers: 5000, Anywhere: true}
	if change != nil {
		change(&o)
	}
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s: %.3f, want %.3f within %.3f", what, got, want, within)
	}
}

// TestMixAndSuccess (specification 3.1 and 3.3): shares of the mix, and of success by kind. Of
// get-new-destination the package comment says why it is not the 23.9 % that the specification expects.
func TestMixAndSuccess(t *testing.T) {
	const n = 60_000
	success := [kindEnd]float64{GetSubscriberData: 100, GetNewDestination: 15.8, GetAccessData: 62.5,
		UpdateSubscriberData: 62.5, UpdateLocation: 100, InsertCallForwarding: 31.25,
		DeleteCallForwarding: 31.25}
	var drawn, done [kindEnd]float64
	err := workloadtest.Check(small(t, nil), 3, n, 1, func(x *workloadtest.Transaction) {
		drawn[x.Decl.Kind]++
		if x.Outcome == proto.Committed {
			done[x.Decl.Kind]++
		}
		if ro := Kind(x.Decl.Kind) <= GetAccessData; ro != x.Decl.ReadOnly {
			t.Fatalf("%v is read-only: %v", Kind(x.Decl.Kind), x.Decl.ReadOnly)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for k := GetSubscriberData; k < kindEnd; k++ {
		near(t, "share of "+k.String(), 100*drawn[k]/(3*n), float64(SpecificationMix()[k-1]), 0.4)
		near(t, "success of "+k.String(), 100*done[k]/drawn[k], success[k], 2)
	}
}

// TestRowsPerSubscriber (specification 2.2): 2.5 rows of access and of facilities, 85 % of these
// active, 1.5 call forwardings for each facility: with the number 10.75 rows, Dandelion's 11 M for
// 1 M subscribers.
func TestRowsPerSubscriber(t *testing.T) {
	w := small(t, func(o *Options) { o.Subscribers = 100_000 })
	per := func(table proto.TableID) float64 { return float64(w.rows[table]) / 100_000 }
	near(t, "access-info", per(AccessInfo), 2.5, 0.02)
	near(t, "special-facility", per(SpecialFacility), 2.5, 0.02)
	near(t, "call-forwarding", per(CallForwarding), 3.75, 0.04)
	all, active := 0.0, 0.0
	for s := range 100_000 {
		p := profileOf(s)
		all += float64(bits(p.facilities))
		active += float64(bits(p.facilities & p.active))
	}
	near(t, "active facilities", active/all, 0.85, 0.01)
	sum := 2 + per(AccessInfo) + per(SpecialFacility) + per(CallForwarding)
	near(t, "rows per subscriber", sum, 10.75, 0.06)
}

// TestSubscribersAreChosenNonUniformly (specification 3.2): NURand with A = 65535 for up to a million
// subscribers, 1048575 up to ten, 2097151 beyond; and from all nodes.
func TestSubscribersAreChosenNonUniformly(t *testing.T) {
	for population, a := range map[uint64]uint64{100_000: 65535, 1_000_000: 65535,
		1_000_001: 1048575, 10_000_000: 1048575, 20_000_000: 2097151} {
		if got := nonUniform(population); got != a {
			t.Errorf("A for %d subscribers is %d, want %d", population, got, a)
		}
	}
	w := small(t, func(o *Options) { o.Nodes, o.Subscribers = 4, 250_000 })
	c := newClient(w, 0, rand.New(rand.NewPCG(1, 1)))
	var homes [4]float64
	odd := 0.0
	const n = 200_000
	for range n {
		node, s := c.subscriber()
		homes[node]++
		// A bitwise or of two draws sets each low bit with probability 3/4.
		odd += float64((s*4 + int(node)) & 1)
	}
	near(t, "odd subscribers", odd/n, 0.75, 0.02)
	for i, h := range homes {
		if h == 0 {
			t.Errorf("no subscriber of node %d was drawn", i)
		}
	}
}

// TestSubscribersOfOtherNodes: with the probability that is asked for; all of them, where a client of another
// machine than the server's is measured; none, where all requests are local (HADES §VIII-C).
func TestSubscribersOfOtherNodes(t *testing.T) {
	for _, share := range []float64{0, 0.2, 1} {
		w := small(t, func(o *Options) { o.Nodes, o.Anywhere, o.Far = 4, false, share })
		const n, home = 20_000, 2
		c := newClient(w, home, rand.New(rand.NewPCG(1, 1)))
		far := 0.0
		for range n {
			if node, _ := c.subscriber(); node != home {
				far++
			}
		}
		near(t, "subscribers of other nodes", far/n, share, 0.05*share*(1-share))
	}
}

// TestAccessesByKind: what each transaction touches, with the numbers' look-ups and, as Dandelion's
// counts of messages need it, without.
func TestAccessesByKind(t *testing.T) {
	for _, without := range []bool{false, true} {
		w := small(t, func(o *Options) { o.NoNumbers, o.ValueBytes = without, 48 })
		extra := 1
		if without {
			extra = 0
		}
		least := [kindEnd]int{GetSubscriberData: 1, GetNewDestination: 2, GetAccessData: 1,
			UpdateSubscriberData: 2, UpdateLocation: 1 + extra, InsertCallForwarding: 2 + extra,
			DeleteCallForwarding: 1 + extra}
		for _, s := range w.Tables() {
			if s.ValueBytes != 48 {
				t.Errorf("values of %s have %d bytes, want 48", s.Name, s.ValueBytes)
			}
		}
		err := workloadtest.Check(w, 3, 5000, 2, func(x *workloadtest.Transaction) {
			k := Kind(x.Decl.Kind)
			most := least[k]
			if k == GetNewDestination {
				most = 1 + starts
			}
			if n := len(x.Decl.Accesses); n < least[k] || n > most {
				t.Errorf("%v declares %d records, want %d to %d", k, n, least[k], most)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestFailedLookupsCommitWhereAsked: Dandelion and FaSST count them.
func TestFailedLookupsCommitWhereAsked(t *testing.T) {
	err := workloadtest.Check(small(t, func(o *Options) { o.FailedCommit = true }), 3, 20_000, 3,
		func(x *workloadtest.Transaction) {
			if x.Outcome != proto.Committed {
				t.Errorf("%v was rolled back", Kind(x.Decl.Kind))
			}
		})
	if err != nil {
		t.Error(err)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"no node":        {Subscribers: 100},
		"no subscriber":  {Nodes: 1},
		"too many":       {Nodes: 1, Subscribers: 1 << 40},
		"negative bytes": {Nodes: 1, Subscribers: 100, ValueBytes: -1},
		"share":          {Nodes: 2, Subscribers: 100, Far: 1.1},
		"far, one node":  {Nodes: 1, Subscribers: 100, Far: 1},
		"far, anywhere":  {Nodes: 2, Subscribers: 100, Far: 0.5, Anywhere: true},
		"mix":            {Nodes: 1, Subscribers: 100, Mix: Mix{99}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestDrawingDoesNotAllocate(t *testing.T) {
	c := newClient(small(t, nil), 0, rand.New(rand.NewPCG(1, 1)))
	if n := testing.AllocsPerRun(1000, func() {
		c.Next()
		c.Done(proto.RolledBack)
	}); n > 0 {
		t.Errorf("%v allocations per transaction", n)
	}
}
