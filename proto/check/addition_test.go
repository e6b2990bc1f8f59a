package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/proto/history"
)

// Each false history of chains and additions is refused by its name, and the true one beside it accepted.
func TestChainsAndAdditionsThatNoOrderExplainsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name             string
		broken, repaired string
		want             Anomaly
	}{
		{"a piece is missing", `
			0-10 p 0 3, w x 2, p 2 3, w y 2`, `
			0-10 p 0 3, w x 2, p 1 3, p 2 3, w y 2`, BrokenChain},
		{"the last piece is missing", `
			0-10 p 0 2, w x 2`, `
			0-10 p 0 2, w x 2, p 1 2`, BrokenChain},
		{"the first piece is missing", `
			0-10 p 1 2, w x 2`, `
			0-10 p 0 2, w x 2, p 1 2`, BrokenChain},
		{"a piece is there twice", `
			0-10 p 0 2, p 0 2, w x 2, p 1 2`, `
			0-10 p 0 2, w x 2, p 1 2`, BrokenChain},
		{"pieces are out of order", `
			0-10 p 0 3, w x 2, p 2 3, p 1 3, w y 2`, `
			0-10 p 0 3, w x 2, p 1 3, p 2 3, w y 2`, BrokenChain},
		{"pieces of chains of different length", `
			0-10 p 0 2, w x 2, p 1 3`, `
			0-10 p 0 2, w x 2, p 1 2`, BrokenChain},
		{"an operation before the first piece", `
			0-10 w x 2, p 0 2, p 1 2`, `
			0-10 p 0 2, w x 2, p 1 2`, BrokenChain},
		{"a chain that was cut off, whose first piece was seen", `
			0-10 p 0 2, w x 2; unknown
			5-15 r x 2`, `
			0-10 p 0 2, w x 2; unknown
			5-15 r x 1`, BrokenChain},
		{"the next life of a machine leaves a piece out of the rest of a chain", `
			0-10  p 0 3, w x 2; unknown #7
			20-30 p 2 3, w y 2; recovered #7`, `
			0-10  p 0 3, w x 2; unknown #7
			20-30 p 1 3, p 2 3, w y 2; recovered #7`, BrokenChain},
		{"a reader between a chain and its rest", `
			0-10  p 0 2, w x 2; unknown #7
			12-15 r x 2, r y 1
			20-30 p 1 2, w y 2; recovered #7`, `
			0-10  p 0 2, w x 2; unknown #7
			12-15 r x 1, r y 1
			20-30 p 1 2, w y 2; recovered #7`, FracturedRead},
		{"a piece that two lives have begun, and the third has done", `
			load x 1, y 1
			0-10  p 0 2, w x 2, p 1 2, w y 2; unknown #7
			20-25 p 1 2, w y 2; unknown #7
			30-40 p 1 2, w y 3; recovered #7
			50-60 r y 2`, `
			load x 1, y 1
			0-10  p 0 2, w x 2, p 1 2, w y 2; unknown #7
			20-25 p 1 2, w y 2; unknown #7
			30-40 p 1 2, w y 3; recovered #7
			50-60 r y 3`, TornRead},
		{"the rest of a chain was done, and nobody said so", `
			0-10  p 0 3, w x 2; unknown #7
			20-25 p 1 3, w y 2; unknown #7
			50-60 r x 2`, `
			0-10  p 0 2, w x 2; unknown #7
			20-25 p 1 2, w y 2; unknown #7
			50-60 r x 2`, BrokenChain},
		{"a piece of a chain that has ended is done again", `
			0-10  p 0 2, w x 2, p 1 2, w y 2; committed #7
			20-30 p 1 2, w y 3; recovered #7`, `
			0-10  p 0 2, w x 2, p 1 2, w y 2; committed #7
			20-30 w y 3`, BrokenPromise},
		{"a reader between two pieces", `
			0-10 p 0 2, w x 2, p 1 2, w y 2
			2-8  r x 2, r y 1`, `
			0-10 p 0 2, w x 2, p 1 2, w y 2
			2-8  r x 1, r y 1`, FracturedRead},
		{"one reader behind each piece", `
			0-30 p 0 2, w x 2, p 1 2, w y 2
			2-8  r x 2
			9-12 r y 1`, `
			0-30 p 0 2, w x 2, p 1 2, w y 2
			2-8  r x 1
			9-12 r y 1`, RealTimeOrder},
		{"a writer between a read and a write of two pieces", `
			0-20 p 0 2, r x 1, p 1 2, w x 3
			5-15 r x 1, w x 2`, `
			0-20 p 0 2, r x 2, p 1 2, w x 3
			5-15 r x 1, w x 2`, LostUpdate},
		{"chains that write in opposite orders", `
			0-20 p 0 2, w x 2, p 1 2, w y 3
			1-19 p 0 2, w x 3, p 1 2, w y 2`, `
			0-20 p 0 2, w x 2, p 1 2, w y 2
			1-19 p 0 2, w x 3, p 1 2, w y 3`, WriteCycle},
		{"additions in opposite orders are no matter, but a reader between them is", `
			0-20 p 0 2, + x 2:5=5, p 1 2, w y 3
			1-19 p 0 2, + x 3:7=12, p 1 2, w y 2
			3-18 r x 2:#5`, `
			0-20 p 0 2, + x 2:5=5, p 1 2, w y 3
			1-19 p 0 2, + x 3:7=12, p 1 2, w y 2
			3-18 r x 3:#12`, ReadSkew},
		{"an addition is lost", `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.3:7=7`, `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.3:7=12`, LostAddition},
		{"an addition is lost with its version", `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.2:7=7`, `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.3:7=12`, LostUpdate},
		{"an addition is made twice", `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=10
			final x 1.2:#10`, `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			final x 1.2:#5`, LostAddition},
		{"an addition is made twice, with two versions", `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.4:7=17`, `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.3:7=12`, LostWrite},
		{"the last addition is lost in the end", `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.3:7=12
			final x 1.2:#5`, `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5
			1-11 + x 1.3:7=12
			final x 1.3:#12`, LostWrite},
		{"an addition to what nobody had loaded", `
			counting
			load x 1.1:#1
			0-10 + x 1.2:5=5`, `
			counting
			load x 1.1:#1
			0-10 + x 1.2:5=6`, LostAddition},
		{"an addition to an absent key", `
			counting
			load y 1.1
			0-10 + x 1.2:5=5`, `
			counting
			load x 1.1:#0
			0-10 + x 1.2:5=5`, LostAddition},
		{"an addition is reordered over a read", `
			0-10  + x 2:5=5, w y 2
			20-30 r x 1:#0`, `
			0-10  + x 2:5=5, w y 2
			20-30 r x 2:#5`, StaleRead},
		{"an addition before one that a reader saw, and the other behind it", `
			0-30 + x 2:5=5, r z 2
			1-29 r x 2:#5, w z 2`, `
			0-30 + x 2:5=5, r z 1
			1-29 r x 2:#5, w z 2`, InformationCycle},
		{"a reader between two additions of one transaction", `
			0-20 p 0 2, + x 2:5=5, p 1 2, + x 3:5=10
			5-15 r x 2:#5`, `
			0-20 p 0 2, + x 2:5=5, p 1 2, + x 3:5=10
			5-15 r x 3:#10`, NonRepeatableRead},
		{"an addition between two of one transaction may be", `
			0-20 p 0 2, + x 2:5=5, p 1 2, + x 4:5=11
			5-15 + x 3:1=6
			30-40 r x 3:#6`, `
			0-20 p 0 2, + x 2:5=5, p 1 2, + x 4:5=11
			5-15 + x 3:1=6
			30-40 r x 4:#11`, NonRepeatableRead},
		{"a read of the sum that another addition made", `
			0-10 + x 2:5=5
			1-11 + x 3:7=12
			5-15 r x 2:#12`, `
			0-10 + x 2:5=5
			1-11 + x 3:7=12
			5-15 r x 2:#5`, TornRead},
		{"an addition of a transaction that aborted is seen", `
			0-10 + x 2:5=5; aborted
			5-15 r x 2:#5`, `
			0-10 + x 2:5=5; aborted
			5-15 r x 1:#0`, AbortedRead},
		{"a write replaces one of two additions", `
			0-10 r x 1:#0, w x 4:#9
			1-11 + x 2:5=5
			2-12 + x 3:5=10`, `
			0-10 r x 3:#10, w x 4:#9
			1-11 + x 2:5=5
			2-12 + x 3:5=10`, LostUpdate},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := check(t, parse(t, c.broken), Options{})
			if r.Verdict != Violated || r.tally(c.want) == 0 {
				t.Errorf("%v, %+v, want %v", r.Verdict, r.Violations, c.want)
			}
			if r := check(t, parse(t, c.repaired), Options{}); r.Verdict != Serializable {
				t.Errorf("repaired: %v, %+v", r.Verdict, r.Violations)
			}
		})
	}
}

