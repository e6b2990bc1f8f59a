package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/member"
	"drtmd/proto/option"
	"drtmd/verbs"
)

// testBuild is the version that the daemons of these tests have.
const testBuild = "test"

// patience bounds the wait for what has to happen; the machine may be slow.
const patience = 2 * time.Minute

// world is a cluster of daemons in this process, which meet on sockets and in shared memory.
type world struct {
	t     *testing.T
	dir   string
	nodes []*testNode
	// provider that all share where memory is reached in no other way; nil: each has its own, as in
	// processes of their own.
	provider verbs.Provider
}

// testNode is a daemon, in one life after the other.
type testNode struct {
	w      *world
	cfg    config.Config
	d      *Daemon
	cancel context.CancelFunc
	ended  chan error
	out    *lines
	log    *zap.Logger // nil: none, or the test's if it is verbose
	client *control.Client
	// options and prepare, if not nil, are called before a life begins.
	options func(*Options)
	prepare func(*Daemon)
}

// lines is an output that may be read at the same time.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newWorld makes a cluster of nodes that begin one after the other; the first one has the registry.
func newWorld(t *testing.T, nodes int) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "drtmd-daemon-") // short: names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, dir: dir}
	if raceEnabled {
		w.provider, err = transport.New(transport.Default,
			transport.Options{RunDir: filepath.Join(dir, "shm")})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range nodes {
		w.add().start()
	}
	for _, n := range w.nodes {
		n.await(status.Ready)
	}
	return w
}

