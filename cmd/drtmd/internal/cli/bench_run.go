package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/proto/node"
)

// recordBytes is what all recorders keep in memory together, before they go on in a file.
const recordBytes = 1 << 30

// clientChargePs is the CPU time of drawing a transaction in the simulator: assumed, the 25 ns
// that it takes on the development machine (go test -bench Next ./proto/workload/smallbank).
const clientChargePs = 25_000

// checkError ends the command after a check of the run failed; the report has said how.
type checkError struct{ what string }

func (e *checkError) Error() string { return "check failed: " + e.what }

func (r *benchRun) run(ctx context.Context) (err error) {
	p := r.flags
	progress, finish := r.progress()
	o := load.Options{Workload: r.workload, Open: r.open, ClientNodes: p.clientNodes, Seed: p.seed, Warmup: p.warmup, Duration: p.duration,
		SampleEvery: p.sampleEvery, YieldEvery: p.yieldEvery, Progress: progress,
		Interval: r.interval()}
	if r.cost != nil {
		o.Virtual, o.ChargePs = true, clientChargePs
	}
	if p.join > 0 {
		finish()
		return r.joinRun(ctx, o)
	}
	err = errors.Join(writable("history", p.history), writable("json", p.json))
	if p.report != "" && err == nil {
		err = report.PrepareFolder(p.report)
	}
	if err == nil {
		err = r.makeScratch()
	}
	if err != nil {
		finish()
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.scratch)) }()
	doc := r.document()
	var res *load.Result
	if r.client != nil {
		res, err = r.loadCluster(ctx, progress)
		err = errors.Join(err, r.client.Close())
	} else {
		res, err = r.load(ctx, o)
	}
	finish()
	if res == nil {
		return r.withoutResult(r.wrongOptions(err))
	}
	doc.Fill(r.workload.Kinds(), r.verify, res)
	if values, err := r.protocol.Options.Values(p.options); err == nil {
		doc.FillRoles(r.protocol.Threads(r.sizes(), values), &res.Sum.Roles)
	}
	doc.CountPerMinute(r.perMinute)
	violated, checkErr := r.examine(ctx, doc, res)
	if res.History != nil {
		checkErr = errors.Join(checkErr, res.History.Close())
	}
	return errors.Join(violated, err, checkErr, r.write(doc))
}

// examine saves and checks the history. violated says that a check does not hold.
func (r *benchRun) examine(ctx context.Context, doc *report.Bench, res *load.Result) (violated,
	err error) {
	if res.Conserved != nil {
		violated = &checkError{"tables of " + r.flags.workload}
	}
	if res.Audit != nil {
		violated = errors.Join(violated, &checkError{"replicas of the records"})
	}
	if f := r.flags.history; f != "" && res.History != nil {
		if err := res.History.WriteFile(f); err != nil {
			return violated, fmt.Errorf("history: %w", err)
		}
		doc.History = f
	}
	if !r.flags.check || res.History == nil {
		return violated, nil
	}
	if ctx.Err() != nil {
		// An interrupted run is checked all the same, unless it is interrupted again.
		ctx = context.WithoutCancel(ctx)
	}
	c := checking{log: r.log, terminal: r.terminal(), most: r.flags.checkMemory}
	doc.Check, err = c.run(ctx, res.History, check.Options{UserAborts: true})
	if e := (*tooLargeError)(nil); errors.As(err, &e) {
		return violated, errors.Join(err, r.keep(doc, res.History, e))
	}
	if err != nil {
		return violated, fmt.Errorf("check: %w", err)
	}
	if doc.Check.Verdict != check.Serializable {
		violated = &checkError{doc.Check.Verdict.String()}
	}
	return violated, nil
}

// keep saves a history that is too large to be checked, unless it is saved already.
func (r *benchRun) keep(doc *report.Bench, h *history.History, e *tooLargeError) error {
	if e.saved = doc.History; e.saved != "" {
		return nil
	}
	f, err := os.CreateTemp("", "drtmd-bench-*.hist")
	if err != nil {
		return fmt.Errorf("the history is lost: %w", err)
	}
	if err := errors.Join(f.Close(), h.WriteFile(f.Name())); err != nil {
		return fmt.Errorf("the history is lost: %w", errors.Join(err, os.Remove(f.Name())))
	}
	e.saved, doc.History = f.Name(), f.Name()
	return nil
}

// open builds the cluster.
func (r *benchRun) open(ctx context.Context) (*node.Cluster, error) { return r.openPart(ctx, nil) }

// openPart builds this process's part of it; nil is all.
func (r *benchRun) openPart(ctx context.Context, part *node.Part) (*node.Cluster, error) {
	p := r.flags
	cfg := node.Config{Protocol: r.protocol, Workload: r.workload, Nodes: p.nodes,
		Replicas: p.replicas, Workers: p.workers, Fibers: p.fibers, Seed: p.seed, Mutation: p.mutation,
		Options: p.options, Growth: r.growth, Functions: r.functions}
	if r.recorded() {
		cfg.Record = &node.Recording{SpillDir: r.spillDir(),
			MemoryBytes: recordBytes / int64(p.nodes*p.workers)}
	}
	if r.index != nil {
		return r.openClients(ctx, cfg, part)
	}
	if r.cost != nil {
		return node.NewSimulated(ctx, node.SimulatedConfig{Config: cfg, Cost: r.cost})
	}
	return node.NewLocal(ctx, node.LocalConfig{Config: cfg, Provider: r.provider,
		Device: p.device, Threads: r.threads, Part: part})
}

