package cli

import (
	"fmt"
	"os"

	"github.com/schollz/progressbar/v3"
	"go.uber.org/zap"
	"golang.org/x/term"

	"drtmd/cmd/drtmd/internal/bench"
)

// progress shows a bar on a terminal and plain lines otherwise. finish clears the bar.
func (r *perfRun) progress() (pr bench.Progress, finish func()) {
	f, ok := r.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || r.logFormat == "json" {
		begin := func(n, total int, c bench.Case, p bench.Phase) {
			r.log.Info(fmt.Sprintf("measuring %s, %s", c, p), zap.Int("step", n),
				zap.Int("of", total))
		}
		return bench.Progress{Begin: begin}, func() {}
	}
	var bar *progressbar.ProgressBar
	begin := func(n, total int, c bench.Case, p bench.Phase) {
		if bar == nil {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(f),
				progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false),
				progressbar.OptionShowCount(), progressbar.OptionSetWidth(24))
		}
		bar.Describe(fmt.Sprintf("%-24s", fmt.Sprintf("%s, %s", c, p)))
		_ = bar.Set(n - 1) // only a terminal
	}
	return bench.Progress{Begin: begin}, func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
}
