package chop

import (
	"fmt"
	"slices"
	"strings"
)

// tryDefer checks the premises of §4.2. It returns why an operation may not be deferred, or "".
func (g *graph) tryDefer(d Deferral, t, op int) string {
	p := &g.w.Transactions[t]
	for _, a := range p.Ops[op].Accesses {
		if a.Mode != Add && a.Mode != Append {
			return fmt.Sprintf("it does not only add: %s", a)
		}
	}
	if p.Ops[op].Aborts {
		return "the user may abort in it"
	}
	for i := range p.Ops {
		if i != op && p.needs(i, op) {
			return fmt.Sprintf("%s needs its result", p.Ops[i].Name)
		}
	}
	for _, e := range g.edges[g.first[t]+op] {
		if name := g.w.Transactions[e.transaction].Name; !slices.Contains(d.Subscribers, name) {
			return fmt.Sprintf("%s has %s and does not subscribe", name, e.b)
		}
	}
	without := *g
	without.edges = make([][]edge, len(g.edges))
	for i := range g.edges {
		without.edges[i] = slices.Clone(g.edges[i])
	}
	without.cut(t, op)
	for _, s := range d.Subscribers {
		u := g.w.index(s)
		if g.out[u] || u == t {
			continue // it waits for all pieces
		}
		for i := range p.Ops {
			if steps := without.path(t, i, func(n node) bool { return n.transaction == u }); steps != nil {
				var words []string
				for _, x := range steps {
					words = append(words, x.String())
				}
				return fmt.Sprintf("%s sees %s on another way: %s", s, p.Name, strings.Join(words, "; "))
			}
		}
	}
	return ""
}

// waiting names the transactions that see what a publisher shows at once. Those that only read wait for what it defers.
// Of others, one that is no publisher itself may have its answer before the barrier at which this one takes place.
func (g *graph) waiting(d Deferral, t int) (notes []string) {
	for u := range g.w.Transactions {
		publishes := slices.ContainsFunc(g.w.Deferrals, func(x Deferral) bool { return g.w.index(x.Publisher) == u })
		if publishes && !g.out[u] {
			continue
		}
		for i := range g.w.Transactions[t].Ops {
			at := slices.IndexFunc(g.edges[g.first[t]+i], func(e edge) bool { return e.transaction == u })
			if at < 0 {
				continue
			}
			e := g.edges[g.first[t]+i][at]
			note := fmt.Sprintf("%s (%s) sees %s of %s at once: it ", g.w.Transactions[u].Name, e.b,
				g.w.Transactions[t].Ops[i].Name, d.Publisher)
			if g.out[u] {
				note += fmt.Sprintf("waits for the deferred %s too", d.Op)
			} else {
				note += fmt.Sprintf("may be answered before %s takes place: serializable, not strictly", d.Op)
			}
			notes = append(notes, note)
			break
		}
	}
	return notes
}
