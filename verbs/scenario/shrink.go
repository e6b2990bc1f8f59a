package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"drtmd/verbs/sim"
)

// Shrink looks for the plainest dimensions, and then for the fewest faults, with which a failed run
// still fails in the same check. It gives that run, and the number of runs that this took. When ctx
// ends it early, the result is the smallest found so far.
func Shrink(ctx context.Context, s *Scenario, failed *Result) (smallest *Result, runs int,
	err error) {
	smallest = failed
	// still makes a run, and keeps it if it fails in the same check.
	still := func(o Options) (ok bool, err error) {
		r, err := Run(ctx, s, o)
		if err != nil {
			return false, err
		}
		runs++
		if r.Failure == nil || r.Failure.Check != failed.Failure.Check {
			return false, nil
		}
		smallest = r
		return true, nil
	}
	for again := true; again; {
		again = false
		o := smallest.Options
		o.Random, o.Faults = false, slices.Clone(smallest.Schedule)
		for _, plainer := range s.plainer(&o) {
			// An error: the faults do not fit it, as those of a worker that is left out.
			if ok, err := still(plainer); err == nil && ok {
				again = true
				break
			}
		}
	}
	sim.Shrink(smallest.Schedule, func(faults sim.Schedule) bool {
		if err != nil || ctx.Err() != nil {
			return false
		}
		o := smallest.Options
		o.Random, o.Faults = false, slices.Clone(faults)
		var ok bool
		if ok, err = still(o); err != nil && ctx.Err() != nil {
			err = nil
		}
		return ok
	})
	return smallest, runs, err
}

// ParseFaults reads a schedule as ReplayArgs prints it: faults between semicolons or lines.
func ParseFaults(text string) (sim.Schedule, error) {
	var lines strings.Builder
	quoted := false
	for _, c := range text {
		if c == '"' {
			quoted = !quoted
		}
		if c == ';' && !quoted {
			c = '\n'
		}
		lines.WriteRune(c)
	}
	return sim.ParseSchedule(lines.String())
}

// ReplayArgs are the arguments of drtmd that make the run again, quoted for a shell. cost names
// the cost model as the command line does, such as "--preset cx5-100g"; it may be empty.
func (r *Result) ReplayArgs(cost string) string {
	var b strings.Builder
	o := &r.Options
	fmt.Fprintf(&b, "sim --scenario %s --seed %d --nodes %d", r.Scenario, o.Seed, o.Nodes)
	if o.Workers > 0 {
		fmt.Fprintf(&b, " --workers %d --fibers %d", o.Workers, o.Fibers)
	}
	if len(o.Settings) > 0 {
		b.WriteString(" --set " + settings(o.Settings))
	}
	if o.Mutation != "" {
		b.WriteString(" --mutation " + o.Mutation)
	}
	if cost != "" {
		b.WriteString(" " + cost)
	}
	if o.Order != nil {
		b.WriteString(" --order " + FormatOrder(o.Order))
	}
	switch {
	case o.Random:
		b.WriteString(" --faults random")
	case len(r.Schedule) > 0:
		lines := strings.Split(strings.TrimSuffix(r.Schedule.String(), "\n"), "\n")
		text := strings.ReplaceAll(strings.Join(lines, "; "), "'", `'\''`)
		fmt.Fprintf(&b, " --faults '%s'", text)
	default:
		b.WriteString(" --faults none")
	}
	return b.String()
}
