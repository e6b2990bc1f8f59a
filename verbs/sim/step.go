package sim

import "slices"

// steps counts the marked protocol steps of a run.
type steps struct {
	count map[string]int // looked up only
	names []string       // in the order of their first occurrence
}

// StepCount is a marked step and how often it was taken.
type StepCount struct {
	Name  string
	Count int
}

// Step marks that a node takes a named step of a protocol, at this point of its code. Faults
// that are armed for this occurrence strike before Step returns: the caller then looks whether
// its node is still up.
func (w *World) Step(n *Node, name string) { w.step(n, 0, name) }

// step is Step of a worker.
func (w *World) step(n *Node, worker int, name string) {
	if w.steps.count == nil {
		w.steps.count = map[string]int{}
	}
	k := w.steps.count[name] + 1
	w.steps.count[name] = k
	if k == 1 {
		w.steps.names = append(w.steps.names, name)
	}
	w.mark(evStep, int32(n.index), name)
	armed := func(o *Outcome) bool { return o.Fault.Count == k }
	if !slices.ContainsFunc(w.arms[name], armed) {
		return
	}
	for _, o := range slices.Clone(w.arms[name]) {
		f := o.Fault
		if o.Struck || f.Count != k {
			continue
		}
		w.arms[name] = remove(w.arms[name], o)
		if f.Node == "" {
			f.Node = n.name
		}
		if f.Worker == WorkerAtStep {
			f.Worker = worker
		}
		w.strike(f, o)
	}
}

// Steps lists the steps that were taken, in the order of their first occurrence. A test crashes
// at each of them in turn: run once, list, and run again with a fault for each occurrence.
func (w *World) Steps() []StepCount {
	var out []StepCount
	for _, name := range w.steps.names {
		out = append(out, StepCount{name, w.steps.count[name]})
	}
	return out
}

// mark adds a line to the trace that is no event of the heap.
func (w *World) mark(kind eventKind, node int32, text string) {
	w.write(record{seq: max(w.stats.Events, 1), at: w.now, node: node, kind: kind, text: text})
}
