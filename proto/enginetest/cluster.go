package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// env is what a case runs with.
type env struct {
	protocol node.Protocol
	host     Host
}

// nodes of a usual cluster: one where the protocol reaches others by plain memory, which the
// simulated network does not have.
func (e env) nodes() int {
	if e.protocol.OneThread && e.host.Simulated {
		return 1
	}
	return 2
}

// scale is how many of n repetitions a host does in a time that people wait.
func (e env) scale(n int) int {
	switch {
	case e.host.Slow:
		return max(n/10, 1)
	case invariant.Enabled:
		return max(n/4, 1)
	}
	return n
}

// cluster is a cluster under test.
type cluster struct {
	*node.Cluster
	env
	t       testing.TB
	stopped bool // or about to be: quiet was called
}

// start builds a cluster that is closed when the test ends.
func (e env) start(t testing.TB, change ...func(*node.Config)) *cluster {
	t.Helper()
	cfg := node.Config{Protocol: e.protocol, Workload: tables{}, Nodes: e.nodes(), Workers: 1,
		Fibers: 4, Seed: 1, Record: &node.Recording{}}
	if !e.host.Slow {
		cfg.Connect.RTS.Timeout = 18 // a second: a busy machine stops threads
	}
	for _, f := range change {
		f(&cfg)
	}
	cfg.Replicas = min(max(e.host.Replicas, 1), cfg.Nodes)
	c, err := e.host.open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &cluster{Cluster: c, env: e, t: t}
}

// homes are the nodes on which a case has records.
func (c *cluster) homes() (all []proto.NodeID) {
	for n := range c.Config.Nodes {
		all = append(all, proto.NodeID(n))
	}
	return all
}

// verify stops the cluster and checks what it leaves: no lock, replicas that are equal, and a history that is
// strictly serializable.
func (c *cluster) verify() *check.Result {
	c.t.Helper()
	c.settle()
	if err := c.Stop(); err != nil {
		c.t.Fatal(err)
	}
	c.unlocked()
	if err := c.Audit(); err != nil {
		c.t.Error(err)
	}
	return c.serializable()
}

