package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"drtmd/proto/workload/lookup"
)

// lookupFlags are all that workload lookup takes: it counts READs in memory, on no cluster.
var lookupFlags = []string{"workload", "slots", "seed", "json", "log-format", "log-level"}

// lookup computes Table VI of the DrTM paper.
func (a *app) lookup(c *cobra.Command, p *benchFlags) error {
	var wrong error
	c.Flags().Visit(func(f *pflag.Flag) {
		if wrong == nil && !slices.Contains(lookupFlags, f.Name) {
			wrong = usagef("it takes --slots, --seed and --json", "workload lookup has no --%s", f.Name)
		}
	})
	if wrong != nil {
		return wrong
	}
	spec := lookupSpec()
	given, err := takenOptions(c.Flags(), workloadOptions(a.has), "workload", spec.Name, spec.Options)
	if err != nil {
		return err
	}
	v, err := spec.Options.Values(given)
	if err != nil {
		return err
	}
	if err := writable("json", p.json); err != nil {
		return err
	}
	ctx := c.Context()
	table, err := lookup.Run(lookup.Options{Slots: v.Int(optSlots), Seed: p.seed,
		Stop:     func() bool { return ctx.Err() != nil },
		Progress: a.lookupProgress(),
	})
	switch {
	case errors.Is(err, lookup.ErrStopped):
		return context.Cause(ctx)
	case errors.Is(err, lookup.ErrSlots):
		return usagef("", "--slots: %v", err)
	case err != nil:
		return err
	}
	if p.json == "-" {
		return table.WriteJSON(a.stdout)
	}
	err = table.WriteText(a.stdout)
	if p.json != "" {
		err = errors.Join(err, writeFile(p.json, table.WriteJSON))
	}
	return err
}

// lookupProgress logs a line for each tenth that is done.
func (a *app) lookupProgress() func(done, total int) {
	shown := 0
	return func(done, total int) {
		if tenth := 10 * done / total; tenth > shown {
			shown = tenth
			a.log.Info("counting READs", zap.Int("done", done), zap.Int("of", total))
		}
	}
}
