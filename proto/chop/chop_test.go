package chop

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// drawn is a random workload of up to three transactions.
func drawn(r *rand.Rand) *Workload {
	w := &Workload{}
	for t := range 1 + r.IntN(3) {
		x := Transaction{Name: fmt.Sprint("t", t), Short: "T"}
		for o := range 1 + r.IntN(4) {
			op := Op{Name: fmt.Sprint("o", o), Aborts: r.IntN(6) == 0}
			for range 1 + r.IntN(2) {
				op.Accesses = append(op.Accesses, Access{Of: []string{"a", "b", "c"}[r.IntN(3)], Mode: Read + Mode(r.IntN(3))})
			}
			for _, before := range x.Ops {
				if r.IntN(3) == 0 {
					op.After = append(op.After, before.Name)
				}
			}
			x.Ops = append(x.Ops, op)
		}
		w.Transactions = append(w.Transactions, x)
	}
	return w
}

// running is an instance of a transaction.
type running struct {
	t    *Transaction
	left []Piece
}

// history runs some instances of a workload's transactions in a random order of their pieces. It returns, for
// each pair of instances, whether a conflicting operation of the first came before one of the second.
func history(r *rand.Rand, w *Workload, chopped *Result) [][]bool {
	const n = 3
	var all []running
	before := make([][]bool, n)
	for i := range n {
		k := r.IntN(len(w.Transactions))
		all = append(all, running{&w.Transactions[k], slices.Clone(chopped.Transactions[k].Pieces)})
		before[i] = make([]bool, n)
	}
	type done struct {
		by int
		op *Op
	}
	var log []done
	for {
		var can []int
		for i := range all {
			if len(all[i].left) > 0 {
				can = append(can, i)
			}
		}
		if len(can) == 0 {
			return before
		}
		i := can[r.IntN(len(can))]
		for _, name := range all[i].left[0].Ops {
			o := &all[i].t.Ops[all[i].t.op(name)]
			for _, d := range log {
				if d.by != i && clash(d.op, o) {
					before[d.by][i] = true
				}
			}
			log = append(log, done{i, o})
		}
		all[i].left = all[i].left[1:]
	}
}

// clash reports whether the order of two operations matters. It is written apart from the library's.
func clash(a, b *Op) bool {
	for _, x := range a.Accesses {
		for _, y := range b.Accesses {
			same := x.Mode == y.Mode && (x.Mode == Read || x.Mode == Add)
			if x.Of == y.Of && !same {
				return true
			}
		}
	}
	return false
}

func cyclic(before [][]bool) bool {
	n := len(before)
	for k := range n {
		for i := range n {
			for j := range n {
				before[i][j] = before[i][j] || before[i][k] && before[k][j]
			}
		}
	}
	for i := range n {
		if before[i][i] {
			return true
		}
	}
	return false
}

// search looks for a random workload whose chopped transactions are not serializable, or that is chopped against
// the rules, and says which; "": it found none.
func searchFor(t *testing.T, m Mutation, workloads int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 1))
	for range workloads {
		w := drawn(r)
		got, err := Analyse(w, Options{Mutation: m})
		if err != nil {
			t.Fatal(err)
		}
		if wrong := rules(w, got); wrong != "" {
			return wrong
		}
		for range 60 {
			if cyclic(history(r, w, got)) {
				return "not serializable:\n" + strings.Join(got.Words(), "\n")
			}
		}
	}
	return ""
}

// rules says what is wrong with the pieces by themselves.
func rules(w *Workload, got *Result) string {
	for i := range got.Transactions {
		t, seen := &w.Transactions[i], map[string]bool{}
		for k, p := range got.Transactions[i].Pieces {
			for _, name := range p.Ops {
				seen[name] = true
			}
			for _, name := range p.Ops {
				o := &t.Ops[t.op(name)]
				if k > 0 && o.Aborts {
					return fmt.Sprintf("user abort of %s in piece %d", name, k+1)
				}
				for _, a := range o.After {
					if !seen[a] {
						return fmt.Sprintf("%s runs before %s", name, a)
					}
				}
			}
		}
		if len(seen) != len(t.Ops) {
			return fmt.Sprintf("%d of %d operations", len(seen), len(t.Ops))
		}
	}
	return ""
}

// TestChoppedTransactionsAreSerializable (§4.1): in any order of the pieces, for random workloads.
func TestChoppedTransactionsAreSerializable(t *testing.T) {
	if found := searchFor(t, 0, 1500); found != "" {
		t.Error(found)
	}
}

// TestMutationsAreFound by the same search.
func TestMutationsAreFound(t *testing.T) {
	for i, m := range Mutations() {
		if found := searchFor(t, Mutation(i+1), 1500); found == "" {
			t.Errorf("nothing is wrong with %s", m.Name)
		}
	}
}

