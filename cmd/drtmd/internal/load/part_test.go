package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/verbs/shm"
)

// localPeer shares a process with the test, and talks JSON as others do.
type localPeer struct {
	name string
	part *Part
	gone chan struct{}
	once sync.Once
}

func (p *localPeer) Name() string          { return p.name }
func (p *localPeer) Gone() <-chan struct{} { return p.gone }
func (p *localPeer) Err() error            { return errors.New("killed by the test") }

func (p *localPeer) die() { p.once.Do(func() { close(p.gone) }) }

func (p *localPeer) Do(ctx context.Context, r *Request) (*Answer, error) {
	select {
	case <-p.gone:
		return nil, p.Err()
	default:
	}
	sent, got := &Request{}, &Answer{}
	b, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(b, sent)
	}
	if err != nil {
		return nil, err
	}
	a, err := p.part.Do(ctx, sent)
	if err != nil {
		return nil, &Refusal{err.Error()}
	}
	if b, err = json.Marshal(a); err == nil {
		err = json.Unmarshal(b, got)
	}
	return got, err
}

// testPlan is a short run of SmallBank whose transactions are often distributed.
func testPlan(nodes int) *Plan {
	p := DefaultPlan(composition.BuiltIn())
	p.Settings = option.Settings{"accounts": "200", "distributed": "0.3"}
	p.Nodes, p.Fibers, p.Threads = nodes, 4, 1
	p.Warmup, p.Duration, p.Record = 20*time.Millisecond, 300*time.Millisecond, true
	return p
}

