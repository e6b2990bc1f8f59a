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
	leaves        bool // the victim is not killed: it ends by itself
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

	preferred bool // all clients ran before other programs
}

// levels: after is that in the second half after the kill; lowest is the lowest bin after it and before it, as a share of it and
// of the level before.
func (r *killedRun) levels() (before, after, lowest, quiet float64) {
	split := int(r.at / wallBin) // the bin of the kill counts as after it
	before, after = mean(r.bins[:split]), mean(r.bins[len(r.bins)-(len(r.bins)-split)/2:])
	return before, after, over(slices.Min(r.bins[split:]), after), over(slices.Min(r.bins[:split]), before)
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

// watch kills the victim, or has it end, and waits for the others.
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
	if x.leaves {
		t.leave.Store(int64(timeOfDay{}.Now()))
	} else if err := t.kill(clients[victim].Process); err != nil {
		return nil, err
	}
	r := &killedRun{at: timeOfDay{}.Now() - begin}
	// The end follows the kill: on a busy machine that is late, and a victim that has ended could not be killed.
	t.end.Store(int64(begin + r.at + x.after))
	for n, c := range clients {
		if err := c.Wait(); err != nil && (n != victim || x.leaves) {
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
	r.preferred = t.preferred.Load() == wallClientCount
	return r, nil
}

// kill kills the victim in the middle of an insertion.
func (t *tally) kill(victim *os.Process) error {
	if err := t.stopInside(victim.Pid); err != nil {
		return err
	}
	return victim.Kill()
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