// names are the pieces of a transaction.
func names(c *Chopped) string {
	var all []string
	for i := range c.Pieces {
		all = append(all, c.Pieces[i].Name())
	}
	return strings.Join(all, " | ")
}

// TestFigure5 (§4.1): two transactions, of which the first becomes one piece, and so does the second.
func TestFigure5(t *testing.T) {
	ops := func(a, b string) []Op {
		return []Op{{Name: a, Accesses: []Access{{Of: a, Mode: Write}}}, {Name: b, Accesses: []Access{{Of: b, Mode: Write}}}}
	}
	w := &Workload{Transactions: []Transaction{{Name: "TX1", Ops: ops("A", "B")}, {Name: "TX2", Ops: ops("B", "C")}}}
	w.Transactions[1].Ops[1].Accesses[0].Mode = Read // nobody writes C
	r, err := Analyse(w, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(r.Find("TX1")); got != "A B" {
		t.Errorf("TX1: %s", got)
	}
	m := r.Find("TX1").Pieces[0].Merges
	if want := "A and B lie on an SC-cycle: A of TX1 (write A) conflicts with A of another TX1 (write A); B of " +
		"another TX1 (write B) conflicts with B of TX1 (write B)"; len(m) != 1 || m[0].String() != want {
		t.Errorf("%v, want %s", m, want)
	}
	if got := names(r.Find("TX2")); got != "C | B" {
		t.Errorf("TX2: %s; what conflicts with nobody comes first", got)
	}
}

// publishing is a publisher P, whose D adds to x, and a subscriber S that reads it.
func publishing() *Workload {
	op := func(name, of string, m Mode) Op { return Op{Name: name, Accesses: []Access{{Of: of, Mode: m}}} }
	w := &Workload{Transactions: []Transaction{
		{Name: "P", Ops: []Op{op("A", "q", Write), op("D", "x", Add)}},
		{Name: "S", Ops: []Op{op("R", "x", Write)}},
		{Name: "T", Ops: []Op{op("B", "q", Write), op("E", "y", Read)}},
		{Name: "R", ReadOnly: true, Ops: []Op{op("Q", "q", Read), op("X", "x", Read)}}},
		Deferrals: []Deferral{{"P", "D", []string{"S", "R"}}}}
	w.Transactions[0].Ops[1].After = []string{"A"}
	return w
}

// TestDeferralNeedsItsPremises (§4.2).
func TestDeferralNeedsItsPremises(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(w *Workload)
		want   string // in the notes of P
	}{
		{"deferred", func(*Workload) {}, "R (read q) sees A of P at once: it waits for the deferred D too"},
		{"not only an addition", func(w *Workload) { w.Transactions[0].Ops[1].Accesses[0].Mode = Write },
			"D is not deferred: it does not only add: write x"},
		{"user abort", func(w *Workload) { w.Transactions[0].Ops[1].Aborts = true },
			"D is not deferred: the user may abort in it"},
		{"result needed", func(w *Workload) {
			w.Transactions[0].Ops = append(w.Transactions[0].Ops, Op{Name: "F", After: []string{"D"}})
		}, "D is not deferred: F needs its result"},
		{"no subscriber", func(w *Workload) { w.Deferrals[0].Subscribers = []string{"S"} },
			"D is not deferred: R has read x and does not subscribe"},
		{"another C-path", func(w *Workload) {
			w.Transactions[1].Ops = append(w.Transactions[1].Ops, Op{Name: "q", Accesses: []Access{{Of: "q", Mode: Read}}})
		}, "D is not deferred: S sees P on another way: A of P (write q) conflicts with q of S (read q)"},
		{"by two pieces of a third", func(w *Workload) {
			w.Transactions[1].Ops = append(w.Transactions[1].Ops, Op{Name: "y", Accesses: []Access{{Of: "y", Mode: Write}}})
		}, "D is not deferred: S sees P on another way: A of P (write q) conflicts with B of T (write q); E of T (read y) " +
			"conflicts with y of S (write y)"},
	} {
		w := publishing()
		x.change(w)
		r, err := Analyse(w, Options{Optimised: true})
		if err != nil {
			t.Fatal(err)
		}
		p := r.Find("P")
		if !slices.Contains(p.Notes, x.want) {
			t.Errorf("%s: %q, want %q", x.name, p.Notes, x.want)
		}
		refused := strings.Contains(x.want, "not deferred")
		if deferred := p.Pieces[len(p.Pieces)-1].Deferred; deferred == refused {
			t.Errorf("%s: deferred: %v", x.name, deferred)
		}
	}
}

