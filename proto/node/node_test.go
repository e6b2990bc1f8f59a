package node_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/smallbank"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bank is a small SmallBank.
func bank(t *testing.T, nodes int) *smallbank.Bank {
	t.Helper()
	o := smallbank.Default(nodes)
	o.Accounts = 200
	if nodes == 1 {
		o.Distributed = 0
	} else {
		o.Distributed = 0.2
	}
	b, err := smallbank.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// small is a micro workload with many conflicts.
func small(t *testing.T, nodes int) *micro.Micro {
	t.Helper()
	o := micro.Default(nodes)
	o.Keys = 16
	m, err := micro.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func protocol(t *testing.T, name string) node.Protocol {
	t.Helper()
	p, err := node.FindProtocol(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hosts are what clusters run on.
var hosts = []struct {
	name string
	make func(ctx context.Context, c node.Config) (*node.Cluster, error)
}{
	{"shm", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewLocal(ctx, node.LocalConfig{Config: c})
	}},
	{"sim", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewSimulated(ctx, node.SimulatedConfig{Config: c})
	}},
}

func TestEveryProtocolKeepsTheSumsAndIsStrictlySerializable(t *testing.T) {
	for _, h := range hosts {
		for _, p := range node.Protocols() {
			if p.Chips != nil && h.name != "sim" {
				continue // package enginetest tests that they are refused
			}
			nodes := 3
			if h.name == "sim" && p.OneThread {
				nodes = 1 // it reaches no memory over a network
			}
			for _, w := range []workload.Workload{bank(t, nodes), small(t, nodes)} {
				t.Run(h.name+"/"+p.Name+"/"+w.Name(), func(t *testing.T) {
					if h.name == "sim" {
						raceskip.Simulated(t)
					}
					runAndCheck(t, h.make, node.Config{Protocol: p, Workload: w, Nodes: nodes,
						Workers: 1, Fibers: 4, Seed: 7, Record: &node.Recording{}})
				})
			}
		}
	}
}

func runAndCheck(t *testing.T,
	make func(ctx context.Context, c node.Config) (*node.Cluster, error), cfg node.Config) {
	ctx := context.Background()
	c, err := make(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	committed, did := load(t, c, 2*time.Millisecond)
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	tally := c.Verify()
	if tally.Wrong != "" || tally.Records == 0 {
		t.Fatalf("%d records, %s", tally.Records, tally.Wrong)
	}
	if err := did.Explains(tally.Initial, tally.Final, cfg.Workload.Sums()...); err != nil {
		t.Error(err)
	}
	h, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	if committed == 0 || h.Txns() < committed {
		t.Errorf("%d transactions committed, %d recorded", committed, h.Txns())
	}
	res, err := check.History(ctx, h, check.Options{UserAborts: true})
	if err != nil {
		t.Fatal(err)
	}
	if res.Verdict != check.Serializable {
		t.Errorf("%v", res.Verdict)
		for _, v := range res.Violations {
			t.Log(v.Text)
		}
	}
}

// load runs a cluster's workload until it has done enough, looking every d.
func load(t *testing.T, c *node.Cluster, d time.Duration) (uint64, *workload.Ledger) {
	t.Helper()
	ctx := context.Background()
	var over atomic.Bool
	counts := map[*node.Worker]*workload.Counts{}
	clients := map[*node.Worker][]workload.Client{}
	for _, w := range c.Workers() {
		counts[w] = &workload.Counts{}
		for i := range c.Config.Fibers {
			clients[w] = append(clients[w],
				c.Config.Workload.NewClient(w.Node, rand.New(rand.NewPCG(uint64(w.Node), uint64(i)))))
		}
	}
	tasks := c.Start("load", c.Config.Fibers, func(f *fiber.Fiber, w *node.Worker, i int) error {
		d := workload.Driver{Runner: proto.Runner{Engine: w.Engine, Rand: w.Rand},
			Client: clients[w][i], Counts: counts[w], Over: over.Load}
		return d.Run(f)
	})
	for done := uint64(0); done < enough; {
		if err := c.Sleep(ctx, d); err != nil {
			t.Fatal(err)
		}
		if tasks.Failed() {
			t.Fatal(tasks.Wait(ctx))
		}
		done = 0
		err := c.Inspect(ctx, func(w *node.Worker) { done += committed(counts[w]) })
		if err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	if err := tasks.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	did := &workload.Ledger{}
	sum := uint64(0)
	for w, k := range counts {
		sum += committed(k)
		for _, x := range clients[w] {
			x.AddTo(did)
		}
	}
	return sum, did
}

// enough transactions for a run.
const enough = 500

func committed(c *workload.Counts) uint64 {
	n := uint64(0)
	for i := range c.Kinds {
		n += c.Kinds[i].Outcomes[proto.Committed]
	}
	return n
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	ctx := context.Background()
	good := func() node.LocalConfig {
		return node.LocalConfig{Config: node.Config{Protocol: protocol(t, "nocc"),
			Workload: bank(t, 2), Nodes: 2}}
	}
	for _, c := range []struct {
		name   string
		change func(*node.LocalConfig)
	}{
		{"more threads than workers", func(c *node.LocalConfig) { c.Threads = 3 }},
		{"one-thread protocol on two", func(c *node.LocalConfig) { c.Threads = 2 }},
		{"negative nodes", func(c *node.LocalConfig) { c.Nodes = -1 }},
		{"too many fibers", func(c *node.LocalConfig) { c.Fibers = 1 << 20 }},
		{"unknown mutation", func(c *node.LocalConfig) { c.Mutation = "nonsense" }},
		{"no workload", func(c *node.LocalConfig) { c.Workload = nil }},
		{"a nil bank", func(c *node.LocalConfig) { c.Workload = (*smallbank.Bank)(nil) }},
		{"no placement", func(c *node.LocalConfig) { c.Workload = odd{Workload: c.Workload} }},
		{"no capacity", func(c *node.LocalConfig) { c.Workload = oddTables(c.Workload, 0) }},
		{"more records than capacity", func(c *node.LocalConfig) { c.Workload = oddTables(c.Workload, 10) }},
		{"unknown device", func(c *node.LocalConfig) { c.Device = "shm7" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good()
			c.change(&cfg)
			if cluster, err := node.NewLocal(ctx, cfg); err == nil {
				t.Errorf("taken: %v", cluster.Close())
			}
		})
	}
	t.Run("more nodes than a lock can name", func(t *testing.T) {
		cfg := node.Config{Protocol: protocol(t, "drtm"), Workload: bank(t, 2), Nodes: 257}
		var many *node.TooManyNodesError
		if err := cfg.Complete(); !errors.As(err, &many) || many.Most != 256 {
			t.Errorf("257 nodes: %v", err)
		}
		if cfg.Nodes = 256; cfg.Complete() != nil {
			t.Errorf("256 nodes: %v", cfg.Complete())
		}
	})
	_, err := node.FindProtocol("nonsense")
	var unknown *node.UnknownError
	if !errors.As(err, &unknown) {
		t.Errorf("FindProtocol: %v", err)
	}
}

// TestCancelledClusterIsNotBuilt: hundreds of members take a minute to connect.
func TestCancelledClusterIsNotBuilt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	opened := 0
	provider := countingProvider{shm.New(shm.Options{Dir: t.TempDir()}), &opened}
	cluster, err := node.NewLocal(ctx, node.LocalConfig{Provider: provider,
		Config: node.Config{Protocol: protocol(t, "drtm"), Workload: bank(t, 2), Nodes: 2}})
	if !errors.Is(err, context.Canceled) || cluster != nil || opened != 0 {
		t.Errorf("cluster %v, error %v, %d devices opened", cluster, err, opened)
	}
}

// countingProvider counts the devices that were opened.
type countingProvider struct {
	verbs.Provider
	opened *int
}

func (p countingProvider) Open(name string) (*verbs.Context, error) {
	*p.opened++
	return p.Provider.Open(name)
}

// TestEngineThatCannotBeMadeIsNil: a typed nil would look like an engine, and be closed.
func TestEngineThatCannotBeMadeIsNil(t *testing.T) {
	for _, name := range []string{"drtm", "twopl"} {
		p := protocol(t, name)
		options, err := p.Options.Values(nil)
		if err != nil {
			t.Fatal(err)
		}
		env := &node.Env{Index: 1 << 20, Peers: make([]node.Peer, 1<<20), Options: options}
		e, err := p.Make(env)
		if err == nil || e != nil {
			t.Errorf("%s: engine %v, error %v", name, e, err)
		}
	}
}

// TestLeasesAndHistoryCountWithTheSameClockError: both read one clock. DELTA that is smaller than
// what the check of the history allows for would be a bug that no check can see.
func TestLeasesAndHistoryCountWithTheSameClockError(t *testing.T) {
	ctx := context.Background()
	for name, outside := range map[string]time.Duration{"one process": 0, "several": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			delta := time.Duration(-1)
			p, err := node.FindProtocol("drtm")
			if err != nil {
				t.Fatal(err)
			}
			inner := p.New
			p.New = func(e *node.Env) (proto.Engine, error) {
				delta = e.ClockError
				return inner(e)
			}
			cfg := node.LocalConfig{Config: node.Config{Protocol: p, Workload: bank(t, 1), Fibers: 1,
				Record: &node.Recording{}}}
			if outside > 0 {
				cfg.Part = &node.Part{Members: []proto.NodeID{0}, Clock: verbs.NewMonotonicClock(),
					ClockError: outside, Connected: func() error { return nil },
					Exchange: func(own []node.Descriptor) ([]node.Descriptor, error) { return own, nil }}
				lease := (10 * outside).String()
				cfg.Options = option.Settings{"lease": lease, "lease-read-only": lease}
			}
			c, err := node.NewLocal(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			h, err := c.History()
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			}()
			if e := time.Duration(h.Nodes()[0].ErrorNs); delta != e || delta != outside+verbs.MonotonicError {
				t.Errorf("DELTA is %s, the history counts with %s, and the clock errs by %s", delta, e,
					outside+verbs.MonotonicError)
			}
		})
	}
}

// TestASilentPeerIsWaitedFor: for seconds while the sessions are opened, as where a busy machine gives it no CPU, and
// then no more, in words; for two seconds where the cluster is tried again.
func TestASilentPeerIsWaitedFor(t *testing.T) {
	for _, x := range []struct {
		silence string
		retried bool
		waited  string // for so long in vain; "": it is opened
	}{{"6s", false, ""}, {"11s", false, "silent for 10s"}, {"1s", true, ""}, {"6s", true, "silent for 2s"}} {
		c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: node.Config{
			Protocol: node.DefaultProtocol(), Workload: small(t, 2), Nodes: 2, Retried: x.retried},
			Faults: "at 0ns drop from=n1 to=n0 ppm=1000000 for=" + x.silence})
		if x.waited == "" {
			if err != nil {
				t.Fatalf("a silence of %s: %v", x.silence, err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err == nil {
			t.Fatal(errors.Join(errors.New("built"), c.Close()))
		}
		for _, want := range []string{"session with node 1: ", x.waited, "busy machine", "uptime", "fewer nodes, workers or threads"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("a silence of %s: %v, want %q", x.silence, err, want)
			}
		}
	}
}