func (r *benchRun) recorded() bool { return r.flags.check || r.flags.history != "" }

// wrongOptions makes what the configuration refuses an error of the command line.
func (r *benchRun) wrongOptions(err error) error {
	var unknown *node.UnknownError
	var outside *node.RangeError
	if errors.As(err, &unknown) || errors.As(err, &outside) {
		return usagef("", "%v", err)
	}
	return err
}

// withoutResult says of a run that has failed before there was anything to report which files do not
// come from it. Those of an earlier run are as they were.
func (r *benchRun) withoutResult(err error) error {
	var names []string
	for _, name := range []string{r.flags.report, r.flags.json, r.flags.history} {
		if name != "" && name != "-" {
			names = append(names, name)
		}
	}
	if err == nil || len(names) == 0 {
		return err
	}
	return fmt.Errorf("no result, and nothing written to %s: %w", strings.Join(names, ", "), err)
}

// document is the report with the settings filled in.
func (r *benchRun) document() *report.Bench {
	p := r.flags
	doc := &report.Bench{Date: time.Now().UTC(), Command: r.args,
		Workload: p.workload, Settings: r.settings, Options: r.allOptions, Protocol: p.protocol,
		Mutation: p.mutation, Transport: p.transport, Nodes: p.nodes, ClientNodes: p.clientNodes, Replicas: p.replicas,
		Workers: p.workers, Fibers: p.fibers, Threads: r.threads, Processes: p.processes, Seed: p.seed, WarmupNs: int64(p.warmup),
		DurationNs: int64(p.duration), Virtual: r.cost != nil, SampleEvery: p.sampleEvery,
		Recorded: r.recorded(), Environment: report.ThisEnvironment()}
	if r.cost != nil {
		doc.CostModel = r.cost.Name
	}
	if r.index != nil {
		doc.Index = r.index.Name
		if doc.Memory = p.memory; doc.Memory == "" {
			doc.Memory = "own"
		}
		doc.MemoryNodes = max(p.memoryNodes, len(memoryAddresses(p.memory)))
	}
	return doc
}

// write prints the report.
func (r *benchRun) write(doc *report.Bench) error {
	var folder error
	if dir := r.flags.report; dir != "" {
		if folder = doc.WriteFolder(dir); folder == nil {
			r.log.Info("report", zap.String("file", filepath.Join(dir, report.HTMLFile)))
		}
	}
	if r.flags.json == "-" {
		return errors.Join(doc.WriteJSON(r.stdout), folder)
	}
	err := errors.Join(doc.WriteText(r.stdout), folder)
	if f := r.flags.json; f != "" {
		err = errors.Join(err, writeFile(f, doc.WriteJSON))
	}
	return err
}

// writable reports why a file that a flag names could not be written, before the run that it is
// for. A file that is there stays as it is; one that is not is not made. "" and - are no files, and
// a pipe would be at its end for its reader.
func writable(flag, name string) error {
	if name == "" || name == "-" {
		return nil
	}
	switch i, err := os.Stat(name); {
	case err == nil && i.IsDir():
		return fmt.Errorf("--%s: %s is a folder; name a file in it", flag, name)
	case err == nil && !i.Mode().IsRegular():
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(name))
	} else if errors.Is(err, os.ErrExist) {
		if f, err = os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("--%s: %w; name a file in a folder that you may write to", flag, err)
	}
	return nil
}

// noFolder reports a folder where a file is to be read, with what to name instead.
func noFolder(name, instead string) error {
	if i, err := os.Stat(name); err == nil && i.IsDir() {
		return fmt.Errorf("%s is a folder; name a file%s", name, instead)
	}
	return nil
}

// replaceable reports why report.Replace could not write a file that a flag names: it makes another
// one in the same folder, and gives it the name.
func replaceable(flag, name string) error {
	if name == "" || name == "-" {
		return nil
	}
	err := report.MayReplace(name)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Intervals of progress, in real time.
const (
	barInterval  = 250 * time.Millisecond
	lineInterval = 2 * time.Second
)

// clearLine empties the line of a terminal.
const clearLine = "\r\x1b[K"

func (r *benchRun) interval() time.Duration {
	if r.terminal() != nil {
		return barInterval
	}
	return lineInterval
}

// progress shows a line that changes on a terminal, and a line now and then otherwise. finish
// clears it.
func (r *benchRun) progress() (show func(load.Progress), finish func()) {
	line := func(p load.Progress) string {
		return fmt.Sprintf("%s, %s of %s: %.0f committed/s, %.2f %% of the attempts aborted",
			p.Phase, p.Elapsed.Round(time.Millisecond), p.Of, p.PerSecond, 100*p.AbortRate)
	}
	f := r.terminal()
	if f == nil {
		return func(p load.Progress) { r.log.Info(line(p)) }, func() {}
	}
	return func(p load.Progress) { fmt.Fprint(f, clearLine+line(p)) },
		func() { fmt.Fprint(f, clearLine) }
}
