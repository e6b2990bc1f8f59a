package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/proto/member"
)

func TestAClusterFormsAndRunsABenchmarkThatIsStrictlySerializable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	m := w.settled(w.nodes...)
	p := bench(800 * time.Millisecond) // progress is told four times a second
	if raceEnabled {
		p.Duration = 2 * time.Second // on a machine of one's own
	}
	p.Record = true
	o := w.nodes[1].mustRun(p)
	if o.progress == 0 {
		t.Error("no progress was told")
	}
	if o.result.Sum.Outcomes(proto.Committed) == 0 {
		t.Error("nothing was committed")
	}
	file := filepath.Join(w.dir, "run.hist")
	var sent bytes.Buffer
	expand := control.Expand(&sent)
	_, err := expand.Write(o.history)
	if err := errors.Join(err, expand.Close(), os.WriteFile(file, sent.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if 5*len(o.history) > 4*sent.Len() {
		t.Errorf("a history of %d bytes travelled as %d", sent.Len(), len(o.history))
	}
	h, err := history.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if n := len(h.Nodes()); n != 3 {
		t.Errorf("the history is of %d nodes, want 3", n)
	}
	r, err := check.History(context.Background(), h, check.Options{UserAborts: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.InitialKeys == nil || *r.InitialKeys == 0 || r.FinalKeys == nil ||
		*r.FinalKeys != *r.InitialKeys || !r.CountedVersions {
		t.Errorf("what the tables of the cluster held was not compared: %+v", r)
	}
	if r.Verdict != check.Serializable {
		t.Errorf("verdict %v", r.Verdict)
	}
	after := w.settled(w.nodes...)
	if want := m.Version + 2; after.Version != want {
		t.Errorf("shard map %d after the run, want %d: one of the run, one that serves", after.Version,
			want)
	}
}

func TestANodeSaysReadyOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.nodes[0].mustRun(bench(50 * time.Millisecond))
	w.settled(w.nodes...)
	if out := w.nodes[0].out.String(); strings.Count(out, "READY ") != 1 {
		t.Errorf("output %q, want one line with READY", out)
	}
}

func TestANodeThatLeavesAndComesBackIsANewIncarnationWithItsOldID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settled(w.nodes...)
	before := w.nodes[2].self().Member
	if _, err := w.nodes[0].client.Status(t.Context(), false); err != nil { // it learns of the third
		t.Fatal(err)
	}
	w.nodes[2].stop()
	w.settled(w.nodes[0], w.nodes[1])
	w.until("the former member is shown", func() bool {
		c, err := w.nodes[0].client.Status(t.Context(), false)
		return err == nil && slices.ContainsFunc(c.Nodes, func(n status.Node) bool {
			return n.Member.Same(before) && n.Phase == status.Gone && n.Reason != ""
		})
	}, func() any { return nil })
	w.nodes[2].start()
	w.settled(w.nodes...)
	after := w.nodes[2].self().Member
	if after.Node != before.Node || after.Incarnation <= before.Incarnation {
		t.Errorf("was %v, is %v", before, after)
	}
	w.nodes[2].mustRun(bench(50 * time.Millisecond))
}

func TestTheNodeWithTheRegistryComesBackToTheClusterThatItBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	before := w.nodes[0].self()
	w.nodes[0].stop()
	w.nodes[1].await(status.Refusing)
	o := w.nodes[1].run(t.Context(), bench(time.Millisecond), nil)
	if !errors.Is(o.err, member.ErrLeaseLost) {
		t.Errorf("a run without a lease gives %v, want a lost lease", o.err)
	}
	w.nodes[0].start()
	w.settled(w.nodes...)
	if after := w.nodes[0].self(); after.Member.Node != before.Member.Node ||
		after.Member.Incarnation <= before.Member.Incarnation {
		t.Errorf("was %v, is %v", before.Member, after.Member)
	}
	w.nodes[1].mustRun(bench(50 * time.Millisecond))
}

func TestAMemberRemovedDuringARunIsNamedAndTheRunGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settled(w.nodes...)
	begun, got := make(chan struct{}), make(chan outcome, 1)
	p := bench(2 * time.Second)
	p.Record = true
	go func() { got <- w.nodes[0].run(context.Background(), p, begun) }()
	<-begun
	gone := w.nodes[2].remove(w.nodes[0])
	o := <-got
	if o.err != nil {
		t.Fatal(o.err)
	}
	if !o.done.Lost || o.result == nil || o.result.Lost == nil || len(o.history) > 0 {
		t.Errorf("lost %v, result %v, %d bytes of history", o.done.Lost, o.result, len(o.history))
	}
	if len(o.notices) == 0 || !strings.Contains(o.notices[0], gone.String()) {
		t.Errorf("notices %q do not name %v", o.notices, gone)
	}
	w.settled(w.nodes...) // it comes back as a new incarnation
	if after := w.nodes[2].self().Member; after.Incarnation <= gone.Incarnation {
		t.Errorf("was %v, is %v", gone, after)
	}
	p.Duration = 100 * time.Millisecond
	w.nodes[0].mustRun(p)
}

