package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// Cluster is all members of a cluster, or those of them that live in this process.
type Cluster struct {
	Members []*Member
	Config  Config
	// Left is what was in kept memory when the members began, by member; none where they attached to it.
	Left []Left

	host    host
	clients *clients        // of a memory node; nil: the members have the records
	begun   *workload.Tally // by Begin
	stopped bool
	stopErr error
	closed  bool
}

// host is what the members' workers run on: threads, or cores in virtual time.
type host interface {
	// wait waits for a set of tasks.
	wait(ctx context.Context, t *Tasks) error
	// sleep lets the cluster run for a time on its clock.
	sleep(ctx context.Context, d time.Duration) error
	// now is the time on the cluster's clock.
	now() time.Duration
	// inspect has f called where the worker is at rest.
	inspect(ctx context.Context, w *Worker, f func()) error
	// stop ends every fiber and closes the workers.
	stop() error
}

// Workers are those of all members, by member and index.
func (c *Cluster) Workers() []*Worker {
	var all []*Worker
	for _, m := range c.Members {
		all = append(all, m.Workers...)
	}
	return all
}

// Start starts a number of fibers on each worker. body gets the fiber's number on its worker.
func (c *Cluster) Start(name string, fibers int,
	body func(f *fiber.Fiber, w *Worker, i int) error) *Tasks {
	workers := c.Workers()
	t := newTasks(c.host, len(workers)*fibers)
	for _, w := range workers {
		for i := range fibers {
			w.Worker.Submit(name, func(f *fiber.Fiber) error { return body(f, w, i) }, t.ended)
		}
	}
	return t
}

// Sleep lets the cluster run for a time on its clock: real, or virtual.
func (c *Cluster) Sleep(ctx context.Context, d time.Duration) error { return c.host.sleep(ctx, d) }

// Now is the time on the cluster's clock.
func (c *Cluster) Now() time.Duration { return c.host.now() }

// Inspect calls look for every worker, one after the other, on the worker's thread and between
// two of its fibers' steps. An error says that it was not called for all; no call follows then.
func (c *Cluster) Inspect(ctx context.Context, look func(w *Worker)) error {
	for _, w := range c.Workers() {
		if err := c.host.inspect(ctx, w, func() { look(w) }); err != nil {
			return fmt.Errorf("worker %s: %w", w.Worker.Name(), err)
		}
	}
	return nil
}

// startWorkers opens sessions and makes engines.
func (c *Cluster) startWorkers(ctx context.Context) error {
	return c.Start("start", 1, func(f *fiber.Fiber, w *Worker, _ int) error {
		return w.start(f, &c.Config.Protocol)
	}).Wait(ctx)
}

// keepConnected has the workers look after their ways to the peers, until the cluster stops.
func (c *Cluster) keepConnected() {
	for _, w := range c.Workers() {
		w.Worker.Submit("keep", w.keep, nil)
	}
}

// Disconnect fences a member that is known to be dead, or removed: the queue pairs to it go to the
// error state, and no other is made. What waits for its answers ends now. Its NIC may be gone in such a way that retries take long, as on
// Soft-RoCE with READs and atomics under way. It may be called from any goroutine, and twice.
func (c *Cluster) Disconnect(n proto.NodeID) error {
	var errs []error
	for _, w := range c.Workers() {
		if int(n) < len(w.Peers) && n != w.Node {
			errs = append(errs, w.Fence(n))
		}
	}
	return errors.Join(errs...)
}

// settleLook is the pause between two looks at what is owed.
const settleLook = 5 * time.Millisecond

// Unsettled is what Settle has found left to do. The zero value: nothing is.
type Unsettled struct {
	Owed      int // updates of committed transactions, and locks, those at removed peers included
	Unapplied int // records in logs at peers that live, which are not known to be applied there
}

// Settle waits until no engine in this process owes anything to a peer that was not removed, and backups are
// equal to primaries, with the clients at rest, or until ctx ends, and gives what is left then. It does not wait
// for what is owed to removed peers. While something is left, replicas may differ, and nothing is wrong.
func (c *Cluster) Settle(ctx context.Context) (left Unsettled, err error) {
	for {
		left = Unsettled{}
		owed := 0 // to peers that were not removed
		err = c.Inspect(context.WithoutCancel(ctx), func(w *Worker) {
			if e, ok := w.Engine.(proto.Truncator); ok {
				left.Unapplied += e.Untruncated()
			}
			e, ok := w.Engine.(proto.Debtor)
			for n := range w.Peers {
				peer := proto.NodeID(n)
				if !ok {
					return
				}
				left.Owed += e.DebtsAt(peer)
				if !w.Fenced(peer) {
					owed += e.DebtsAt(peer)
				}
			}
		})
		if err != nil || owed+left.Unapplied == 0 || ctx.Err() != nil {
			return left, err
		}
		if err := c.host.sleep(ctx, settleLook); err != nil && ctx.Err() == nil {
			return left, err
		}
	}
}

// Stop ends every fiber and closes the workers. What fibers were in the middle of remains as it
// is. It may be called twice.
func (c *Cluster) Stop() error {
	if !c.stopped {
		if c.clients != nil {
			c.rest()
		}
		if c.Config.Protocol.Chips != nil {
			c.deliver()
		}
		c.stopped = true
		for _, w := range c.Workers() {
			w.over.Store(true)
		}
		c.stopErr = c.host.stop()
	}
	return c.stopErr
}

