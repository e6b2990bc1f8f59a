package chop

import (
	"fmt"
	"slices"
)

// Options of Analyse.
type Options struct {
	// Optimised adds §4.2 to §4.4 to the steps of §4.1.
	Optimised bool
	// Mutation is a deliberate bug, for tests.
	Mutation Mutation
}

// indexSuffix of the searches that are split off: DISTRICT-IDX in the paper.
const indexSuffix = "-IDX"

// Analyse chops a workload as finely as its SC-cycles allow. A declaration that Check refuses is an error.
func Analyse(declared *Workload, o Options) (*Result, error) {
	if err := declared.Check(nil); err != nil {
		return nil, err
	}
	r := &Result{Optimised: o.Optimised}
	notes := make([][]string, len(declared.Transactions))
	w := declared
	if o.Optimised {
		w = splitSearches(declared, notes)
	}
	g := newGraph(w, o)
	subscribes := map[int][]string{}
	if o.Optimised {
		for i := range w.Transactions {
			g.out[i] = w.Transactions[i].ReadOnly
		}
		for _, d := range w.Deferrals {
			t := w.index(d.Publisher)
			op := w.Transactions[t].op(d.Op)
			if refused := g.tryDefer(d, t, op); refused != "" {
				notes[t] = append(notes[t], fmt.Sprintf("%s is not deferred: %s", d.Op, refused))
				continue
			}
			g.cut(t, op)
			g.later[[2]int{t, op}] = true
			for _, s := range d.Subscribers {
				subscribes[w.index(s)] = append(subscribes[w.index(s)], d.Publisher)
			}
			notes[t] = append(notes[t], g.waiting(d, t)...)
		}
	}
	for t := range w.Transactions {
		c := Chopped{Name: w.Transactions[t].Name, Short: w.Transactions[t].Short, Notes: notes[t],
			Subscribes: subscribes[t], TwoRounds: g.out[t]}
		m := g.merge(t)
		for _, group := range m.ordered() {
			p := Piece{Merges: m.reasons(group)}
			for _, op := range group {
				x := &w.Transactions[t].Ops[op]
				p.Ops = append(p.Ops, x.Name)
				p.Aborts = p.Aborts || x.Aborts
				p.Outside = p.Outside || isSearch(x)
				p.Deferred = p.Deferred || g.later[[2]int{t, op}]
				p.Conflicts = p.Conflicts || len(g.of(t, op)) > 0
			}
			c.Pieces = append(c.Pieces, p)
		}
		r.Transactions = append(r.Transactions, c)
	}
	r.Edges = g.between(r)
	return r, nil
}

// splitSearches makes pieces of the searches of stationary indexes (§4.3).
func splitSearches(w *Workload, notes [][]string) *Workload {
	split := &Workload{Deferrals: w.Deferrals}
	for i, t := range w.Transactions {
		ops := t.Ops
		t.Ops = nil
		for _, o := range ops {
			if o.Index != "" && !t.ReadOnly {
				if by := w.changes(o.Index); by != "" {
					notes[i] = append(notes[i], fmt.Sprintf("the search of %s stays in %s: %s is not stationary, since %s",
						o.Index, o.Name, o.Index, by))
				} else {
					t.Ops = append(t.Ops, Op{Name: o.Name + indexSuffix, Accesses: []Access{{Of: o.Index, Mode: search}},
						After: o.After})
					o.After = append(slices.Clone(o.After), o.Name+indexSuffix)
				}
			}
			t.Ops = append(t.Ops, o)
		}
		split.Transactions = append(split.Transactions, t)
	}
	return split
}

// changes says which transaction inserts into a table or deletes from it; "": the table is stationary.
func (w *Workload) changes(table string) string {
	for _, t := range w.Transactions {
		for _, o := range t.Ops {
			for _, a := range o.Accesses {
				if a.table() == table && (a.Mode == Insert || a.Mode == Delete || a.Mode == Append) {
					return fmt.Sprintf("%s of %s has %s", o.Name, t.Name, a)
				}
			}
		}
	}
	return ""
}

func isSearch(o *Op) bool { return len(o.Accesses) == 1 && o.Accesses[0].Mode == search }

// between are the C-edges of the pieces, each once.
func (g *graph) between(r *Result) (all []Edge) {
	piece := func(t int, op int) int {
		name := g.w.Transactions[t].Ops[op].Name
		return slices.IndexFunc(r.Transactions[t].Pieces, func(p Piece) bool { return slices.Contains(p.Ops, name) })
	}
	for t := range g.w.Transactions {
		for op := range g.w.Transactions[t].Ops {
			for _, e := range g.of(t, op) {
				x := Edge{PieceID{t, piece(t, op)}, PieceID{e.transaction, piece(e.transaction, e.op)}, [2]Access{e.a, e.b}}
				if !slices.ContainsFunc(all, func(y Edge) bool {
					return x.From == y.From && x.To == y.To || x.From == y.To && x.To == y.From
				}) {
					all = append(all, x)
				}
			}
		}
	}
	return all
}
