package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// violationError ends the command after a check failed; the report has said how.
type violationError struct{ failure *scenario.Failure }

func (e *violationError) Error() string { return "check failed: " + e.failure.Check }

// notTriggeredError ends the command if faults of --faults were never triggered: the checks held, but say
// nothing about those faults. The report has named them.
type notTriggeredError struct {
	count int
	first sim.Fault
	taken int // how often the step of the first was taken in a run, at most
}

func (e *notTriggeredError) Error() string {
	more := ""
	if e.count > 1 {
		more = fmt.Sprintf(", and %d more", e.count-1)
	}
	return fmt.Sprintf("a fault was never triggered: %s%s; its step was reached %d times: name an "+
		"earlier occurrence, or leave the fault out", e.first, more, e.taken)
}

// spent is what a run took of this machine.
type spent struct{ wall, cpu time.Duration }

// stopwatch measures wall time and the CPU time of the process.
func stopwatch() func() spent {
	start, used := time.Now(), cpuTime()
	return func() spent { return spent{time.Since(start), cpuTime() - used} }
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rate is a number per second, 0 if no time has passed.
func rate(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

func (r *simRun) run(ctx context.Context) error {
	switch {
	case r.scenario == nil:
		return r.saturation()
	case r.search:
		return r.runSearch(ctx)
	case r.flags.everyStep:
		return r.runEveryStep(ctx)
	case r.flags.everyOrder:
		return r.runEveryOrder(ctx)
	}
	return r.runOne(ctx)
}

// runOne runs a single seed.
func (r *simRun) runOne(ctx context.Context) error {
	if r.flags.trace {
		r.options.OnEvent = func(e sim.Event) { fmt.Fprintln(r.stdout, e) }
	}
	took := stopwatch()
	result, err := scenario.Run(ctx, r.scenario, r.options)
	if err != nil {
		return r.app.wrongOptions(err)
	}
	d := newSimDocument(r, result, took())
	d.addRun(result)
	d.addOutcomes(r, result.Outcomes)
	return r.conclude(ctx, d, result)
}

// runSearch runs a range of seeds.
func (r *simRun) runSearch(ctx context.Context) error {
	moreThreads(r.flags.jobs)
	show, finish := r.showProgress("seeds")
	took := stopwatch()
	found, err := scenario.Search(ctx, r.scenario, scenario.SearchOptions{Options: r.options,
		First: r.first, Last: r.last, Jobs: r.flags.jobs,
		Progress: func(done, total uint64, _ *scenario.Result) { show(done, total) }})
	finish()
	if err != nil && ctx.Err() == nil {
		return r.app.wrongOptions(err)
	}
	d := newSimDocument(r, found.Failure, took())
	d.FirstSeed, d.LastSeed, d.Runs = &r.first, &r.last, found.Runs
	d.Hash = fmt.Sprintf("%016x", found.Hash)
	d.setEvents(found.Events, found.Resumes)
	d.addOutcomes(r, found.Outcomes)
	if err != nil && found.Failure == nil { // interrupted: say how far it came
		d.Interrupted = true
		return firstError(r.print(d), err)
	}
	return r.conclude(ctx, d, found.Failure)
}

// runEveryStep crashes at each marked step.
func (r *simRun) runEveryStep(ctx context.Context) error {
	moreThreads(r.flags.jobs)
	show, finish := r.showProgress("crashes")
	took := stopwatch()
	x, err := scenario.Exhaust(ctx, r.scenario, scenario.ExhaustOptions{Options: r.options,
		Jobs:     r.flags.jobs,
		Progress: func(done, total int) { show(uint64(done), uint64(total)) }})
	finish()
	if err != nil && (ctx.Err() == nil || x.Base == nil) {
		return r.app.wrongOptions(err)
	}
	d := newSimDocument(r, x.Base, took())
	d.Seed, d.Schedule = &x.Base.Options.Seed, faultLines(x.Base)
	d.Runs = uint64(x.Runs) + 1
	d.Hash = fmt.Sprintf("%016x", x.Hash)
	d.setEvents(x.Events, x.Resumes)
	d.EveryStep, d.Planned, d.Crashes, d.Struck = true, x.Planned, x.Runs, x.Struck
	d.addSteps(x.Base)
	d.addOutcomes(r, x.Base.Outcomes)
	if err != nil && x.Failure == nil {
		d.Interrupted = true
		return firstError(r.print(d), err)
	}
	return r.conclude(ctx, d, x.Failure)
}

// runEveryOrder makes every order of messages.
func (r *simRun) runEveryOrder(ctx context.Context) error {
	show, finish := r.showProgress("orders")
	took := stopwatch()
	run := scenario.Orders
	if r.flags.drawn {
		run = scenario.Wander
	}
	x, err := run(ctx, r.scenario, scenario.OrdersOptions{Options: r.options, Crashes: r.flags.crashes,
		Most: r.flags.runs, Progress: func(runs int) { show(uint64(runs), uint64(r.flags.runs)) }})
	finish()
	if err != nil && (ctx.Err() == nil || x.Example == nil) {
		return r.app.wrongOptions(err)
	}
	result := x.Example
	if result == nil {
		result = x.Failure
	}
	d := newSimDocument(r, result, took())
	d.addRun(result)
	d.Runs, d.Hash = uint64(x.Orders+x.Cut+x.Crashes), fmt.Sprintf("%016x", x.Hash)
	d.virtual = ""
	d.setEvents(x.Events, x.Resumes)
	d.Orders = &simOrders{x.Orders, x.Cut, x.Missed, x.Crashes, x.Arrivals, x.States, x.Whole}
	if err != nil && x.Failure == nil {
		d.Interrupted = true
		return firstError(r.print(d), err)
	}
	return r.conclude(ctx, d, x.Failure)
}

// conclude shrinks a failure if asked to, prints, and gives the exit code's error.
func (r *simRun) conclude(ctx context.Context, d *simDocument, result *scenario.Result) error {
	if result == nil || result.Failure == nil {
		if d.notTriggered != nil {
			return firstError(r.print(d), d.notTriggered)
		}
		return r.print(d)
	}
	if r.flags.order != "" && result.Failure.Check == scenario.CheckOrder {
		return usagef("--every-order prints the order of what it finds", "--order %s cannot be: %s", r.flags.order,
			result.Failure.Text)
	}
	if r.flags.shrink {
		r.log.Info("looking for fewer faults that fail", zap.Int("faults", len(result.Schedule)))
		result.Options.OnEvent = nil
		smallest, runs, err := scenario.Shrink(ctx, r.scenario, result)
		if err != nil {
			return err
		}
		d.addShrunk(len(result.Schedule), runs)
		result = smallest
	}
	d.addFailure(result, r.costArgs)
	return firstError(r.print(d), &violationError{result.Failure})
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// progressInterval is how often a line of progress is logged where there is no terminal.
const progressInterval = 10 * time.Second

// showProgress shows a bar on a terminal and a line now and then otherwise. finish clears it.
func (r *simRun) showProgress(what string) (show func(done, total uint64), finish func()) {
	f, ok := r.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || r.logFormat == "json" {
		last := time.Now()
		return func(done, total uint64) {
			if time.Since(last) >= progressInterval {
				last = time.Now()
				r.log.Info("running "+what, zap.Uint64("done", done), zap.Uint64("of", total))
			}
		}, func() {}
	}
	var bar *progressbar.ProgressBar
	return func(done, total uint64) {
			if bar == nil {
				bar = progressbar.NewOptions64(int64(min(total, 1<<62)),
					progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what),
					progressbar.OptionClearOnFinish(), progressbar.OptionShowCount(),
					progressbar.OptionThrottle(100*time.Millisecond),
					progressbar.OptionSetWidth(24))
			}
			_ = bar.Set64(int64(done)) // only a terminal
		}, func() {
			if bar != nil {
				_ = bar.Clear()
			}
		}
}
