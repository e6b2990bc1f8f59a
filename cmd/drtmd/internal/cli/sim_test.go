package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/internal/testkit/raceskip"
)

// runSim runs a command line in this process.
func runSim(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), composition.BuiltIn(), append([]string{"sim"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// document runs a command line with --json.
func document(t *testing.T, wantCode int, args ...string) simDocument {
	t.Helper()
	code, out, errs := runSim(t, append(args, "--json")...)
	if code != wantCode {
		t.Fatalf("exit code %d, not %d: %s", code, wantCode, errs)
	}
	var d simDocument
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return d
}

func TestSimDocumentSaysWhatTheRunTook(t *testing.T) {
	raceskip.Simulated(t)
	d := document(t, exitDone, "--scenario", "crowd", "--nodes", "3", "--workers", "2",
		"--fibers", "4", "--preset", "cx4-100g")
	if d.Schema != SimSchema || d.Scenario != "crowd" || d.CostModel != "cx4-100g" ||
		d.Nodes != 3 || d.Workers != 2 || d.Fibers != 4 || d.Started != 24 || *d.Seed != 1 ||
		len(d.Hash) != 16 || d.Events == 0 || d.Resumes == 0 || d.Virtual == 0 || d.Wall <= 0 ||
		d.PerWall <= 0 || len(d.Counts) != 2 || d.Failure != nil {
		t.Errorf("%+v", d)
	}
}

// Every order of a small world: a bounded number of runs, and the order of one that fails, which fails again.
func TestSimRunsEveryOrder(t *testing.T) {
	raceskip.Simulated(t)
	d := document(t, exitDone, "--scenario", "small-dnl2", "--set", "script=skew,replicas=2", "--every-order",
		"--runs", "6", "--crashes=false")
	if o := d.Orders; o == nil || o.Orders != 6 || o.Crashes != 0 || o.States < 6 || o.Whole || d.Runs != 6 {
		t.Errorf("%+v", d.Orders)
	}
	d = document(t, exitDone, "--scenario", "small-dnl2", "--set", "script=skew,replicas=2", "--every-order", "--drawn",
		"--runs", "6", "--seed", "2")
	if x := d.Orders; x == nil || x.Orders+x.Crashes != 6 || x.Crashes == 0 || x.Whole {
		t.Errorf("drawn: %+v", x)
	}
	d = document(t, exitViolation, "--scenario", "small-dnl2", "--set", "script=ones,replicas=3", "--every-order",
		"--mutation", "getone-ignores-readable")
	f := d.Failure
	if f == nil || !strings.Contains(f.Replay, " --order ") {
		t.Fatalf("%+v", f)
	}
	again := document(t, exitViolation, strings.Fields(f.Replay)[2:]...)
	if again.Failure == nil || again.Failure.Text != f.Text || again.Failure.Event != f.Event {
		t.Errorf("%+v, not %+v", again.Failure, f)
	}
	for _, args := range [][]string{{"--scenario", "storm", "--every-order"}, {"--scenario", "small-dnl2", "--order", "a"},
		{"--scenario", "storm", "--order", "0"}, {"--scenario", "small-dnl2", "--runs", "3"},
		{"--scenario", "small-dnl2", "--every-order", "--order", "0"},
		{"--scenario", "small-dnl2", "--every-order", "--runs", "-1"},
		{"--scenario", "small-dnl2", "--every-order", "--drawn"}, {"--scenario", "small-dnl2", "--drawn"},
		{"--scenario", "small-dnl2", "--every-order", "--fibers", "3"},
		{"--scenario", "small-dnl2", "--order", "0", "--fibers", "3"},
		{"--scenario", "small-dnl2", "--every-order", "--faults", "random"},
		{"--scenario", "small-dnl2", "--order", "99"}, {"--scenario", "small-dnl2", "--order", "0,x7"}} {
		if code, out, errs := runSim(t, args...); code != exitUsage || errs == "" {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
		}
	}
}

// The command that a failure prints is the same run: it fails in the same event.
func TestReplayCommandFailsInTheSameEvent(t *testing.T) {
	raceskip.Simulated(t)
	for _, more := range [][]string{nil, {"--shrink"}} {
		found := document(t, exitViolation, append([]string{"--scenario", "storm", "--seeds",
			"1..50", "--mutation", "blind-retry", "--preset", "cx3-56g"}, more...)...)
		f := found.Failure
		if f == nil || f.Check != "sum" || len(f.LastEvents) == 0 {
			t.Fatalf("%+v", f)
		}
		if more != nil && (f.ShrunkFrom == nil || *f.ShrunkFrom <= len(f.Schedule) ||
			len(f.Schedule) == 0) {
			t.Errorf("shrunk to %d faults from %v", len(f.Schedule), f.ShrunkFrom)
		}
		args := shellWords(t, f.Replay)
		if args[0] != "drtmd" || args[1] != "sim" {
			t.Fatalf("%q", args)
		}
		again := document(t, exitViolation, args[2:]...)
		if again.Failure.Event != f.Event || again.Failure.At != f.At ||
			again.Failure.Text != f.Text {
			t.Errorf("replayed: %+v, found: %+v", again.Failure, f)
		}
	}
}

// shellWords has a shell split a command line.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "set -- "+line+
		`; for w in "$@"; do printf '%s\n' "$w"; done`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// Processes with other numbers of threads make the same run.
func TestSimHashIsThatOfEveryProcess(t *testing.T) {
	raceskip.Simulated(t)
	args := []string{"sim", "--scenario", "rpc-echo", "--seed", "3", "--json"}
	want := document(t, exitDone, args[1:len(args)-1]...).Hash
	for _, procs := range []int{1, 4} {
		c := exec.Command(os.Args[0], args...)
		c.Env = append(os.Environ(), asCommand+"=1", "GOMAXPROCS="+strconv.Itoa(procs))
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		var d simDocument
		if err := json.Unmarshal(out, &d); err != nil {
			t.Fatal(err)
		}
		if d.Hash != want {
			t.Errorf("GOMAXPROCS=%d: %s, here %s", procs, d.Hash, want)
		}
	}
}

// An interrupted search says how far it came, and so does everything else that takes long.
func TestInterruptedRunsReportAndExit130(t *testing.T) {
	for _, c := range []struct {
		name, args string
		after      time.Duration // long after the first run, long before the last
		report     bool
	}{
		{"search", "--scenario exchange --seeds 1..1000000000000 --jobs 1", time.Second, true},
		{"run", "--scenario crowd --nodes 90 --workers 16", 100 * time.Millisecond, false},
		{"every step", "--scenario smallbank-steps --nodes 8 --every-step", 3 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(c.after, cancel)
			var out, errs bytes.Buffer
			args := append([]string{"sim"}, strings.Fields(c.args)...)
			if code := run(ctx, composition.BuiltIn(), args, &out, &errs); code != exitInterrupted {
				t.Errorf("exit code %d", code)
			}
			if c.report != strings.Contains(out.String(), "held so far; interrupted") ||
				!strings.Contains(errs.String(), "drtmd: interrupted") {
				t.Errorf("%s\n%s", out.String(), errs.String())
			}
		})
	}
}

// A crash at every step says which seed it was, and counts the events of all runs.
func TestEveryStepDocumentSaysWhatTheRunsTook(t *testing.T) {
	raceskip.Simulated(t)
	args := []string{"--scenario", "exchange", "--every-step", "--seed", "9"}
	d := document(t, exitDone, args...)
	steps := 0
	for _, s := range d.Steps {
		steps += s.Count
	}
	if d.Seed == nil || *d.Seed != 9 || !d.EveryStep || d.Crashes != d.Nodes*steps ||
		d.Planned != d.Crashes || d.Struck != d.Crashes || d.Runs != uint64(d.Crashes)+1 ||
		d.Events < 100*d.Runs || d.Resumes < 10*d.Runs || d.PerCPU <= 0 {
		t.Errorf("%+v", d)
	}
	_, out, _ := runSim(t, args...)
	for _, line := range []string{"seed      9, 0 faults\n", "crashes   48 of 48, each"} {
		if !strings.Contains(out, line) {
			t.Errorf("no line %q in\n%s", line, out)
		}
	}
	one := document(t, exitDone, append(args, "--jobs", "1")...)
	if one.Hash != d.Hash || one.Events != d.Events {
		t.Errorf("with one job %s and %d events, with several %s and %d", one.Hash, one.Events,
			d.Hash, d.Events)
	}
}

// A fault without effect is named; one that was never triggered has an exit code.
func TestFaultsThatDidNothingAreNamed(t *testing.T) {
	raceskip.Simulated(t)
	const never = `at step "exchange: after lock" #900 crash node=n0 dram=lost`
	const inVain = `at 1us drop from=n0 to=n1 ppm=5`
	for _, c := range []struct {
		name, faults  string
		mode          []string
		code          int
		never, inVain []string
		failed        bool
	}{
		{"never triggered", never, nil, exitNotTriggered, []string{never}, nil, false},
		{"without effect", inVain, nil, exitDone, nil, []string{inVain}, false},
		{"both", inVain + "; " + never, nil, exitNotTriggered, []string{never}, []string{inVain}, false},
		{"in a search", inVain + "; " + never, []string{"--seeds", "3..9"}, exitNotTriggered,
			[]string{never}, []string{inVain}, false},
		{"beside crashes", never, []string{"--every-step"}, exitNotTriggered, []string{never}, nil, false},
		{"beside a failure", never + "; at 20us crash node=n0 for=10us", nil, exitViolation,
			[]string{never}, nil, true},
		{"drawn faults", "random", nil, exitDone, nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--scenario", "exchange", "--faults", c.faults}, c.mode...)
			d := document(t, c.code, args...)
			if !slices.Equal(d.NotStruck, c.never) || !slices.Equal(d.InVain, c.inVain) ||
				(d.Failure != nil) != c.failed {
				t.Errorf("never %q, in vain %q, failure %+v", d.NotStruck, d.InVain, d.Failure)
			}
			_, out, errs := runSim(t, args...)
			for _, f := range c.never {
				if !strings.Contains(out, "never triggered: "+f) ||
					c.code == exitNotTriggered && !strings.Contains(errs, "its step was reached ") {
					t.Errorf("%s\n%s", out, errs)
				}
			}
			for _, f := range c.inVain {
				if !strings.Contains(out, "triggered without effect: "+f) {
					t.Error(out)
				}
			}
		})
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestHelpNamesEveryFault(t *testing.T) {
	_, out, _ := runSim(t, "--help")
	for _, name := range []string{"crash", "fail-allocs", "clock-drift", "--every-step"} {
		if !strings.Contains(out, name) {
			t.Errorf("no %s in the help", name)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if len(line) > 150 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}