// add describes one more node.
func (w *world) add() *testNode {
	w.t.Helper()
	c := config.Default(composition.BuiltIn())
	i := len(w.nodes)
	c.Node.Name = fmt.Sprintf("n%d", i)
	c.Node.StateDir = filepath.Join(w.dir, fmt.Sprintf("state%d", i))
	c.Control.Listen = "unix:" + filepath.Join(w.dir, fmt.Sprintf("%d.sock", i))
	c.Admin.Listen = "off"
	c.Cluster.Lease = 10 * time.Second // a machine with other work may stop a process for seconds
	c.Transport.RunDir = filepath.Join(w.dir, "shm")
	c.Data.WorkloadOptions = option.Settings{"accounts": "100"}
	if i > 0 {
		c.Cluster.Join = []string{w.nodes[0].cfg.Control.Listen}
	}
	n := &testNode{w: w, cfg: c}
	var err error
	n.client, err = control.Dial(c.Control.Listen, control.DialOptions{
		Caller: func() control.Caller { return control.Caller{Build: testBuild} }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		n.stop()
		if err := n.client.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.nodes = append(w.nodes, n)
	return n
}

// start begins a life.
func (n *testNode) start() {
	n.w.t.Helper()
	notify, err := service.NewNotifier()
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.out = &lines{}
	cfg := n.cfg
	log := n.log
	if log == nil {
		log = zap.NewNop()
	}
	if n.log == nil && testing.Verbose() {
		log = zaptest.NewLogger(n.w.t).Named(cfg.Node.Name)
	}
	o := Options{Log: log, Level: zap.NewAtomicLevel(), Build: testBuild, Notifier: notify,
		Stdout: n.out, Provider: n.w.provider}
	if n.options != nil {
		n.options(&o)
	}
	if n.d, err = New(&cfg, o); err != nil {
		n.w.t.Fatal(err)
	}
	if n.prepare != nil {
		n.prepare(n.d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.ended = cancel, make(chan error, 1)
	d, ended := n.d, n.ended
	go func() { ended <- d.Serve(ctx) }()
}

// stop drains the node, and waits until nothing of it runs.
func (n *testNode) stop() {
	n.w.t.Helper()
	if n.cancel == nil {
		return
	}
	n.cancel()
	n.ends()
}

// ends waits until nothing of the node runs, without an error.
func (n *testNode) ends() {
	n.w.t.Helper()
	cancel := n.cancel
	n.cancel = nil
	defer cancel()
	select {
	case err := <-n.ended:
		if err != nil {
			n.w.t.Errorf("%s: %v", n.cfg.Node.Name, err)
		}
	case <-time.After(patience):
		n.w.t.Fatalf("%s does not stop", n.cfg.Node.Name)
	}
}

// self is what the node says of itself; nil while it does not answer.
func (n *testNode) self() *status.Node {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := n.client.Status(ctx, true)
	if err != nil || len(c.Nodes) != 1 {
		return nil
	}
	return &c.Nodes[0]
}

// await waits until the node is in a phase, and gives what it says of itself then.
func (n *testNode) await(p status.Phase) *status.Node {
	n.w.t.Helper()
	var last *status.Node
	n.w.until(fmt.Sprintf("%s is %s", n.cfg.Node.Name, p), func() bool {
		select {
		case err := <-n.ended:
			n.w.t.Fatalf("%s has ended: %v", n.cfg.Node.Name, err)
		default:
		}
		last = n.self()
		return last != nil && last.Phase == p
	}, func() any { return last })
	return last
}

// until polls for a condition.
func (w *world) until(what string, ok func() bool, last func() any) {
	w.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("not within %v: %s; last %+v", patience, what, last())
		}
	}
}

// settled waits until the shard map holds exactly these nodes, and all of them serve it.
func (w *world) settled(nodes ...*testNode) member.ShardMap {
	w.t.Helper()
	var state member.State
	w.until(fmt.Sprintf("%d nodes serve", len(nodes)), func() bool {
		var version member.ShardVersion
		for i, n := range nodes {
			s := n.self()
			if s == nil || s.Phase != status.Ready || s.Plane == nil || s.Plane.Partitions != len(nodes) {
				return false
			}
			if i == 0 {
				version = s.Plane.Version
			}
			if s.Plane.Version != version {
				return false
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, err := nodes[0].client.Status(ctx, true)
		if err != nil {
			return false
		}
		state = c.State
		return state.Shards.Version == version && len(state.Shards.Primary) == len(nodes) &&
			state.Shards.Run == ""
	}, func() any {
		var nodes []string
		for _, n := range w.nodes {
			nodes = append(nodes, fmt.Sprintf("%+v", n.self()))
		}
		return fmt.Sprintf("%+v; nodes %s", state, strings.Join(nodes, "; "))
	})
	return state.Shards
}

// bench is a short plan.
func bench(d time.Duration) *load.Plan {
	p := load.DefaultPlan(composition.BuiltIn())
	p.Settings = option.Settings{"accounts": "100"}
	p.Fibers, p.Warmup, p.Duration = 4, 0, d
	return p
}

// outcome is what a run's caller has got.
type outcome struct {
	done     *pb.Done
	result   *load.Result
	history  []byte
	notices  []string
	progress int
	err      error
}

// run runs a plan, led by n. begun, if not nil, is closed at the first progress.
func (n *testNode) run(ctx context.Context, p *load.Plan, begun chan<- struct{}) (o outcome) {
	b, err := json.Marshal(p)
	if err != nil {
		o.err = err
		return o
	}
	o.done, o.err = n.client.Run(ctx, &pb.RunRequest{PlanJson: string(b)},
		func(e *pb.RunEvent) error {
			switch {
			case e.GetNotice() != nil:
				o.notices = append(o.notices, e.GetNotice().Text)
			case e.GetHistory() != nil:
				o.history = append(o.history, e.GetHistory().Data...)
			case e.GetProgress() != nil:
				if o.progress == 0 && begun != nil {
					close(begun)
				}
				o.progress++
			}
			return nil
		})
	if o.err != nil || len(o.done.ResultJson) == 0 {
		return o
	}
	o.result = &load.Result{}
	o.err = json.Unmarshal(o.done.ResultJson, o.result)
	return o
}

// mustRun runs a plan that has to succeed.
func (n *testNode) mustRun(p *load.Plan) outcome {
	n.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := n.run(ctx, p, nil)
	switch {
	case o.err != nil:
		n.w.t.Fatal(o.err)
	case o.done.Error != "" || o.done.Lost || o.done.Interrupted || o.result == nil:
		n.w.t.Fatalf("done: %q, lost %v, interrupted %v, result %v", o.done.Error, o.done.Lost,
			o.done.Interrupted, o.result != nil)
	case o.result.Conserved != nil:
		n.w.t.Fatal(o.result.Conserved)
	}
	return o
}

// remove has another member remove this one from the cluster, as if its lease had ended.
func (n *testNode) remove(by *testNode) member.Member {
	n.w.t.Helper()
	self, _ := n.d.members.Self()
	s, _ := by.d.members.Now()
	if err := s.Remove(self); err != nil && !errors.Is(err, member.ErrNotMember) {
		n.w.t.Fatal(err)
	}
	return self
}