func (r *Result) tally(a Anomaly) uint64 {
	for _, t := range r.Tallies {
		if t.Anomaly == a {
			return t.Count
		}
	}
	return 0
}

// adder is a small history of additions, reads and writes of two numbers, for a search over all orders.
type adder struct {
	times [][2]int64
	ops   [][]history.Op
}

// drawAdder executes transactions one after the other, with times around their turns, then changes what some have seen
// or made.
func drawAdder(r *rand.Rand) *adder {
	const keys = 2
	m := &adder{}
	var version, number [keys]uint64
	for k := range version {
		version[k] = 1
	}
	for i := range 2 + r.IntN(4) {
		var ops []history.Op
		for range 1 + r.IntN(3) {
			k := r.IntN(keys)
			switch r.IntN(3) {
			case 0:
				if !slices.ContainsFunc(ops, func(o history.Op) bool { return o.Key == history.Key(k) }) {
					ops = append(ops, history.Op{Kind: history.OpRead, Key: history.Key(k), Version: history.Version(version[k]),
						Digest: history.DigestOfNumber(number[k])})
				}
			case 1:
				if r.IntN(2) > 0 {
					continue
				}
				version[k]++
				number[k] = r.Uint64N(50)
				ops = slices.DeleteFunc(ops, func(o history.Op) bool {
					return o.Key == history.Key(k) && o.Kind != history.OpRead
				})
				version[k] = m.last(ops, k, version[k])
				ops = append(ops, history.Op{Kind: history.OpWrite, Key: history.Key(k), Version: history.Version(version[k]),
					Digest: history.DigestOfNumber(number[k]), Sum: number[k]})
			default:
				version[k]++
				delta := 1 + r.Uint64N(50)
				number[k] += delta
				ops = append(ops, history.Op{Kind: history.OpAdd, Key: history.Key(k), Version: history.Version(version[k]),
					Delta: int64(delta), Sum: number[k], Digest: history.DigestOfNumber(number[k])})
			}
		}
		if len(ops) == 0 {
			continue
		}
		at := int64(10 * i)
		m.times = append(m.times, [2]int64{at - r.Int64N(40), at + 1 + r.Int64N(40)})
		m.ops = append(m.ops, ops)
	}
	for range 4 * r.IntN(2) {
		if len(m.ops) > 0 {
			m.spoil(r)
		}
	}
	return m
}

