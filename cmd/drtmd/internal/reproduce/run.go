package reproduce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/node"
)

// Options of RunAll.
type Options struct {
	Seeds int  // seeds 1 to Seeds; results are means over them
	Quick bool // smaller sizes, for regression tests; bounds are as wide as that makes them
	// Mutation switches a deliberate bug of the protocol on, in items that run one.
	Mutation string
	// Progress, if not nil, is told of each step.
	Progress func(p Progress)
}

// Bounds and defaults of Options.Seeds.
const (
	DefaultSeeds = 3
	QuickSeeds   = 1
	MaxSeeds     = 1000
)

// Progress of RunAll.
type Progress struct {
	Item        string // that is run
	Index, Of   int    // which of the items it is, from 1
	Done, Total int    // steps of the item
	// Left is an estimate of the time until all are done.
	Left time.Duration
}

// Run is a run of one item. Its methods belong to the calling goroutine.
type Run struct {
	Options
	ctx      context.Context
	progress func(done, total int)
	trials   trials // of HADES' figures; nil: none is kept
}

// step says that so many of all steps are done, and ends the run if it was interrupted.
func (r *Run) step(done, total int) error {
	r.progress(done, total)
	return r.ctx.Err()
}

// pick is a size for a full or a quick run.
func pick[T any](r *Run, full, quick T) T {
	if r.Quick {
		return quick
	}
	return full
}

// seedsText says which seeds a run has.
func (r *Run) seedsText() string {
	if r.Seeds == 1 {
		return "seed 1"
	}
	return fmt.Sprintf("means over seeds 1 to %d", r.Seeds)
}

// Estimate is how long items take on a core of the development machine.
func Estimate(items []Item, o Options) (sum time.Duration) {
	for i := range items {
		sum += items[i].estimate(&o)
	}
	return sum
}

func (i *Item) estimate(o *Options) time.Duration {
	if o.Quick {
		return i.cost.quick * time.Duration(o.Seeds)
	}
	return i.cost.seed * time.Duration(o.Seeds)
}

// NotDoneError is an item that cannot be run.
type NotDoneError struct{ Item Item }

func (e *NotDoneError) Error() string {
	i := &e.Item
	if i.State() == Never {
		return fmt.Sprintf("%s (%s) is not reproducible here: %s", i.Name(), i.Title, i.Note)
	}
	return fmt.Sprintf("%s (%s) waits for %s, which is not built yet or not whole; drtmd reproduce --list has "+
		"what is done", i.Name(), i.Title, i.Waits)
}

// Runnable reports the first of the items that cannot be run.
func Runnable(items []Item) error {
	for _, i := range items {
		if i.State() != Done {
			return &NotDoneError{Item: i}
		}
	}
	return nil
}

// CheckMutation reports a mutation that no item would run with: node.UnknownError if a protocol of
// theirs has none of that name.
func CheckMutation(items []Item, name string) error {
	runs := false
	for _, i := range items {
		if i.protocol == "" {
			continue
		}
		runs = true
		p, err := node.FindProtocol(i.protocol)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(p.Mutations, func(m node.Mutation) bool { return m.Name == name }) {
			return &node.UnknownError{What: "mutation of " + p.Name, Name: name,
				Known: proto.Names(p.Mutations)}
		}
	}
	if !runs {
		return errors.New("none of the named items runs a protocol")
	}
	return nil
}

// RunAll runs items one after the other and gives each to found when it is done. It ends with the
// first error; an interrupted one is that of ctx.
func RunAll(ctx context.Context, items []Item, o Options,
	found func(report.Reproduced) error) error {
	if err := Runnable(items); err != nil {
		return err
	}
	if o.Seeds < 1 || o.Seeds > MaxSeeds {
		return fmt.Errorf("%d seeds are not in 1..%d", o.Seeds, MaxSeeds)
	}
	c := &clock{begun: time.Now(), all: Estimate(items, o)}
	kept := trials{}
	for n := range items {
		i := &items[n]
		r := &Run{Options: o, ctx: ctx, progress: c.reporter(i, n, len(items), &o), trials: kept}
		began := time.Now()
		r.progress(0, 1)
		out, err := i.run(r)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w", i.Name(), err)
		}
		c.spent += i.estimate(&o)
		if o.Mutation != "" && i.protocol != "" {
			out.Conditions += ", deliberate bug " + o.Mutation + ": the numbers are of no use"
		}
		err = found(report.Reproduced{PaperItem: i.Entry(), Conditions: out.Conditions,
			ElapsedNs: time.Since(began).Nanoseconds(), Rows: out.Rows, Charts: out.Charts})
		if err != nil {
			return err
		}
	}
	return nil
}

// clock estimates what is left, from what was estimated and what was taken so far.
type clock struct {
	begun      time.Time
	all, spent time.Duration // estimated: of all items, of those that are done
}

// reporter tells Options.Progress of an item.
func (c *clock) reporter(i *Item, n, of int, o *Options) func(done, total int) {
	return func(done, total int) {
		if o.Progress == nil {
			return
		}
		share := float64(done) / float64(max(total, 1))
		o.Progress(Progress{Item: i.Name(), Index: n + 1, Of: of, Done: done, Total: total,
			Left: c.left(c.spent+time.Duration(share*float64(i.estimate(o))), time.Since(c.begun))})
	}
}

// settled is the share of the estimate behind which the machine's own speed counts.
const settled = 0.05

// left scales what is estimated to come by how long what was done has taken.
func (c *clock) left(done, elapsed time.Duration) time.Duration {
	rest := c.all - done
	if float64(done) < settled*float64(c.all) || done <= 0 {
		return rest
	}
	return time.Duration(float64(rest) * float64(elapsed) / float64(done))
}
