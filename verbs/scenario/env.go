package scenario

import (
	"fmt"

	"drtmd/verbs/sim"
)

// Env is what a run consists of. It belongs to the run's goroutine.
type Env struct {
	World *sim.World
	// Nodes, Workers and Fibers are the size that was asked for.
	Nodes, Workers, Fibers int
	Until                  sim.Time // programs begin nothing new from then on
	Mutation               string

	settings []Setting
	schedule sim.Schedule
	machines []*Machine
	atEnd    []func()
	counts   []Count
	failure  *Failure
	ordering *ordering // nil: messages arrive at their times
	// Of crashes in a chosen order: see Scenario.
	crashKept bool
	crashFor  sim.Time
	cut       bool     // the run goes as another one has gone: it is of no further interest
	ended     sim.Time // when the last fiber ended
}

// Over reports whether the programs should come to their end.
func (e *Env) Over() bool { return e.World.Now() >= e.Until }

// Mutated reports whether a deliberate bug is switched on.
func (e *Env) Mutated(name string) bool { return e.Mutation == name }

// Setting is the value of a dimension of the run.
func (e *Env) Setting(name string) string { return valueOf(e.settings, name) }

// Fail says that a check does not hold, and ends the run. The first failure is the one that
// counts.
func (e *Env) Fail(check, format string, args ...any) {
	if e.failure != nil {
		return
	}
	e.failure = &Failure{Check: check, Text: fmt.Sprintf(format, args...), At: e.World.Now(),
		Event: e.World.Stats().Events, Events: e.World.Recent()}
}

// AtEnd has a check made when nothing more can happen.
func (e *Env) AtEnd(check func()) { e.atEnd = append(e.atEnd, check) }

// Count reports a figure of the run.
func (e *Env) Count(name string, v uint64) { e.counts = append(e.counts, Count{name, v}) }

// names of the machines, in order.
func (e *Env) names() []string {
	var out []string
	for _, m := range e.machines {
		out = append(out, m.Node.Name())
	}
	return out
}

// outcomes says what became of the faults. One that struck when the programs had ended hit nothing.
func (e *Env) outcomes() []sim.Outcome {
	out := e.World.Outcomes()
	for i := range out {
		if e.failure == nil && out[i].At > e.ended {
			out[i].Hits = 0
		}
	}
	return out
}

// fewestWorkers is the number of workers that each machine has at least.
func (e *Env) fewestWorkers() int {
	least := e.machines[0].cfg.Workers
	for _, m := range e.machines {
		least = min(least, m.cfg.Workers)
	}
	return least
}

// fiberStats sums up over all lives of all machines.
func (e *Env) fiberStats() (resumes, started uint64) {
	for _, m := range e.machines {
		for _, l := range m.lives {
			for _, w := range l.workers {
				resumes += w.Stats.Resumes
				started += w.Stats.Tasks
			}
		}
	}
	return resumes, started
}

// kill frees every coroutine: those are goroutines, which the collector does not find.
func (e *Env) kill() {
	for _, m := range e.machines {
		for _, l := range m.lives {
			l.kill()
		}
	}
}
