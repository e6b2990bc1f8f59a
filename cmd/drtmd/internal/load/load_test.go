package load

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/verbs/fiber"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// options are those of a small run.
func options(t *testing.T, name string, simulated bool) Options {
	t.Helper()
	p, err := node.FindProtocol(name)
	if err != nil {
		t.Fatal(err)
	}
	return optionsOf(t, p, simulated)
}

func optionsOf(t *testing.T, p protocol.Protocol, simulated bool) Options {
	t.Helper()
	return optionsOfMix(t, p, simulated, smallbank.TableVII())
}

func optionsOfMix(t *testing.T, p protocol.Protocol, simulated bool, mix smallbank.Mix) Options {
	t.Helper()
	o := smallbank.Default(1)
	o.Accounts, o.Distributed, o.Mix = 100, 0, mix
	b, err := smallbank.New(o)
	if err != nil {
		t.Fatal(err)
	}
	cfg := node.Config{Protocol: p, Workload: b, Fibers: 4, Seed: 3}
	return Options{Workload: b, Seed: 3, Warmup: time.Millisecond, Duration: 5 * time.Millisecond,
		SampleEvery: 1,
		Open: func(ctx context.Context) (*node.Cluster, error) {
			if simulated {
				return node.NewSimulated(ctx, node.SimulatedConfig{Config: cfg})
			}
			return node.NewLocal(ctx, node.LocalConfig{Config: cfg})
		}}
}

// TestOnlySomeNodesHaveClients: the others serve what these ask for.
func TestOnlySomeNodesHaveClients(t *testing.T) {
	p, err := node.FindProtocol("farm")
	if err != nil {
		t.Fatal(err)
	}
	bank := smallbank.Default(3)
	bank.Accounts, bank.Anywhere, bank.Distributed = 100, 1, 1
	b, err := smallbank.New(bank)
	if err != nil {
		t.Fatal(err)
	}
	var cluster *node.Cluster
	o := Options{Workload: b, ClientNodes: 2, Seed: 3, Duration: time.Millisecond, SampleEvery: 1,
		Open: func(ctx context.Context) (*node.Cluster, error) {
			cfg := node.Config{Protocol: p, Workload: b, Nodes: 3, Fibers: 2, Seed: 3}
			cluster, err = node.NewSimulated(ctx, node.SimulatedConfig{Config: cfg})
			return cluster, err
		}}
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Conserved != nil {
		t.Fatal(r.Conserved)
	}
	for _, w := range cluster.Workers() {
		if has := w.Engine.Stats().Committed > 0; has != (w.Node < 2) {
			t.Errorf("node %d has committed transactions: %t", w.Node, has)
		}
	}
}

func TestRunMeasuresWhatHappensAfterTheWarmup(t *testing.T) {
	p, err := node.FindProtocol("nocc")
	if err != nil {
		t.Fatal(err)
	}
	// Deposits alone, each of which takes the same virtual time.
	o := optionsOfMix(t, p, true, smallbank.Mix{smallbank.DepositChecking - 1: 100})
	o.ChargePs = 1000
	long, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if long.Elapsed != o.Duration {
		t.Errorf("measured for %s, want %s", long.Elapsed, o.Duration)
	}
	if long.Conserved != nil {
		t.Error(long.Conserved)
	}
	n := long.Sum.Outcomes(proto.Committed)
	if n == 0 || n != long.Sum.Engine.Committed || uint64(long.Latency[0].Samples) != n {
		t.Errorf("%d committed, the engine says %d, %d samples", n, long.Sum.Engine.Committed,
			long.Latency[0].Samples)
	}
	o.Warmup += 5 * time.Millisecond // in virtual time a transaction takes what it takes
	late, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	m := late.Sum.Outcomes(proto.Committed) + late.Sum.Outcomes(proto.RolledBack)
	if all := n + long.Sum.Outcomes(proto.RolledBack); m+2 < all || m > all+2 {
		t.Errorf("%d transactions after a long warm-up, %d after a short one", m, all)
	}
}

// damaged is a workload whose check finds a value that no transaction can have left.
type damaged struct{ workload.Workload }

func (d damaged) Check(n proto.NodeID, c workload.Contents) (initial, final workload.Quantities, err error) {
	initial, final, err = d.Workload.Check(n, c)
	return initial, final, errors.Join(err, errors.New("account 7 is damaged"))
}