// last is a version that no operation of the transaction has yet.
func (m *adder) last(ops []history.Op, _ int, v uint64) uint64 {
	for _, o := range ops {
		v = max(v, uint64(o.Version)+1)
	}
	return v
}

// spoil has a read see another version of its key, or two writers of a key make each other's versions.
func (m *adder) spoil(r *rand.Rand) {
	i := r.IntN(len(m.ops))
	o := &m.ops[i][r.IntN(len(m.ops[i]))]
	for j := range m.ops {
		for k := range m.ops[j] {
			p := &m.ops[j][k]
			switch {
			case j == i || p.Key != o.Key || r.IntN(2) == 0:
			case o.Kind == history.OpRead && p.Kind != history.OpRead:
				o.Version, o.Digest = p.Version, p.Digest
				return
			case o.Kind == history.OpAdd && p.Kind == history.OpAdd:
				m.ops[i], m.ops[j] = m.ops[j], m.ops[i]
				return
			}
		}
	}
}

// serializable tries all orders.
func (m *adder) serializable(done []bool, order []int) bool {
	if len(order) == len(m.ops) {
		return true
	}
	for i := range m.ops {
		if done[i] {
			continue
		}
		fits := true
		for j := range m.ops {
			fits = fits && (done[j] || j == i || !m.before(j, i))
		}
		if fits {
			done[i] = true
			if m.serializable(done, append(order, i)) {
				return true
			}
			done[i] = false
		}
	}
	return false
}

