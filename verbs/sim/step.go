package sim

import "slices"

// steps counts the marked protocol steps of a run.
type steps struct {
	byName map[string]*stepState // looked up only
	taken  []*stepState          // in the order of their first occurrence
}

// stepState is of one name. Protocols take steps at nearly every line that they touch, so one look-up has to do.
type stepState struct {
	name  string
	count int        // how often it was taken
	armed []*Outcome // of faults that wait for it, not struck yet
}

// of gives the state of a step, at first an empty one.
func (s *steps) of(name string) *stepState {
	x := s.byName[name]
	if x == nil {
		if s.byName == nil {
			s.byName = map[string]*stepState{}
		}
		x = &stepState{name: name}
		s.byName[name] = x
	}
	return x
}

// count is how often a step was taken.
func (s *steps) count(name string) int {
	if x := s.byName[name]; x != nil {
		return x.count
	}
	return 0
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
	s := w.steps.of(name)
	s.count++
	k := s.count
	if k == 1 {
		w.steps.taken = append(w.steps.taken, s)
	}
	w.mark(evStep, int32(n.index), name)
	if !slices.ContainsFunc(s.armed, func(o *Outcome) bool { return o.Fault.Count == k }) {
		return
	}
	for _, o := range slices.Clone(s.armed) {
		f := o.Fault
		if o.Struck || f.Count != k {
			continue
		}
		s.armed = remove(s.armed, o)
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
	for _, s := range w.steps.taken {
		out = append(out, StepCount{s.name, s.count})
	}
	return out
}

// mark adds a line to the trace that is no event of the heap.
func (w *World) mark(kind eventKind, node int32, text string) {
	w.write(&record{seq: max(w.stats.Events, 1), at: w.now, node: node, kind: kind, text: text})
}