// settle waits until backups have everything, and memory what NICs that are a model have on the way.
func (c *cluster) settle() {
	c.t.Helper()
	if c.Config.Replicas == 1 && c.protocol.Chips == nil {
		c.quiet()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := c.Start("settle", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		for n := range w.Peers { // simulated members have no keeper
			w.Mend(f, proto.NodeID(n))
			w.Pay(f, proto.NodeID(n))
		}
		return nil
	}).Wait(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	if left, err := c.Settle(ctx); err != nil || left != (node.Unsettled{}) || ctx.Err() != nil {
		c.t.Errorf("not settled when nothing runs: %+v, %v, %v", left, err, ctx.Err())
	}
}

// quiet waits until hosts of a simulation have given back what they have just been told to: without line words they lock it
// by their NICs.
func (c *cluster) quiet() {
	c.t.Helper()
	if !c.host.WithoutLineWords || c.stopped {
		return
	}
	c.stopped = true
	err := c.Start("quiet", 1, func(f *fiber.Fiber, _ *node.Worker, _ int) error {
		return f.Sleep(restLooks * restLook)
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// arrive waits for updates that NICs which are a model have on the way: transactions there are committed before.
func (c *cluster) arrive() {
	c.t.Helper()
	if c.protocol.Chips == nil {
		return
	}
	if _, err := c.Settle(context.Background()); err != nil {
		c.t.Fatal(err)
	}
}

// serializable checks the history of a cluster that has stopped.
func (c *cluster) serializable() *check.Result {
	c.t.Helper()
	h, err := c.History()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.judge(h)
}

// judge checks a history, and closes it.
func (c *cluster) judge(h *history.History) *check.Result {
	c.t.Helper()
	defer h.Close()
	res, err := check.History(context.Background(), h, check.Options{UserAborts: true})
	if err != nil {
		c.t.Fatal(err)
	}
	if res.Verdict != check.Serializable {
		c.t.Errorf("history is %v, of %d transactions", res.Verdict, res.Checked)
		for _, v := range res.Violations {
			c.t.Error(v.Text)
		}
	}
	return res
}

// unlocked looks at every record of a cluster that rests.
func (c *cluster) unlocked() {
	c.t.Helper()
	for _, n := range c.homes() {
		for _, id := range tableIDs {
			for k := range uint64(4 * capacity) {
				if r := c.record(id, keyOn(n, k)); r.locked {
					c.t.Errorf("node %d table %s key %d is locked: %s", n, tableNames[id], k, r)
				}
			}
		}
	}
}

// record is what lies in memory of a key.
type record struct {
	entry   bool // it has one
	version layout.Version
	state   uint64
	locked  bool
	value   []byte
}

func (r record) String() string {
	switch {
	case !r.entry:
		return "no entry"
	case r.locked:
		return fmt.Sprintf("version %v, locked by %#x", r.version, r.state)
	}
	return fmt.Sprintf("version %v, unlocked", r.version)
}

// record reads what lies at a key's home, while nothing changes it.
func (c *cluster) record(id proto.TableID, k proto.Key) record {
	tab := c.Members[homeOf(k)].Workers[0].Tables[id-1]
	place, ok := tab.Find(uint64(k))
	if !ok {
		return record{}
	}
	m, off := tab.At(place)
	l := tab.Record()
	image := m.Bytes[off : off+l.Bytes]
	r := c.header(image)
	r.value = l.Value(image, make([]byte, l.Room))
	return r
}

// header reads that of an entry.
func (c *cluster) header(image []byte) record {
	h := layout.HeadOf(image)
	r := record{entry: true, state: h.State, version: h.Version}
	if c.protocol.Holder != nil {
		_, r.locked = c.protocol.Holder(h.State)
	}
	return r
}

// Of rest. On a real transport the peer's thread may have to wait for a CPU.
const (
	restLook      = 20 * time.Microsecond
	restLooks     = 100
	restRealLooks = 100_000
	restChips     = 20 * time.Microsecond // until the NICs of a model have delivered
)

// rest waits, before a look at memory, until what a protocol does not wait for has been answered, or is owed.
func (c *cluster) rest(f *fiber.Fiber, e proto.Engine) error {
	if c.protocol.Chips != nil {
		return f.Sleep(restChips)
	}
	logs, ok := e.(proto.Truncator)
	looks := restLooks
	if !c.host.Simulated {
		looks = restRealLooks
	}
	for range looks {
		if !c.host.Unawaited || !ok || logs.Untruncated() == 0 || e.(proto.Debtor).Debts() > 0 {
			return nil
		}
		if err := f.Sleep(restLook); err != nil {
			return err
		}
	}
	return nil // a host that cannot be reached is not told what is decided
}

// on runs a fiber on the first worker of a node.
func (c *cluster) on(n proto.NodeID, body func(f *fiber.Fiber, e proto.Engine) error) {
	c.t.Helper()
	err := c.Start("case", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != n || w.Index != 0 {
			return nil
		}
		return body(f, w.Engine)
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// program is a function as a proto.Program.
type program func(tx proto.Txn) error

func (p program) Execute(tx proto.Txn) error { return p(tx) }

// attempt runs one attempt of a transaction.
func attempt(f *fiber.Fiber, e proto.Engine, d *proto.Decl, n int, p program) error {
	tx, err := e.Begin(f, d, n)
	if err != nil {
		return err
	}
	switch err := p(tx); {
	case err == nil:
		return tx.Commit()
	case errors.Is(err, proto.ErrRollback):
		return errors.Join(err, tx.Rollback())
	default:
		tx.Abort(err)
		return err
	}
}

// again runs attempts, all with the same number, while they are aborted.
func again(f *fiber.Fiber, e proto.Engine, d *proto.Decl, n int, p program) error {
	for range 1000 {
		err := attempt(f, e, d, n, p)
		if r := proto.AbortReason(err); r == 0 || !r.Retry() {
			return err
		}
		if err := f.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	return errors.New("1,000 attempts were aborted")
}

// do runs a transaction until it has an outcome.
func do(f *fiber.Fiber, e proto.Engine, d *proto.Decl, p program) error {
	r := proto.Runner{Engine: e, Rand: rand.New(rand.NewPCG(1, 2))}
	_, err := r.Run(f, d, p)
	return err
}

// declare makes a declaration.
func declare(a ...proto.Access) *proto.Decl {
	d := &proto.Decl{Kind: 1, ReadOnly: len(a) > 0, Accesses: a}
	for _, x := range a {
		d.ReadOnly = d.ReadOnly && x.Mode == proto.ModeRead
	}
	return d
}

func reading(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeRead, Key: k}
}

func writing(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeWrite, Key: k}
}

func inserting(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeInsert, Key: k}
}

func deleting(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeDelete, Key: k}
}

// seen reads a record in a transaction of its own; 0 if there is none.
func seen(f *fiber.Fiber, e proto.Engine, id proto.TableID, k proto.Key) (v uint64, err error) {
	b := value(id, 0)
	err = do(f, e, declare(reading(id, k)), func(tx proto.Txn) error {
		v = 0
		err := tx.Read(id, k, b)
		if err == nil {
			var whole bool
			if v, whole = number(b); !whole {
				return fmt.Errorf("torn value %v", b)
			}
		}
		return answered(err)
	})
	return v, err
}

// answered takes the errors that say whether there is a record for success.
func answered(err error) error {
	if errors.Is(err, proto.ErrNotFound) || errors.Is(err, proto.ErrExists) {
		return nil
	}
	return err
}
