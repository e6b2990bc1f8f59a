package chop

import "slices"

// instances of each transaction in the graph (§4.1): more add no cycle that two do not have.
const instances = 2

// node is an operation of an instance of a transaction.
type node struct{ transaction, instance, op int }

// graph is the SC-graph of operations. All instances of an operation have the same C-edges, so it keeps them by
// operation; an edge from an operation to itself, or to another of its transaction, is one between two instances.
type graph struct {
	w       *Workload // with what Options make of it
	options Options
	first   []int // number of a transaction's first operation
	edges   [][]edge
	out     []bool          // transactions that are not in the graph
	later   map[[2]int]bool // transaction and operation: deferred
}

// edge leads to an operation of another instance.
type edge struct {
	transaction, op int
	a, b            Access // here and there
}

func newGraph(w *Workload, o Options) *graph {
	g := &graph{w: w, options: o, out: make([]bool, len(w.Transactions)), later: map[[2]int]bool{}}
	n := 0
	for i := range w.Transactions {
		g.first = append(g.first, n)
		n += len(w.Transactions[i].Ops)
	}
	g.edges = make([][]edge, n)
	for t := range w.Transactions {
		for i := range w.Transactions[t].Ops {
			for u := range w.Transactions {
				for j := range w.Transactions[u].Ops {
					if a, b, ok := g.conflict(&w.Transactions[t], i, &w.Transactions[u], j); ok {
						n := g.first[t] + i
						g.edges[n] = append(g.edges[n], edge{u, j, a, b})
					}
				}
			}
		}
	}
	return g
}

// of are the C-edges of an operation to those in the graph.
func (g *graph) of(t, op int) []edge {
	if g.out[t] {
		return nil
	}
	var all []edge
	for _, e := range g.edges[g.first[t]+op] {
		if !g.out[e.transaction] {
			all = append(all, e)
		}
	}
	return all
}

// cut removes the C-edges of an operation.
func (g *graph) cut(t, op int) {
	g.edges[g.first[t]+op] = nil
	for n := range g.edges {
		g.edges[n] = slices.DeleteFunc(g.edges[n], func(e edge) bool { return e.transaction == t && e.op == op })
	}
}

// path is the shortest way from an operation of a transaction's instance 0, which begins and ends with a C-edge and
// touches no other operation of that instance, to a node that arrived accepts; nil: there is none.
func (g *graph) path(t, op int, arrived func(node) bool) []Step {
	visits := []visit{{node: node{t, 0, op}, from: -1}}
	seen := map[node]bool{}
	for at := 0; at < len(visits); at++ {
		v := visits[at]
		next := func(n node, s Step, byC bool) {
			if !seen[n] {
				seen[n] = true
				visits = append(visits, visit{n, at, s, byC})
			}
		}
		for _, e := range g.of(v.transaction, v.op) {
			for i := range instances {
				n := node{e.transaction, i, e.op}
				if n.transaction == v.transaction && i == v.instance {
					continue
				}
				s := Step{From: g.name(v.node), To: g.name(n), By: [2]Access{e.a, e.b}}
				if arrived(n) {
					return trail(visits, at, s)
				}
				if n.transaction != t || n.instance != 0 {
					next(n, s, true)
				}
			}
		}
		if at > 0 {
			for o := range g.w.Transactions[v.transaction].Ops {
				next(node{v.transaction, v.instance, o}, Step{}, false)
			}
		}
	}
	return nil
}

// visit of a node in a search for a path.
type visit struct {
	node
	from int  // index of the visit before
	step Step // that led here, if byC
	byC  bool // otherwise by an S-edge
}

// trail are the C-edges of the way to a visit, and a last one.
func trail(visits []visit, at int, last Step) []Step {
	steps := []Step{last}
	for ; at > 0; at = visits[at].from {
		if visits[at].byC {
			steps = append(steps, visits[at].step)
		}
	}
	slices.Reverse(steps)
	return steps
}

// name is what words call a node.
func (g *graph) name(n node) Place {
	t := &g.w.Transactions[n.transaction]
	return Place{Transaction: t.Name, Instance: n.instance + 1, Op: t.Ops[n.op].Name}
}