func TestTheOthersGoOnWithoutTheLeaderOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.settled(w.nodes...)
	begun, got := make(chan struct{}), make(chan outcome, 1)
	go func() { got <- w.nodes[2].run(context.Background(), bench(30*time.Second), begun) }()
	<-begun
	w.nodes[2].remove(w.nodes[0])
	o := <-got
	if o.err == nil && o.done.Error == "" {
		t.Error("the run of a leader that was removed ended without an error")
	}
	w.settled(w.nodes...)
	w.nodes[0].mustRun(bench(50 * time.Millisecond))
}

func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	begun, got := make(chan struct{}), make(chan outcome, 1)
	go func() { got <- w.nodes[0].run(context.Background(), bench(30*time.Second), begun) }()
	<-begun
	for i, n := range w.nodes {
		o := n.run(t.Context(), bench(time.Millisecond), nil)
		if !errors.Is(o.err, control.ErrBusy) {
			t.Errorf("a second run at node %d gives %v, want that another one is under way", i, o.err)
		}
	}
	s := w.nodes[1].await(status.Running)
	if s.Load == nil || s.Load.Run == "" {
		t.Errorf("load %+v does not name the run", s.Load)
	}
	if was, err := w.nodes[1].client.Stop(t.Context()); err != nil || !was {
		t.Errorf("stop: %v, %v", was, err)
	}
	if o := <-got; o.err != nil || !o.done.Interrupted || o.result == nil {
		t.Errorf("stopped run: %+v", o)
	}
}

func TestANodeThatDrainsHasTheRunEndInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drains int
		called bool // by the control plane, not by a signal
	}{"the leader of the run": {1, false}, "another node": {2, false},
		"the leader is called": {1, true}, "another node is called": {2, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			w.settled(w.nodes...)
			begun, got := make(chan struct{}), make(chan outcome, 1)
			go func() { got <- w.nodes[1].run(context.Background(), bench(time.Minute), begun) }()
			<-begun
			n := w.nodes[c.drains]
			if c.called {
				told, err := n.client.Drain(t.Context(), false)
				if want := n.d.members.Name(); err != nil || len(told) != 1 || told[0] != want {
					t.Fatalf("told %q, error %v, want %s", told, err, want)
				}
				n.ends()
			} else {
				n.stop()
			}
			o := <-got
			if o.err != nil || !o.done.Interrupted || o.done.Lost || o.result == nil {
				t.Fatalf("error %v, done %v", o.err, o.done)
			}
			if o.result.Conserved != nil {
				t.Error(o.result.Conserved)
			}
			w.settled(w.nodes[0], w.nodes[3-c.drains])
		})
	}
}

func TestARunWhoseCallerIsGoneEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	begun, got := make(chan struct{}), make(chan outcome, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { got <- w.nodes[0].run(ctx, bench(time.Minute), begun) }()
	<-begun
	cancel()
	<-got
	w.settled(w.nodes...)
	w.nodes[1].mustRun(bench(50 * time.Millisecond))
}

func TestStepsOfOlderVersionsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	v := w.settled(w.nodes...).Version
	w.nodes[0].mustRun(bench(50 * time.Millisecond))
	w.settled(w.nodes...)
	for _, step := range []load.Step{load.StepOpen, load.StepConnect, load.StepGo, load.StepStart,
		load.StepLook, load.StepEnd, load.StepFinish, load.StepQuit} {
		_, err := w.nodes[1].client.Do(t.Context(), v, []byte(`{"step":"`+string(step)+`"}`))
		if !errors.Is(err, member.ErrStale) {
			t.Errorf("step %s of shard map %d gives %v, want that it is stale", step, v, err)
		}
	}
	if s := w.nodes[1].self(); s.Phase != status.Ready {
		t.Errorf("phase %s: %s", s.Phase, s.Reason)
	}
}

func TestGenerationsLeaveNothingBehind(t *testing.T) {
	w := newWorld(t, 3)
	generations := func(n int) {
		for i := range n / 2 { // each run has two: its own, and the one that serves after it
			w.nodes[i%3].mustRun(bench(20 * time.Millisecond))
			w.settled(w.nodes...)
		}
	}
	first, more := 10, 50
	if raceEnabled { // each takes a second
		first, more = 6, 2*slack
	}
	generations(first)
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	generations(more)
	w.until("no more files and goroutines than before", func() bool {
		return openFiles(t) <= files+slack && runtime.NumGoroutine() <= goroutines+slack
	}, func() any { return []int{files, openFiles(t), goroutines, runtime.NumGoroutine()} })
}

// slack are goroutines and files that come and go, such as those of gRPC's connections; a leak would
// be one in each of the generations at least.
const slack = 8

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