// A check that fails is a result of the run, and keeps its measurement and its history.
func TestARunWhoseTablesAreWrongHasAResult(t *testing.T) {
	o := options(t, "nocc", true)
	good, err := Run(context.Background(), o)
	if err != nil || good.Conserved != nil || good.Verified != 2*100 {
		t.Fatalf("%v, %v, %d records verified", err, good.Conserved, good.Verified)
	}
	open := o.Open
	o.Open = func(ctx context.Context) (*node.Cluster, error) {
		c, err := open(ctx)
		if err == nil {
			c.Config.Workload = damaged{c.Config.Workload}
		}
		return c, err
	}
	bad, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if bad.Conserved == nil || bad.Conserved.Error() != "node 0: account 7 is damaged" {
		t.Errorf("the tables are taken for right: %v", bad.Conserved)
	}
	if bad.Verified != good.Verified || bad.Sum.Outcomes(proto.Committed) == 0 {
		t.Errorf("%d records verified, %d committed", bad.Verified, bad.Sum.Outcomes(proto.Committed))
	}
}

func TestInterruptedRunReportsWhatItHas(t *testing.T) {
	for _, c := range []struct {
		name      string
		simulated bool
	}{{"threads", false}, {"simulator", true}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			o := options(t, "nocc", c.simulated)
			o.Duration, o.Interval = time.Hour, 20*time.Millisecond
			if o.Virtual = c.simulated; c.simulated {
				o.Duration, o.Interval = time.Second, 100*time.Microsecond
			}
			o.Progress = func(p Progress) {
				if p.Phase == Measuring && p.PerSecond > 0 {
					cancel()
				}
			}
			res, err := Run(ctx, o)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v", err)
			}
			if !res.Interrupted || res.Sum.Outcomes(proto.Committed) == 0 || res.Conserved != nil {
				t.Errorf("interrupted %v, %d committed, conserved: %v", res.Interrupted,
					res.Sum.Outcomes(proto.Committed), res.Conserved)
			}
			if res.Elapsed <= 0 || res.Elapsed >= o.Duration {
				t.Errorf("measured for %s", res.Elapsed)
			}
		})
	}
}

func TestRunEndsWithTheErrorOfAClient(t *testing.T) {
	p, err := node.FindProtocol("nocc")
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken on purpose")
	whole := p.New
	p.Offers = 0
	p.New = func(e *protocol.Env) (proto.Engine, error) {
		engine, err := whole(e)
		return &failing{Engine: engine, err: broken}, err
	}
	o := optionsOf(t, p, false)
	o.Duration = time.Hour
	o.Interval = time.Millisecond
	o.Progress = func(Progress) {}
	if _, err := Run(context.Background(), o); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

// failing is an engine whose transactions cannot begin after a while.
type failing struct {
	proto.Engine
	begun atomic.Int64
	err   error
}

func (e *failing) Begin(f *fiber.Fiber, d *proto.Decl, n int) (proto.Tx, error) {
	if e.begun.Add(1) > 1000 {
		return nil, e.err
	}
	return e.Engine.Begin(f, d, n)
}

// The steady state of the whole path, from drawing a transaction to its commit, allocates nothing.
func TestTransactionsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, name := range []string{"nocc", "drtm", "twopl", "twopl-local"} {
		t.Run(name, func(t *testing.T) {
			o := options(t, name, false)
			o.SampleEvery = 0
			ctx := context.Background()
			c, err := o.Open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			const txns = 5000
			tasks := c.Start("count", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				x := &worker{w: w}
				client := c.Config.Workload.NewClient(0, w.Rand)
				left := 0
				d := workload.Driver{Runner: proto.Runner{Engine: w.Engine, Rand: w.Rand},
					Client: client, Counts: &x.counts,
					Over: func() bool { left--; return left < 0 }}
				run := func() {
					left = txns
					if err := d.Run(f); err != nil {
						t.Error(err)
					}
				}
				run() // warms up
				if n := testing.AllocsPerRun(3, run); n > txns/1000 {
					t.Errorf("%v allocations in %d transactions", n, txns)
				}
				return nil
			})
			if err := errors.Join(tasks.Wait(ctx), c.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