// before reports whether transaction a must come before b.
func (m *adder) before(a, b int) bool {
	if m.times[a][1] < m.times[b][0] {
		return true
	}
	for _, x := range m.ops[a] {
		for _, y := range m.ops[b] {
			if x.Key != y.Key {
				continue
			}
			write := func(o history.Op) bool { return o.Kind != history.OpRead }
			switch {
			case !write(x) && !write(y), x.Kind == history.OpAdd && y.Kind == history.OpAdd:
			case write(x) && !write(y) && x.Version <= y.Version,
				!write(x) && write(y) && x.Version < y.Version,
				write(x) && write(y) && x.Version < y.Version:
				return true
			}
		}
	}
	return false
}

func (m *adder) history(t testing.TB) *history.History {
	var segments []*history.Segment
	for i, ops := range m.ops {
		r := history.NewRecorder(history.Options{Worker: history.WorkerID(i), Clock: history.Clock{Name: "true"}})
		x := r.Begin(m.times[i][0])
		for _, o := range ops {
			switch o.Kind {
			case history.OpRead:
				x.Read(0, o.Key, o.Version, o.Digest)
			case history.OpWrite:
				x.Write(0, o.Key, o.Version, o.Digest)
			default:
				x.Add(0, o.Key, o.Version, o.Delta, o.Sum)
			}
		}
		r.End(x, m.times[i][1], history.Committed)
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}
	h, err := history.New(history.Names{}, segments...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestAdditionsAgreeWithASearchOfAllOrders compares verdicts on small histories, where an order must fit versions and
// times, and additions of a key may come in any order between its reads and writes.
func TestAdditionsAgreeWithASearchOfAllOrders(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 4))
	var good, bad int
	for i := range 20_000 {
		m := drawAdder(r)
		if len(m.ops) == 0 {
			continue
		}
		want := m.serializable(make([]bool, len(m.ops)), nil)
		got := check(t, m.history(t), Options{})
		if (got.Verdict == Serializable) != want {
			t.Fatalf("history %d: %v, want serializable %v\n%v\n%+v\n%+v", i, got.Verdict, want, m.times, m.ops, got.Violations)
		}
		if want {
			good++
		} else {
			bad++
		}
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("%d serializable, %d not: the drawing is one-sided", good, bad)
	}
}

// TestAdditionsKeepTheGraphLinear: many additions of a key with many readers between have as many edges as operations,
// though each addition comes before each reader; and a cycle by way of that is found and explained.
func TestAdditionsKeepTheGraphLinear(t *testing.T) {
	const n = 3000
	build := func(stale bool) *history.History {
		r := history.NewRecorder(history.Options{Clock: history.Clock{Name: "true"}})
		var open []*history.Txn
		add := func(v int) {
			x := r.Begin(0)
			x.Add(0, 1, history.Version(v), 1, uint64(v-1))
			open = append(open, x)
		}
		for i := range n {
			add(2 + i)
		}
		for i := range n {
			x := r.Begin(0)
			x.Read(0, 1, n+1, history.DigestOfNumber(n))
			if stale && i == n/2 {
				x.Write(0, 2, 5, 5)
			}
			open = append(open, x)
		}
		for i := range n {
			add(n + 2 + i)
		}
		if stale { // the last addition has seen what a reader before it wrote only later
			open[len(open)-1].Read(0, 2, 4, 4)
		}
		for _, x := range open {
			r.End(x, 1, history.Committed)
		}
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		h, err := history.New(history.Names{}, s)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if r := check(t, build(false), Options{}); r.Verdict != Serializable || r.Edges > 5*n {
		t.Errorf("%v with %d edges of %d operations", r.Verdict, r.Edges, r.Operations)
	}
	r := check(t, build(true), Options{})
	if r.Verdict != Violated || len(r.Violations) == 0 || len(r.Violations[0].Steps) != 2 {
		t.Errorf("%v: %+v", r.Verdict, r.Violations)
	}
}

func ExampleAnomaly_addition() {
	fmt.Println(LostAddition, BrokenChain)
	// Output: lost addition broken chain
}
