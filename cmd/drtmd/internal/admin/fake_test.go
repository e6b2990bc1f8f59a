package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/verbs"
)

// fake is a daemon of three nodes, the first of which answers. It works while it is looked at: each
// look finds more done.
type fake struct {
	mu       sync.Mutex // guards what follows
	metrics  *load.Metrics
	status   status.Cluster
	asked    int // statuses
	notReady error
	expires  time.Time
	stuck    bool          // Metrics does not answer before its context ends
	late     time.Duration // since the workers have counted, when Metrics answers
}

func newFake() *fake {
	f := &fake{expires: time.Unix(1_900_000_000, 0)}
	f.metrics = emptyMetrics(1)
	f.status = status.Cluster{Schema: status.Schema, From: 0,
		State: member.State{Cluster: "lab", Active: member.View{Epoch: 7},
			Shards: member.ShardMap{Version: 4}}}
	for n := range proto.NodeID(3) {
		m := member.Member{Node: n, Incarnation: member.Incarnation(n + 1),
			Name: fmt.Sprintf("lab-%d", n+1), Build: "test"}
		x := status.Node{Member: m, Host: "lab", Admin: fmt.Sprintf("127.0.0.1:%d", 7441+int(n)),
			Phase: status.Running, Epoch: 7, Lease: 5, LeaseLeft: 4.2,
			Device: status.Device{Transport: "ibv", Name: "mlx5_0"},
			Memory: status.Memory{RegisteredBytes: 256 << 20, CacheBytes: 16 << 20},
			QPs:    status.QPs{RC: 8, UD: 2},
			Plane: &status.Plane{Version: 4, Partitions: 3, Workload: "smallbank", Protocol: "drtm",
				Workers: 1, Threads: 1, Fibers: 16},
			Clock: &status.Clock{Error: 0.0002, Bound: 0.0003, Lease: 0.001, LeaseReadOnly: 0.002},
			Recovery: &status.Recovery{Epoch: 7, Serves: []proto.ShardID{proto.ShardID(n)}, Backs: []proto.ShardID{proto.ShardID(n+2) % 3},
				Fills: []proto.ShardID{}, Committed: 3, TookS: 0.02},
			Data: &status.Data{ID: "2d9bc9ed8a0d3da1", Partition: int(n), Partitions: 3, Workload: "smallbank", Protocol: "drtm",
				Loaded: true, Runs: 2, InUse: true},
			Logs:   &status.Logs{Bytes: 2 << 20, Used: 1 << 19, Slots: 32, Taken: 3, Records: 1000, Attached: true, Found: 7},
			Tables: []status.Table{{Name: "savings", Entries: 50_000, Capacity: 200_000}},
			Load:   &status.Load{Run: "run 3", Phase: "measuring", OfS: 60},
			Events: []status.Event{{Time: time.Now().UTC(), Level: status.Info,
				Text: "is a member of epoch 7"}}}
		for peer := range proto.NodeID(3) {
			if peer != n {
				x.Links = append(x.Links, status.Link{Peer: peer, State: "up"})
			}
		}
		f.status.Nodes = append(f.status.Nodes, x)
		f.status.State.Active.Members = append(f.status.State.Active.Members, m)
	}
	return f
}

// emptyMetrics are of a plane that has done nothing yet.
func emptyMetrics(opened uint64) *load.Metrics {
	m := &load.Metrics{Protocol: "drtm", Workload: "smallbank", Opened: opened, Workers: 2,
		Kinds: []string{"send payment", "balance"}, Registered: 256 << 20,
		Tables: []load.TableUse{{Name: "checking"}, {Name: "savings"}}}
	m.Tables[0].Entries, m.Tables[0].Bound = 1000, 600
	m.Logs = proto.LogStats{Bytes: 2 << 20, Used: 1 << 19, Slots: 32, Taken: 3, Records: 1000}
	for range len(m.Kinds) + 1 {
		m.Life = append(m.Life, hdrhistogram.New(1, 100_000_000_000, 3))
	}
	return m
}

// copyOf shares nothing that work changes.
func copyOf(m *load.Metrics) *load.Metrics {
	c := *m
	c.Life = nil
	for _, h := range m.Life {
		c.Life = append(c.Life, h.Clone())
	}
	return &c
}

// work does n transactions of each type, one in four of them with an aborted attempt.
func work(m *load.Metrics, n int) {
	u := uint64(n)
	for kind := 1; kind <= len(m.Kinds); kind++ {
		k := &m.Snapshot.Counts.Kinds[kind]
		k.Outcomes[proto.Committed] += u
		k.Attempts += u + u/4
		k.Aborts[proto.ReasonLocked] += u / 4
		for i := range n {
			ns := int64(20_000*kind + 137*(i%100))
			if i%50 == 0 {
				ns *= 9
			}
			for _, h := range []*hdrhistogram.Histogram{m.Life[0], m.Life[kind]} {
				if err := h.RecordValue(ns); err != nil {
					panic(err)
				}
			}
		}
	}
	s := &m.Snapshot
	s.Engine.Begun += 2 * u
	s.Engine.Committed += 2 * u
	s.Engine.Aborts[proto.ReasonLocked] += u / 2
	s.Engine.Aborts[proto.ReasonLease] += u / 8
	s.Engine.LeaseWaits += u / 16
	s.Fiber.Polls += 10 * u
	s.Fiber.EmptyPolls += 7 * u
	s.Fiber.Ops[verbs.OpRead] += 3 * u
	s.Fiber.Ops[verbs.OpCAS] += u
	s.Fiber.Statuses[verbs.WCSuccess] += 4 * u
	m.HTM.Begun += u
	m.HTM.Aborts[htm.Conflict] += u / 10
	m.RPC.Retransmissions++
}

func (f *fake) Status(ctx context.Context, self bool) (*status.Cluster, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	c := f.status
	c.Date = time.Now().UTC()
	c.Nodes = append([]status.Node(nil), c.Nodes...)
	for i := range c.Nodes {
		if l := c.Nodes[i].Load; l != nil {
			l := *l
			l.ElapsedS = min(float64(f.asked), l.OfS)
			if f.metrics != nil {
				l.Committed = f.metrics.Snapshot.Outcomes(proto.Committed)
				l.Aborted = f.metrics.Snapshot.Aborted()
			}
			l.PerSecond = 12_345
			c.Nodes[i].Load = &l
		}
	}
	if self {
		c.Nodes = c.Nodes[:1]
	}
	return &c, ctx.Err()
}

func (f *fake) Metrics(ctx context.Context) (*load.Metrics, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.metrics == nil {
		return nil, nil
	}
	m := copyOf(f.metrics)
	m.At = time.Now().Add(-f.late)
	// The rate rises and falls, so that the page has something to draw.
	work(f.metrics, 800+int(m.Snapshot.Engine.Begun/1000%7)*150)
	return m, nil
}

func (f *fake) Alive() error { return nil }

func (f *fake) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notReady
}

func (f *fake) CertificateExpires() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.expires
}

// change does something to the fake.
func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func optionsFor(f *fake) Options {
	return Options{Source: f, Log: zap.NewNop(), Build: "v1 <test>"}
}

// serve serves a fake on loopback until the test ends, and says where.
func serve(t *testing.T, o Options) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, o, l)
	return l.Addr().String()
}

// serveOn serves on a listener until the test ends, or until stop was called.
func serveOn(t *testing.T, o Options, l net.Listener) (stop func()) {
	t.Helper()
	s := NewServer(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := errors.Join(s.Close(ctx), <-served); err != nil &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}
