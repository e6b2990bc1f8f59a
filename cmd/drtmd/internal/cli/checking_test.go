package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/check"
	"drtmd/proto/history"
)

// A check that would take more memory than may be taken is refused before it begins, with what to do.
func TestACheckThatNeedsMoreMemoryThanThereIsIsRefused(t *testing.T) {
	path := saveHistory(t, func(r *history.Recorder) {
		for i := range int64(20_000) {
			update(r, 10*i, 10*i+5, history.Version(i+1), history.Committed)
		}
	})
	code, out, errs := runCheck(t.Context(), "--check-memory", "1", path)
	if code != exitFailed || out != "" {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, w := range []string{"check of 20,000 transactions takes about", "MiB of memory, and 1 MiB may",
		"--check-memory"} {
		if !strings.Contains(errs, w) {
			t.Errorf("no %q in %s", w, errs)
		}
	}
	if code, _, errs := runCheck(t.Context(), "--check-memory", "100", path); code != exitDone {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if n := availableMemory(); n < 1<<20 {
		t.Errorf("%d bytes are available", n)
	}
}

// A run whose check is refused keeps its history, and says where.
func TestARunThatIsTooLargeToBeCheckedKeepsItsHistory(t *testing.T) {
	raceskip.SameMemory(t) // any other bench
	t.Setenv("TMPDIR", t.TempDir())
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), composition.BuiltIn(), []string{"bench", "--duration", "300ms", "--warmup", "10ms", "--check",
		"--check-memory", "1", "--accounts", "20000"}, &stdout, &stderr)
	out, errs := stdout.String(), stderr.String()
	if code != exitFailed {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	_, rest, ok := strings.Cut(errs, "the history is in ")
	name, _, ok2 := strings.Cut(rest, ":")
	if !ok || !ok2 || filepath.Dir(name) != os.TempDir() {
		t.Fatal(errs)
	}
	if code, out, errs := runCheck(t.Context(), name); code != exitDone ||
		!strings.Contains(out, "tables    before the run: 120,000 keys; after it: 120,000 keys") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

// What a check takes is said before, and how far it is while it goes on.
func TestALongCheckSaysWhatItTakesAndHowFarItIs(t *testing.T) {
	path := saveHistory(t, func(r *history.Recorder) {
		for i := range int64(1000) {
			update(r, 10*i, 10*i+5, history.Version(i+1), history.Committed)
		}
	})
	h, err := history.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	c := checking{log: zap.New(core)}
	last := -1.0
	if _, err := check.History(t.Context(), h, check.Options{
		Progress: func(p check.Phase, done, total uint64) {
			f := check.Fraction(h, p, done, total)
			if f < last || f > 1 {
				t.Errorf("%v after %v in phase %v", f, last, p)
			}
			last = f
		}}); err != nil || last <= 0.4 {
		t.Errorf("%v, the last was %v", err, last)
	}
	show, finish := c.progress(h)
	show(check.Reading, 1, 2)
	time.Sleep(10 * time.Millisecond)
	if finish(); logs.Len() > 0 {
		t.Errorf("%v", logs.All())
	}
	if s := leftOf(0.25, 5*time.Second); s != "25 % done, about 15s left" {
		t.Error(s)
	}
	for n, want := range map[uint64]string{1: "1 MiB", 300 << 20: "300 MiB", 3 << 29: "1.5 GiB"} {
		if s := memorySize(n); s != want {
			t.Errorf("%d: %s", n, s)
		}
	}
	if err := errors.Join(h.Close()); err != nil {
		t.Error(err)
	}
}