// testPeers makes peers of one fabric. They are closed at the end of the test.
func testPeers(t *testing.T, n int, silence time.Duration) []*localPeer {
	t.Helper()
	provider := shm.New(shm.Options{})
	open := func(ctx context.Context, r *Request, p *node.Part) (*node.Cluster, *Options, error) {
		cfg, err := r.Plan.Make(composition.BuiltIn())
		if err != nil {
			return nil, nil, err
		}
		if r.Plan.Record {
			cfg.Record = &node.Recording{SpillDir: t.TempDir(), MemoryBytes: 1 << 20}
		}
		c, err := node.NewLocal(ctx, node.LocalConfig{Config: cfg, Provider: provider,
			Threads: r.Plan.Threads, Part: p})
		if err != nil {
			return nil, nil, err
		}
		o := r.Plan.Options(cfg.Workload)
		return c, &o, nil
	}
	var list []*localPeer
	for i := range n {
		p := &localPeer{name: fmt.Sprint("peer ", i), gone: make(chan struct{}),
			part: NewPart(PartConfig{Open: open, Silence: silence})}
		t.Cleanup(func() {
			if err := p.part.Close(); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
		list = append(list, p)
	}
	return list
}

func peerOptions(t *testing.T, plan *Plan, list []*localPeer) PeerOptions {
	t.Helper()
	cfg, err := plan.Make(composition.BuiltIn())
	if err != nil {
		t.Fatal(err)
	}
	o := PeerOptions{Options: plan.Options(cfg.Workload), Nodes: plan.Nodes, Plan: plan, Run: "run 1",
		Names: node.Names(cfg.Workload), TempDir: t.TempDir()}
	for _, p := range list {
		o.Peers = append(o.Peers, p)
	}
	return o
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestRunOnPeersIsOneReport(t *testing.T) {
	plan := testPlan(3)
	res, err := RunPeers(testContext(t), peerOptions(t, plan, testPeers(t, 3, time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	if res.Conserved != nil {
		t.Error(res.Conserved)
	}
	if res.History == nil {
		t.Fatal("no history")
	}
	defer func() {
		if err := res.History.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n := len(res.History.Nodes()); n != 3 {
		t.Errorf("history of %d nodes, want 3", n)
	}
	var inSeries uint64
	for _, p := range res.Series {
		if p.At > 0 {
			inSeries += p.Committed
		}
	}
	if n := res.Sum.Outcomes(proto.Committed); n == 0 || inSeries != n {
		t.Errorf("%d committed, %d in the series", n, inSeries)
	}
	for i := 1; i < len(res.Quantiles); i++ {
		if res.Quantiles[i].Ns < res.Quantiles[i-1].Ns || res.Quantiles[i].P < res.Quantiles[i-1].P {
			t.Fatalf("the curve falls at %d: %v", i, res.Quantiles[i-1:i+1])
		}
	}
	b, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var got Result
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := *res
	want.History = nil // is sent apart
	if !reflect.DeepEqual(got, want) {
		t.Errorf("another result after the wire:\n%+v\nwant\n%+v", got, want)
	}
}

func TestResultsErrorsSurviveTheWire(t *testing.T) {
	r := &Result{Conserved: errors.New("3 too many"),
		Lost: &LostError{Processes: []error{errors.New("node 1 ended")}}}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got Result
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	var lost *LostError
	if !errors.As(got.Lost, &lost) || got.Lost.Error() != r.Lost.Error() {
		t.Errorf("lost %v, want %v", got.Lost, r.Lost)
	}
	if got.Conserved == nil || got.Conserved.Error() != "3 too many" {
		t.Errorf("conserved: %v", got.Conserved)
	}
}

// dieOnceMeasuring has a peer fenced, as a daemon is when its lease ends, and killed when the run of o measures; it
// gives the error of the fence then.
func dieOnceMeasuring(o *PeerOptions, p *localPeer) <-chan error {
	begun := make(chan struct{})
	var once sync.Once
	o.Interval, o.Progress = time.Millisecond, func(p Progress) {
		if p.Phase == Measuring {
			once.Do(func() { close(begun) })
		}
	}
	killed := make(chan error, 1)
	go func() {
		<-begun
		err := p.part.Fence(errors.New("its lease has ended"))
		p.die()
		killed <- err
	}()
	return killed
}

// The part of a peer that dies is fenced, as a daemon does it when its lease ends.
func TestRunGoesOnWithoutALostPeerAndNamesIt(t *testing.T) {
	plan, list := testPlan(3), testPeers(t, 3, time.Minute)
	plan.Duration = 2 * time.Second
	o := peerOptions(t, plan, list)
	var told []error
	o.Lost = func(err error) { told = append(told, err) }
	killed := dieOnceMeasuring(&o, list[1])
	res, err := RunPeers(testContext(t), o)
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	var lost *LostError
	if !errors.As(err, &lost) || len(lost.Processes) != 1 ||
		!strings.Contains(lost.Error(), "peer 1") {
		t.Fatalf("the run ended with %v, want the loss of peer 1", err)
	}
	if len(told) != 1 {
		t.Errorf("told of %v", told)
	}
	if res == nil || !errors.Is(err, res.Lost) || res.History != nil {
		t.Fatalf("result %+v", res)
	}
	if res.Sum.Engine.Aborts[proto.ReasonUnreachable] == 0 {
		t.Errorf("aborts %v: none for %s", res.Sum.Engine.Aborts, proto.ReasonUnreachable)
	}
	if last := res.Series[len(res.Series)-1]; last.Committed == 0 {
		t.Error("the others did not go on")
	}
}

func TestPartsServeWithoutClients(t *testing.T) {
	ctx, plan, list := testContext(t), testPlan(2), testPeers(t, 2, 0)
	o := peerOptions(t, plan, list)
	o.Run = ""
	for i := range 2 { // a second time replaces what is there
		if err := BuildPeers(ctx, o); err != nil {
			t.Fatal(err)
		}
		m, err := list[0].part.Metrics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.Opened != uint64(i+1) || m.Workers != 1 || len(m.Tables) == 0 || m.Registered == 0 {
			t.Errorf("metrics %+v", m)
		}
		n := list[0].part.Info()
		if !n.Open || n.Running || !n.Links[1] {
			t.Errorf("info %+v", n)
		}
	}
	if err := list[0].part.Disconnect(1, errors.New("gone")); err != nil {
		t.Fatal(err)
	}
	if list[0].part.Info().Links[1] {
		t.Error("linked with a member that was disconnected")
	}
}

func TestMetricsKeepLatenciesThatARunForgets(t *testing.T) {
	ctx, plan, list := testContext(t), testPlan(1), testPeers(t, 1, 0)
	part := list[0].part
	if err := BuildPeers(ctx, peerOptions(t, plan, list)); err != nil {
		t.Fatal(err)
	}
	if _, err := part.Do(ctx, &Request{Step: StepStart}); err != nil {
		t.Fatal(err)
	}
	look := func() *Metrics {
		m, err := part.Metrics(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := look()
	for before.Life[0].TotalCount() < 1000 {
		before = look()
	}
	if _, err := part.Do(ctx, &Request{Step: StepLook, Reset: true}); err != nil {
		t.Fatal(err)
	}
	after := look()
	if after.Latency[0].Samples >= after.Life[0].TotalCount() {
		t.Errorf("%d latencies since the reset, %d of all", after.Latency[0].Samples,
			after.Life[0].TotalCount())
	}
	for kind, h := range before.Life {
		if n := after.Life[kind].TotalCount(); n < h.TotalCount() {
			t.Errorf("type %d: %d latencies, %d before", kind, n, h.TotalCount())
		}
	}
	if _, err := part.Do(ctx, &Request{Step: StepEnd}); err != nil {
		t.Fatal(err)
	}
}

func TestFencedPartRefusesInWords(t *testing.T) {
	ctx, plan, list := testContext(t), testPlan(1), testPeers(t, 1, 0)
	part := list[0].part
	o := peerOptions(t, plan, list)
	if err := BuildPeers(ctx, o); err != nil {
		t.Fatal(err)
	}
	why := errors.New("its lease has ended")
	if err := part.Fence(why); err != nil {
		t.Fatal(err)
	}
	_, err := part.Do(ctx, &Request{Step: StepStart})
	if !errors.Is(err, ErrFenced) || !errors.Is(err, why) {
		t.Errorf("start: %v", err)
	}
	if err := BuildPeers(ctx, o); err != nil { // a new life
		t.Fatal(err)
	}
	if got := part.Info().Fenced; got != nil {
		t.Errorf("still fenced: %v", got)
	}
}

func TestFenceEndsAPartThatIsBeingOpened(t *testing.T) {
	ctx, list := testContext(t), testPeers(t, 1, 0)
	part := list[0].part
	plan := testPlan(2) // the other never comes
	a, err := part.Do(ctx, &Request{Step: StepOpen, Plan: plan, Members: []proto.NodeID{0}})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Own) != 1 {
		t.Fatalf("%d descriptors", len(a.Own))
	}
	if err := part.Fence(errors.New("its lease has ended")); err != nil {
		t.Fatal(err)
	}
	if _, err := part.Do(ctx, &Request{Step: StepGo}); err == nil {
		t.Error("a fenced part went on")
	}
}

func TestStepsOutOfOrderAreRefused(t *testing.T) {
	ctx, plan, list := testContext(t), testPlan(1), testPeers(t, 1, 0)
	refuses := func(when string, steps ...Step) {
		t.Helper()
		for _, s := range steps {
			if _, err := list[0].part.Do(ctx, &Request{Step: s}); err == nil {
				t.Errorf("%s of a part that %s: no error", s, when)
			}
		}
	}
	refuses("is not open", StepConnect, StepGo, StepStart, StepLook, StepFailed, StepEnd, StepFinish,
		"dance")
	if err := BuildPeers(ctx, peerOptions(t, plan, list)); err != nil {
		t.Fatal(err)
	}
	refuses("has not started", StepLook, StepFailed, StepEnd, StepFinish, "dance")
	if _, err := list[0].part.Do(ctx, &Request{Step: StepStart}); err != nil {
		t.Fatal(err)
	}
	refuses("has started", StepStart, "dance")
	if _, err := list[0].part.Do(ctx, &Request{Step: StepEnd}); err != nil {
		t.Fatal(err)
	}
}

func TestRunWhoseLeaderIsSilentEnds(t *testing.T) {
	ctx, plan, list := testContext(t), testPlan(1), testPeers(t, 1, 50*time.Millisecond)
	part := list[0].part
	if err := BuildPeers(ctx, peerOptions(t, plan, list)); err != nil {
		t.Fatal(err)
	}
	if _, err := part.Do(ctx, &Request{Step: StepStart}); err != nil {
		t.Fatal(err)
	}
	part.mu.Lock()
	site := part.site
	part.mu.Unlock()
	if err := site.tasks.Wait(ctx); err != nil { // without a word of its leader
		t.Error(err)
	}
}