// deliver lets what NICs have on the way arrive, modelled ones and those that workers play: transactions are committed
// before. Threads run meanwhile, so each worker's debts are counted on its own.
func (c *Cluster) deliver() {
	for range deliverLooks {
		due := 0
		err := c.Inspect(context.Background(), func(w *Worker) {
			if e, ok := w.Engine.(proto.Debtor); ok {
				due += e.Debts()
			}
		})
		if err != nil || due == 0 || c.host.sleep(context.Background(), settleLook) != nil {
			return
		}
	}
}

// deliverLooks bounds deliver.
const deliverLooks = 1000

// History is what was recorded, once the cluster has stopped, with what the tables of the members in
// this process held before and hold now, all replicas of them. It may be asked for once; the caller
// closes it. nil without Config.Record.
func (c *Cluster) History() (*history.History, error) { return c.HistoryOwing(nil) }

// HistoryOwing is History where something may be owed: a record whose state word is locked and for
// which pending says yes may still lack its last write (Member.Holds).
func (c *Cluster) HistoryOwing(pending func(state uint64) bool) (*history.History, error) {
	return c.history(true, pending)
}

// HistoryUnsettled is History where anything may be owed. What the tables hold in the end is left out where records have
// backups, or the protocol runs on chips: no lock marks what a backup, or a host whose NIC has committed, still has to
// apply. All processes of a cluster decide alike.
func (c *Cluster) HistoryUnsettled() (*history.History, error) {
	locksTell := c.Config.Replicas == 1 && c.Config.Protocol.Chips == nil
	return c.history(locksTell, func(uint64) bool { return true })
}

// history is what was recorded, with what the tables hold if final.
func (c *Cluster) history(final bool, pending func(state uint64) bool) (*history.History, error) {
	if c.Config.Record == nil {
		return nil, nil
	}
	for _, m := range c.Members {
		m.worstError()
		m.kept = nil // the history's from here on
	}
	var segments []*history.Segment
	for _, w := range c.Workers() {
		s, err := w.Recorder.Close()
		if err != nil {
			return nil, err
		}
		segments = append(segments, s)
	}
	run := history.Run{Names: Names(c.Config.Workload), Versions: history.Counting,
		Initial: []*history.Snapshot{}, Final: []*history.Snapshot{}} // known, of whatever is here
	if c.clients != nil {
		if err := c.snapshots(&run); err != nil {
			return nil, errors.Join(append([]error{err}, discard(segments)...)...)
		}
		return history.NewRun(run, segments...)
	}
	for shard, m := range c.primaries() {
		if m != nil {
			run.Initial = append(run.Initial, m.Loaded(proto.ShardID(shard)))
		}
	}
	if !final {
		run.Final = nil
		return history.NewRun(run, segments...)
	}
	for _, m := range c.Members {
		for _, shard := range m.Map().Held(m.ID) {
			if m.Map().Shards[shard].Complete(m.ID) {
				run.Final = append(run.Final, m.Holds(shard, pending))
			}
		}
	}
	return history.NewRun(run, segments...)
}

func discard(segments []*history.Segment) (errs []error) {
	for _, s := range segments {
		errs = append(errs, s.Discard())
	}
	return errs
}

// Names are those of a workload's tables and transactions, for histories.
func Names(w workload.Workload) history.Names {
	n := history.Names{Tables: []string{""}, Kinds: append([]string{""}, w.Kinds()...)}
	for _, t := range w.Tables() {
		n.Tables = append(n.Tables, t.Name)
	}
	return n
}

// primaries are the members that have the shards' primaries now, by shard; nil: not in this process.
func (c *Cluster) primaries() []*Member {
	list := make([]*Member, c.Config.Nodes)
	for shard, x := range c.Members[0].Map().Shards {
		for _, m := range c.Members {
			if m.ID == x.Primary {
				list[shard] = m
			}
		}
	}
	return list
}

// Read reads a record of a member in this process when nothing runs any more; proto.ErrNotFound
// if there is none.
func (c *Cluster) Read(t proto.TableID, k proto.Key, dst []byte) error {
	shard := proto.ShardID(c.Config.Workload.Placement().Locate(t, k).Primary)
	if m := c.primaries()[shard]; m != nil {
		return m.Read(shard, t, k, dst)
	}
	return fmt.Errorf("the primary of shard %d is not in this process", shard)
}

// Verify has the workload check all shards of which the primary is in this process, after the last
// transaction has ended.
func (c *Cluster) Verify() (t workload.Tally) {
	if c.clients != nil {
		return c.verifyClients()
	}
	for s, m := range c.primaries() {
		if m == nil {
			continue
		}
		t = t.Plus(workload.Verify(c.Config.Workload, proto.NodeID(s), m.Contents(proto.ShardID(s))))
	}
	if c.begun != nil {
		if t.Initial = c.begun.Final; c.begun.Wrong != "" {
			t.Wrong = "before the run: " + c.begun.Wrong
		}
	}
	return t
}

// Close stops the cluster and frees everything. It may be called twice.
func (c *Cluster) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	errs := []error{c.Stop()}
	for _, m := range c.Members {
		errs = append(errs, m.Close())
	}
	if c.clients != nil {
		errs = append(errs, c.clients.close())
	}
	return errors.Join(errs...)
}
