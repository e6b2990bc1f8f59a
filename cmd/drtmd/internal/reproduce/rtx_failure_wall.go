package reproduce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/report"
)

// Figure 14 by the wall clock: the clients are processes on shared memory, and one of them gets SIGKILL.

// Inserter is the hidden command that is such a client.
const Inserter = "reproduce-inserter"

// Sizes of it. Each client inserts at a steady rate, so that a core of this machine has time to spare.
const (
	wallClientCount = 3
	wallFibers      = 8
	wallPeriod      = 500 * time.Microsecond // of a fiber
	wallBin         = 10 * time.Millisecond
	wallDeadline    = time.Minute // until all clients are ready
)

// killed is a run of it.
type killed struct {
	system        string
	keys          int
	before, after time.Duration
	seed          uint64
}

// killedRun is what it comes to.
type killedRun struct {
	bins    []float64 // of all clients, in thousand insertions a second
	at      time.Duration
	repairs uint64        // expired locks that the survivors met
	waited  time.Duration // the longest time for which a survivor met one lock
	late    time.Duration // how late an insertion began at most
}

// run runs a memory node and its clients.
func (x *killed) run(ctx context.Context) (_ *killedRun, err error) {
	dir, err := os.MkdirTemp("", "drtmd-kill-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, x.before+x.after+wallDeadline)
	defer cancel()
	t, err := openTally(filepath.Join(dir, tallyName))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	var processes []*exec.Cmd
	defer func() {
		for _, c := range processes {
			_ = c.Process.Kill() // who has ended needs none
			_ = c.Wait()
		}
	}()
	start := func(out *os.File, args ...string) error {
		c := exec.CommandContext(ctx, self, args...)
		c.Stdout, c.Stderr = out, os.Stderr
		err := c.Start()
		if err == nil {
			processes = append(processes, c)
		}
		return err
	}
	const owners = wallClientCount * wallFibers
	size := 8 + owners/8 + x.keys*160>>20 + 1
	ready, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	err = start(out, "serve", "--role", "memory", "--transport", "shm", "--transport-run-dir", filepath.Join(dir, fabricName),
		"--memory-listen", "unix:"+filepath.Join(dir, setUpName), "--memory-for", x.system, "--memory-index", treeIndex,
		"--memory-size", fmt.Sprintf("%dMiB", size), "--memory-clients", strconv.Itoa(wallClientCount),
		"--memory-fibers", strconv.Itoa(wallFibers), "--log-level", "error")
	if err = errors.Join(err, out.Close()); err == nil { // it writes a line when it is ready
		_, err = bufio.NewReader(ready).ReadString('\n')
	}
	err = errors.Join(err, ready.Close())
	for n := 0; n < wallClientCount && err == nil; n++ {
		err = start(nil, Inserter, dir, x.system, strconv.Itoa(n), strconv.FormatUint(x.seed, 10), strconv.Itoa(x.keys))
	}
	if err != nil {
		return nil, fmt.Errorf("memory node and clients: %w", err)
	}
	return x.watch(ctx, t, processes[1:])
}

// watch kills the victim and waits for the others.
func (x *killed) watch(ctx context.Context, t *tally, clients []*exec.Cmd) (*killedRun, error) {
	for t.ready.Load() < wallClientCount {
		if err := pauseFor(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
	begin := timeOfDay{}.Now() + wallBin
	t.begin.Store(int64(begin))
	if err := pauseFor(ctx, begin+x.before-timeOfDay{}.Now()); err != nil {
		return nil, err
	}
	if err := t.stopInside(clients[victim].Process.Pid); err != nil {
		return nil, err
	}
	if err := clients[victim].Process.Kill(); err != nil {
		return nil, err
	}
	r := &killedRun{at: timeOfDay{}.Now() - begin}
	// The end follows the kill: on a busy machine that is late, and a victim that has ended could not be killed.
	t.end.Store(int64(begin + r.at + x.after))
	for n, c := range clients {
		if err := c.Wait(); err != nil && n != victim {
			return nil, fmt.Errorf("client %d: %w", n, err)
		}
	}
	r.bins = make([]float64, min(int((r.at+x.after)/wallBin), mostBins))
	for i := range r.bins {
		for n := range wallClientCount {
			r.bins[i] += float64(t.bins[n][i].Load()) / wallBin.Seconds() / 1e3
		}
	}
	r.repairs, r.waited, r.late = t.repairs.Load(), time.Duration(t.waited.Load()), time.Duration(t.late.Load())
	return r, nil
}

// mostStops bounds the attempts to stop the victim in the middle of an insertion.
const mostStops = 1000

// stopInside stops the victim in the middle of an insertion, so that it is likely to have a lock when it is killed.
func (t *tally) stopInside(pid int) error {
	for range mostStops {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return fmt.Errorf("stop the client that is to be killed: %w", err)
		}
		status := unix.WaitStatus(0)
		if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil {
			return fmt.Errorf("wait for the stop of the client that is to be killed: %w", err)
		}
		if !status.Stopped() {
			return fmt.Errorf("the client that was to be killed has ended by itself: status %#x", uint32(status))
		}
		if t.inside.Load() > 0 {
			return nil
		}
		if err := unix.Kill(pid, unix.SIGCONT); err != nil {
			return err
		}
		time.Sleep(wallPeriod / wallFibers / 3)
	}
	return fmt.Errorf("the client was never in the middle of an insertion, in %d attempts to stop it there", mostStops)
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Files in the folder of a run.
const (
	fabricName = "fabric"
	setUpName  = "memory"
	tallyName  = "tally"
)

// killSystems are those of the figure; the clients of DTX have no membership service here.
var killSystems = []string{rtxName, optimalName}

// over is a share of a level, which may be 0: whoever inserts may wait for a lock of the dead.
func over(v, level float64) float64 {
	if level == 0 {
		return 0
	}
	return v / level
}

// missesBins is why a bin is low that no lock of the dead has made so.
func missesBins(low float64, late time.Duration) string {
	return fmt.Sprintf("what else runs on the machine stops clients, too: before the kill the lowest bin is %.2f of the level there; "+
		"an insertion began up to %v late", low, late.Round(100*time.Microsecond))
}

// treeFailureMeasured is Figure 14 by the wall clock.
func treeFailureMeasured(r *Run) (*Outcome, error) {
	x := &killed{keys: pick(r, 100_000, 5_000), before: pick(r, 500*time.Millisecond, 100*time.Millisecond),
		after: pick(r, time.Second, 200*time.Millisecond)}
	o := &Outcome{Conditions: fmt.Sprintf("a memory node and %d client processes on shared memory of this machine, each with %d "+
		"fibers that insert a random key every %v; one process gets SIGKILL in the middle of an insertion after %v; leases 8 ms; bins of %v; %d keys; %s",
		wallClientCount, wallFibers, wallPeriod, x.before, wallBin, x.keys, r.seedsText())}
	chart := report.Chart{Title: fmt.Sprintf("insertions over time; a process of %d is killed", wallClientCount), X: "time [ms]",
		Y: "throughput [k/s]"}
	for i, s := range killSystems {
		var before, after, lowest, quiet, repairs, waited []float64
		late := time.Duration(0)
		for seed := range r.Seeds {
			if err := r.step(i*r.Seeds+seed, len(killSystems)*r.Seeds); err != nil {
				return nil, err
			}
			x.system, x.seed = s, uint64(seed+1)
			got, err := x.run(r.ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
			split := int(got.at / wallBin) // the bin of the kill counts as after it
			old := mean(got.bins[:split])
			now := mean(got.bins[len(got.bins)-(len(got.bins)-split)/2:])
			before, after = append(before, old), append(after, now)
			lowest, quiet = append(lowest, over(slices.Min(got.bins[split:]), now)), append(quiet, over(slices.Min(got.bins[:split]), old))
			repairs, waited = append(repairs, float64(got.repairs)), append(waited, got.waited.Seconds()*1e3)
			late = max(late, got.late)
			if seed == 0 {
				curve := report.ChartCurve{Name: s + ", measured"}
				for j, v := range got.bins {
					curve.Points = append(curve.Points, [2]float64{(float64(j) + 0.5) * wallBin.Seconds() * 1e3, v})
				}
				chart.Curves = append(chart.Curves, curve)
				chart.Marks = append(chart.Marks, report.ChartMark{X: got.at.Seconds() * 1e3, Text: "SIGKILL of a client of " + s})
			}
		}
		low := number{what: s + ": lowest bin over the level after the kill", section: sixTwo, digits: 2}
		if s == rtxName {
			low.printed, low.paper, low.limit = "no collapse", 1, within(0.1).because("no bin below 90 % of the level")
			low.missed = missesBins(slices.Min(quiet), late)
			lowest = []float64{slices.Min(lowest)}
			low.reading = "of the worst run"
		}
		o.Rows = append(o.Rows, number{what: s + ": before the kill", unit: "k/s", digits: 1}.seen(before...),
			number{what: s + ": in the second half after it", unit: "k/s", digits: 1}.seen(after...),
			number{what: s + ": after over before", section: sixTwo, digits: 3}.seen(over(mean(after), mean(before))), low.seen(lowest...),
			number{what: s + ": lowest bin over the level before the kill", digits: 2}.seen(quiet...))
		if s == rtxName {
			o.Rows = append(o.Rows, number{what: s + ": expired locks that the survivors met", digits: 1}.seen(repairs...),
				number{what: s + ": longest wait of a survivor for a lock", unit: "ms", digits: 2,
					reading: "a lease of 8.1 ms, and a repair, unless the waiting thread itself was stopped"}.seen(waited...))
		}
	}
	o.Charts = []report.Chart{chart}
	return o, nil
}
