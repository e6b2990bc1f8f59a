package reproduce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"drtmd/cmd/drtmd/internal/report"
)

// The time of a recovery: daemons on shared memory run transactions with three replicas of each record, and
// one of them is killed.

// trial is one killed daemon.
type trial struct {
	keys   int    // per node
	fibers int    // transactions under way at the daemon that is killed
	logs   string // room of a log
}

const (
	trialNodes    = 4
	trialVictim   = "node2" // leads nothing, and has no etcd
	trialProtocol = drtmhName
	// trialRun is how long clients run: a lease of two seconds ends in it, and replicas are filled.
	trialRun   = 6 * time.Second
	trialGrace = time.Minute
	trialBytes = 100 // of a value
)

// usual is the trial that others differ from in one thing.
var usual = trial{keys: 20_000, fibers: 16, logs: "256KiB"}

// recoveryTimes kills a daemon of each cluster.
func recoveryTimes(r *Run) (*Outcome, error) {
	sweeps := []struct {
		name, x string
		at      []float64
		set     func(t *trial, i int)
	}{
		{"transactions under way at the killed node", "transactions under way", pick(r, []float64{1, 4, 16, 64}, []float64{1, 16}),
			nil},
		{"room of each log", "room of a log [KiB]", pick(r, []float64{64, 256, 1024}, nil), nil},
		{"records of each shard", "records of a shard", pick(r, []float64{2_000, 20_000, 100_000}, []float64{2_000}), nil},
	}
	sweeps[0].set = func(t *trial, i int) { t.fibers = int(sweeps[0].at[i]) }
	sweeps[1].set = func(t *trial, i int) { t.logs = fmt.Sprintf("%dKiB", int(sweeps[1].at[i])) }
	sweeps[2].set = func(t *trial, i int) { t.keys = int(sweeps[2].at[i]) }
	o := &Outcome{Conditions: fmt.Sprintf("%s on %d daemons on shared memory of this machine, one killed in a run, 3 "+
		"replicas, YCSB A with %d operations, values of %d B; unless a row says otherwise, %d records of each shard, %d "+
		"transactions under way at each node, logs of %s; %d runs each", trialProtocol, trialNodes, requests, trialBytes,
		usual.keys, usual.fibers, usual.logs, r.Seeds)}
	total, done := 0, 0
	for _, s := range sweeps {
		total += len(s.at) * r.Seeds
	}
	for _, s := range sweeps {
		pause, fill := report.ChartCurve{Name: "recovery, measured"}, report.ChartCurve{Name: "filling a replica, measured"}
		for i := range s.at {
			t := usual
			s.set(&t, i)
			var took, filled, decided, speed []float64
			for seed := range r.Seeds {
				if err := r.step(done, total); err != nil {
					return nil, err
				}
				x, err := t.run(r.ctx, uint64(seed+1))
				if err != nil {
					return nil, err
				}
				took = append(took, float64(x.Took)/1e6)
				filled = append(filled, float64(x.Fill)/1e6)
				decided = append(decided, float64(x.Committed+x.Aborted))
				speed = append(speed, float64(t.keys)/1e3/time.Duration(max(x.Fill, 1)).Seconds())
				done++
			}
			name := fmt.Sprintf("%g %s", s.at[i], strings.TrimSuffix(s.x, " [KiB]"))
			if strings.HasSuffix(s.x, "[KiB]") {
				name = t.logs + " of each log"
			}
			o.Rows = append(o.Rows,
				number{what: name + ": recovery", unit: "ms", digits: 2, reading: "from the pause of the survivors until nothing " +
					"of the dead was left, the longest of them; before it comes the membership lease, 2 s"}.seen(took...),
				number{what: name + ": transactions of the dead", digits: 1}.seen(decided...),
				number{what: name + ": longest filling of a replica", unit: "ms", digits: 0,
					reading: "in the background, beside transactions"}.seen(filled...),
				number{what: name + ": records of it", unit: "k/s", digits: 0}.seen(speed...))
			pause.Points = append(pause.Points, [2]float64{s.at[i], mean(took)})
			fill.Points = append(fill.Points, [2]float64{s.at[i], mean(filled)})
		}
		if len(s.at) > 1 {
			o.Charts = append(o.Charts, report.Chart{Title: "by " + s.name, X: s.x, Y: "time [ms]", LogX: true, LogY: true,
				Curves: []report.ChartCurve{pause, fill}})
		}
	}
	return o, nil
}

// recovered is what a report in JSON has of a recovery.
type recovered struct {
	Took      int64 `json:"took_ns"`
	Fill      int64 `json:"fill_ns"`
	Committed int   `json:"committed"`
	Aborted   int   `json:"aborted"`
	Short     []int `json:"short_shards"`
}

// run starts a cluster of this program for one benchmark, and kills a daemon when clients run.
func (t *trial) run(ctx context.Context, seed uint64) (_ *recovered, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "drtmd-recovery-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, trialRun+trialGrace)
	defer cancel()
	file := filepath.Join(dir, "report.json")
	c := exec.CommandContext(ctx, self, "up", "--nodes", strconv.Itoa(trialNodes), "--dir", filepath.Join(dir, "up"),
		"--accounts", "100", "--lease", "2s", "--", self, "bench", "--cluster", "up", "--protocol", trialProtocol,
		"--replicas", strconv.Itoa(copies), "--workload", "ycsb", "--letter", "A", "--operations", strconv.Itoa(requests),
		"--keys", strconv.Itoa(t.keys), "--value-bytes", strconv.Itoa(trialBytes), "--fibers", strconv.Itoa(t.fibers),
		"--log-bytes", t.logs, "--seed", strconv.FormatUint(seed, 10), "--warmup", "200ms", "--duration", trialRun.String(),
		"--json", file)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGINT) } // up ends its daemons
	c.WaitDelay = trialGrace
	w := &killer{pid: filepath.Join(dir, "up", trialVictim, "pid")}
	c.Stderr, c.Stdout = w, nil
	runErr := c.Run()
	text, err := os.ReadFile(file)
	if err != nil || runErr != nil || w.err != nil {
		return nil, fmt.Errorf("a cluster whose %s is killed: %w\n%s", trialVictim, errors.Join(runErr, err, w.err), &w.text)
	}
	var b struct {
		Recovered *recovered `json:"recovered"`
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, err
	}
	if b.Recovered == nil || len(b.Recovered.Short) > 0 {
		return nil, fmt.Errorf("the cluster has not recovered: %+v\n%s", b.Recovered, &w.text)
	}
	return b.Recovered, nil
}

// killer reads what the benchmark says, and kills a process when clients are measured.
type killer struct {
	pid  string // its file
	mu   sync.Mutex
	text bytes.Buffer
	done bool
	err  error
}

// Write implements io.Writer.
func (k *killer) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text.Write(p)
	if k.done || !bytes.Contains(k.text.Bytes(), []byte("measuring")) {
		return len(p), nil
	}
	k.done = true
	b, err := os.ReadFile(k.pid)
	id := 0
	if err == nil {
		id, err = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	if err == nil {
		err = syscall.Kill(id, syscall.SIGKILL)
	}
	k.err = err
	return len(p), nil
}
