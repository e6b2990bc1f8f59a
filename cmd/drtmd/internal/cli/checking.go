package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"drtmd/proto/check"
	"drtmd/proto/history"
)

// checking is how a command checks a history: what it takes is said before, and how far it is.
type checking struct {
	log      *zap.Logger
	terminal *os.File // nil: lines of the log
	most     uint64   // MiB; 0: what is available
}

// checkMemoryUsage is the help of --check-memory.
const checkMemoryUsage = "use at most `MIB` MiB of memory for the check; default: what is available"

// manyTxns take a while to check.
const manyTxns = 1_000_000

// tooLargeError is a history whose check would take more memory than there is.
type tooLargeError struct {
	txns, need, most uint64
	saved            string // where the history is now; "" for one that was given
}

func (e *tooLargeError) Error() string {
	s := fmt.Sprintf("the check of %s transactions takes about %s of memory, and %s may be taken; "+
		"run it on a machine with more, make the run shorter, or allow more with --check-memory",
		thousands(e.txns), memorySize(e.need), memorySize(e.most))
	if e.saved != "" {
		s += fmt.Sprintf("; the history is in %s: drtmd check %s", e.saved, e.saved)
	}
	return s
}

// run checks a history, or fails with a *tooLargeError before it has begun.
func (c *checking) run(ctx context.Context, h *history.History, o check.Options) (*check.Result,
	error) {
	need, most := check.Need(h), c.most<<20
	if most == 0 {
		most = availableMemory()
	}
	if need > most {
		return nil, &tooLargeError{txns: h.Txns(), need: need, most: most}
	}
	if h.Txns() > manyTxns {
		c.log.Info(fmt.Sprintf("checking %s transactions, %s operations: takes about %s of memory",
			thousands(h.Txns()), thousands(h.Ops()), memorySize(need)))
	}
	show, finish := c.progress(h)
	defer finish()
	o.Progress = show
	return check.History(ctx, h, o)
}

// progress shows how far a check is and how long it will take: on a terminal a line that changes,
// otherwise one now and then.
func (c *checking) progress(h *history.History) (show func(p check.Phase, done, total uint64),
	finish func()) {
	begin := time.Now()
	last, most := begin, 0.0 // a phase may go over the history twice: what was told never goes back
	every, tell := lineInterval, func(s string) { c.log.Info(s) }
	finish = func() {}
	if f := c.terminal; f != nil {
		every, tell = barInterval, func(s string) { fmt.Fprint(f, clearLine+s) }
		finish = func() { fmt.Fprint(f, clearLine) }
	}
	return func(p check.Phase, done, total uint64) {
		now := time.Now()
		if now.Sub(last) < every {
			return
		}
		last, most = now, max(most, check.Fraction(h, p, done, total))
		tell("checking: " + p.String() + ", " + leftOf(most, now.Sub(begin)))
	}, finish
}

// leftOf says how far something is that took a time so far, and how long the rest may take.
func leftOf(fraction float64, took time.Duration) string {
	s := fmt.Sprintf("%.0f %% done", 100*fraction)
	if fraction > 0.01 {
		left := time.Duration(float64(took) * (1 - fraction) / fraction)
		s += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return s
}

// memorySize is a number of bytes in the unit that fits.
func memorySize(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// availableMemory is how many bytes this process can have: of the host, and of its control group. A
// host whose /proc tells nothing sets no bound.
func availableMemory() uint64 {
	const noBound = 1 << 62
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return noBound
	}
	defer f.Close()
	available := uint64(noBound)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			if kib, err := strconv.ParseUint(fields[1], 10, 50); err == nil {
				available = kib << 10
			}
		}
	}
	// A container sees its own control group at the root; on a host the files do not exist.
	limit, err := readNumber("/sys/fs/cgroup/memory.max")
	used, err2 := readNumber("/sys/fs/cgroup/memory.current")
	if err == nil && err2 == nil { // otherwise "max"
		available = min(available, limit-min(used, limit))
	}
	return available
}

func readNumber(file string) (uint64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}
