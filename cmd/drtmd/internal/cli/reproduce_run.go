package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"go.uber.org/zap"
	"golang.org/x/term"

	"drtmd/cmd/drtmd/internal/pace"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/reproduce"
)

// reproduceRun is a run of drtmd reproduce.
type reproduceRun struct {
	*app
	flags   *reproduceFlags
	items   []reproduce.Item
	options reproduce.Options
	doc     report.Reproduction
}

// run runs the items, prints them, and writes the pages. What was done before an interrupt is
// printed and written, too.
func (r *reproduceRun) run(ctx context.Context) error {
	r.doc.Command = r.args
	r.log.Info("reproducing", zap.Int("items", len(r.items)), zap.Int("seeds", r.options.Seeds),
		zap.String("estimate", roughDuration(reproduce.Estimate(r.items, r.options))))
	show, finish := r.progress()
	r.options.Progress = show
	err := reproduce.RunAll(ctx, r.items, r.options, func(found report.Reproduced) error {
		r.doc.Items = append(r.doc.Items, found)
		if r.flags.json {
			return nil
		}
		finish()
		return found.WriteText(r.stdout)
	})
	finish()
	r.doc.Interrupted = err != nil && ctx.Err() != nil
	if err != nil && !r.doc.Interrupted {
		return err
	}
	if r.flags.json {
		err = errors.Join(err, r.doc.WriteJSON(r.stdout))
	} else {
		err = errors.Join(err, r.doc.WriteSummary(r.stdout))
	}
	err = errors.Join(err, r.pages())
	if n := r.doc.Exceeding(); err == nil && n > 0 {
		err = &checkError{fmt.Sprintf("the deviation of %d rows exceeds its bound", n)}
	}
	return err
}

// pages writes those of the papers that have an item in the run.
func (r *reproduceRun) pages() (err error) {
	var files []string
	if r.flags.report != "" {
		var all []report.PaperSystem
		for _, s := range reproduce.Systems() {
			all = append(all, s.List())
		}
		files, err = r.doc.WritePages(r.flags.report, all)
	}
	if r.flags.plots != "" {
		plots, failed := r.doc.WritePlots(r.flags.plots)
		files, err = append(files, plots...), errors.Join(err, failed)
	}
	for _, f := range files {
		r.log.Info("wrote", zap.String("file", f))
	}
	return err
}

// roughDuration is a duration in words, for progress.
func roughDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return "about a second"
	case d < 2*time.Minute:
		return fmt.Sprintf("about %.0f s", d.Seconds())
	}
	return fmt.Sprintf("about %.0f minutes", d.Minutes())
}

// Lines of progress where there is no terminal: the first after a while, then ever more rarely.
const (
	firstLine = 5 * time.Second
	lastLine  = time.Minute
)

// progress shows a bar on a terminal and some lines elsewhere. finish takes the bar away for now.
func (r *reproduceRun) progress() (show func(reproduce.Progress), finish func()) {
	f, ok := r.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || r.logFormat == "json" {
		p := pace.Pace{Least: firstLine, Most: lastLine}
		p.Due(time.Now())
		return func(s reproduce.Progress) {
			if p.Due(time.Now()) {
				r.log.Info("running "+s.Item, zap.Int("item", s.Index), zap.Int("of", s.Of),
					zap.String("left", roughDuration(s.Left)))
			}
		}, func() {}
	}
	const steps = 1000 // of an item
	bar := progressbar.NewOptions(steps*len(r.items), progressbar.OptionSetWriter(f),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetWidth(24))
	return func(s reproduce.Progress) {
		bar.Describe(fmt.Sprintf("%s, %s left", s.Item, roughDuration(s.Left)))
		_ = bar.Set(steps*(s.Index-1) + steps*s.Done/max(s.Total, 1)) // only a terminal
	}, func() { _ = bar.Clear() }
}
