package sim

// Outcome is what became of a fault of a schedule.
type Outcome struct {
	Fault Fault
	// Struck is whether it happened: a fault at a step that is never taken does not.
	Struck bool
	At     Time // when it struck
	// Hits counts what it changed, in things that depend on its kind: nodes that went down, came up
	// or stopped; datagrams; requests of RC that were late; QPs; paths from node to node that were
	// cut, or were no longer; registrations that failed; clocks and NICs. 0 = it struck in vain, as
	// a crash of a node that is down, or a rule for datagrams where none are sent.
	Hits uint64
	// StepsTaken is how often the fault's step was taken; 0 without a step.
	StepsTaken int
}

// hit counts one thing, if it was changed.
func (o *Outcome) hit(changed bool) {
	if changed {
		o.Hits++
	}
}

// Outcomes says what has become so far of the faults that Install was given, in their order.
func (w *World) Outcomes() []Outcome {
	out := make([]Outcome, len(w.outcomes))
	for i, o := range w.outcomes {
		out[i] = *o
		out[i].StepsTaken = w.steps.count(o.Fault.Step)
	}
	return out
}