// TestWhoSeesAPublisherAtOnceIsNamed: who only reads waits; another publisher takes place at the same barrier; anybody
// else may be answered before, which costs strictness.
func TestWhoSeesAPublisherAtOnceIsNamed(t *testing.T) {
	w := publishing()
	strictly := "T (write q) sees A of P at once: it may be answered before D takes place: serializable, not strictly"
	notes := func() []string {
		r, err := Analyse(w, Options{Optimised: true})
		if err != nil {
			t.Fatal(err)
		}
		return r.Find("P").Notes
	}
	if got := notes(); !slices.Contains(got, strictly) {
		t.Errorf("%q, want %q", got, strictly)
	}
	w.Transactions[2].Ops[1].Accesses[0] = Access{Of: "y", Mode: Add}
	w.Deferrals = append(w.Deferrals, Deferral{"T", "E", nil})
	if got := notes(); slices.Contains(got, strictly) {
		t.Errorf("%q, though T is a publisher", got)
	}
}

// TestDeferredPiecesComeLast, also if they conflict with nobody any more.
func TestDeferredPiecesComeLast(t *testing.T) {
	w := publishing()
	w.Transactions[0].Ops[1].After = nil
	r, err := Analyse(w, Options{Optimised: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(r.Find("P")); got != "A | D" {
		t.Errorf("%s; what is deferred runs last", got)
	}
}

// TestSearchesOfStationaryIndexesAreOutside (§4.3): one insertion anywhere keeps the search in its piece.
func TestSearchesOfStationaryIndexesAreOutside(t *testing.T) {
	w := &Workload{Transactions: []Transaction{{Name: "T", Ops: []Op{
		{Name: "A", Accesses: []Access{{Of: "a", Mode: Write}}, Index: "a"},
		{Name: "B", Accesses: []Access{{Of: "b", Mode: Write}}, Index: "b"}}},
		{Name: "U", Ops: []Op{{Name: "I", Accesses: []Access{{Of: "b", Mode: Insert}}}}}}}
	r, err := Analyse(w, Options{Optimised: true})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Find("T")
	if got := names(c); got != "A-IDX | A B" || !c.Pieces[0].Outside || c.Pieces[1].Outside {
		t.Errorf("%s, %+v", got, c.Pieces)
	}
	if want := "the search of b stays in B: b is not stationary, since I of U has insert b"; !slices.Contains(c.Notes, want) {
		t.Errorf("%q, want %q", c.Notes, want)
	}
}

// TestWrongDeclarationsAreRefused in words.
func TestWrongDeclarationsAreRefused(t *testing.T) {
	one := func(o ...Op) *Workload { return &Workload{Transactions: []Transaction{{Name: "T", Ops: o}}} }
	a := Op{Name: "A", Accesses: []Access{{Of: "a.x", Mode: Read}}}
	for _, x := range []struct {
		w    *Workload
		want string
	}{
		{one(), "T: it has no operation"},
		{one(a, a), `T: operation "A" is declared twice, or has no name`},
		{one(Op{Name: "A", After: []string{"B"}}), "T: A comes after B, which is not declared before it"},
		{one(Op{Name: "A", Accesses: []Access{{Of: "a"}}}), "T: A: an access to a has no mode"},
		{one(Op{Name: "A", Accesses: []Access{{Of: "z.y", Mode: Read}}}), "T: A: read z.y: the workload has no table z"},
		{one(Op{Name: "A", Accesses: []Access{{Of: "a", Mode: Read, Owner: "A"}}}),
			"T: A: read a: the owner A neither inserts nor deletes"},
		{one(Op{Name: "A", Index: "z"}), "T: A: search of z: the workload has no such table"},
		{&Workload{Transactions: []Transaction{{Name: "T", ReadOnly: true, Ops: []Op{
			{Name: "A", Accesses: []Access{{Of: "a", Mode: Add}}}}}}}, "T: A: add a in a read-only transaction"},
		{&Workload{Transactions: []Transaction{{Name: "T", Ops: []Op{a}}, {Name: "T", Ops: []Op{a}}}},
			`transaction "T" is declared twice, or has no name`},
		{&Workload{Transactions: []Transaction{{Name: "T", Ops: []Op{a}}}, Deferrals: []Deferral{{"T", "B", nil}}},
			"the deferred operation B of T is not declared"},
		{&Workload{Transactions: []Transaction{{Name: "T", Ops: []Op{a}}}, Deferrals: []Deferral{{"T", "A", []string{"U"}}}},
			"the subscriber U of T is not declared"},
	} {
		if err := x.w.Check([]string{"a"}); err == nil || err.Error() != x.want {
			t.Errorf("%v, want %s", err, x.want)
		}
	}
	if err := one(a).Check([]string{"a"}); err != nil {
		t.Error(err)
	}
}
