package rtx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Timing is what leases and waits are made of (sections 4.3 and 6.4). On slow networks it has to be longer.
type Timing struct {
	// Op is what the commit of one object takes at most, as a rule: leases are longer by it for each object that is
	// updated. 0: all are equally long, and transactions of many objects are repaired that live ("without regulation",
	// section 6.4). Drift is how far clocks may differ before that happens.
	Op, Drift time.Duration
	// Commit is the lease of who installs the updates of a log, an owner or a repairer.
	Commit time.Duration
	// Wait and MaxWait bound the pause before a locked object is looked at again, and before an attempt is
	// repeated; it doubles from one to the other.
	Wait, MaxWait time.Duration
	// Horizon is how far leases are declared ahead, so that the owner's next life has later ones: how much
	// later than its clock says that one may have to begin.
	Horizon time.Duration
}

// DefaultTiming is the paper's.
func DefaultTiming() Timing {
	return Timing{Op: 100 * time.Microsecond, Drift: 8 * time.Millisecond, Commit: 8 * time.Millisecond,
		Wait: 2 * time.Microsecond, MaxWait: 256 * time.Microsecond, Horizon: 50 * time.Millisecond}
}

// TimingFor is DefaultTiming, made longer for a network with a slow round trip: the paper's has some microseconds.
func TimingFor(trip time.Duration) Timing {
	t := DefaultTiming()
	t.Op, t.Drift, t.Commit = max(t.Op, 20*trip), max(t.Drift, 200*trip), max(t.Commit, 200*trip)
	t.Wait, t.MaxWait = max(t.Wait, trip/2), max(t.MaxWait, 8*trip)
	t.Horizon = max(t.Horizon, 10*t.Drift)
	return t
}

// Config of a Client.
type Config struct {
	Conn   *fiber.Conn
	PD     *verbs.PD
	Memory verbs.RemoteMR
	// More are the memory nodes behind the first, in the order of their numbers. With them, phases are always awaited:
	// queue pairs to different nodes keep no order.
	More []Remote
	// Owner is the client's number in the memory, below Shape.Owners: nobody else has it. It follows from
	// the number in the memory node's session, by which a former life is fenced.
	Owner int
	// Clock is a wall clock, since 1970.
	Clock  verbs.Clock
	Rand   *rand.Rand
	Timing Timing // zero: DefaultTiming
	// Objects is how many a transaction may touch; 0: 64. Bytes is room for their blocks, in both the old and
	// the new version; 0: 256 KiB.
	Objects int
	Bytes   int
	// Attempts bounds the attempts of a transaction; 0: DefaultAttempts.
	Attempts int
	// GiveUp, if set, ends the wait for a lock, and further attempts, when it says so.
	GiveUp func() bool
	// Awaited has each phase of a commit awaited before the next one is posted. Otherwise phases that the
	// order of a queue pair keeps apart share a doorbell.
	Awaited bool
	// Logged has each update write a log, those of one object, too: without Opt1 (section 4.5).
	Logged bool
	// EarlyLocks has Tx.ReadToUpdate lock the object (section 4.5, Opt2). Otherwise the commit locks what is updated.
	EarlyLocks bool
	// Hints has objects read together with their metadata; nil: in two round trips. Clients of a thread may share it.
	Hints *Hints
	// Copies keeps blocks, with Hints: of an object with a copy the metadata alone is read; nil: nothing is kept. Clients of
	// a thread may share it.
	Copies *Copies
	// Installed reports whether a record of the index that p is the root of is in the index: block d of this
	// owner, in its former life. nil: there are no such records.
	Installed func(f *fiber.Fiber, c *Client, p Ptr, d uint64) (bool, error)
	// OnExpired, if set, is told of each expired lock that is met, by its word, which is the same for all objects of a
	// transaction and for no other transaction. It may be told of one several times.
	OnExpired func(word uint64)
	// Mutation switches a deliberate bug on; "" is none.
	Mutation string
}

// Remote is a way to the memory of a node.
type Remote struct {
	Conn   *fiber.Conn
	Memory verbs.RemoteMR
}

// Defaults of Config.
const (
	DefaultObjects  = 64
	DefaultBytes    = 256 << 10
	DefaultAttempts = 1 << 20
)

// Errors that end a transaction.
var (
	// ErrBroken: an earlier operation failed, and the client is of no use any more.
	ErrBroken = errors.New("client broken; attach another one in its place")
	// ErrTooLarge: the transaction touches more than Config or Shape.Slots allows.
	ErrTooLarge = errors.New("transaction too large")
	// ErrFull: no block or no object is left.
	ErrFull = errors.New("memory full")
	// ErrCorrupt: memory holds what no client writes.
	ErrCorrupt = errors.New("corrupt memory")
	// ErrUsage: a wrong pointer or class.
	ErrUsage = errors.New("wrong use")
)

// Stats of a client. Its worker's thread writes them.
type Stats struct {
	Commits, ReadOnly uint64 // transactions, those without updates apart
	Aborts            [proto.ReasonEnd]uint64
	Unlogged          uint64 // commits of one object, without a log
	Repairs           uint64 // expired locks met
	Finished          uint64 // transactions of others that this client committed
	Undone            uint64 // that it aborted, those without a log included
	Overlaps          uint64 // repairs begun while the lease of another one was valid
	Refills           uint64 // of own slots from the pool
	Early             uint64 // locks that were taken before the commit
	Copied            uint64 // blocks that were taken from Copies, and not read
	Left              uint64 // own locks met, which no transaction has any more: 0 without a bug
	Unexpected        uint64 // commits of a log that somebody else finished first
	Overtaken         uint64 // commits and repairs that this client left, since it was stopped and others may have ended them
	// LongestWait is the longest time for which one lock of another was met.
	LongestWait time.Duration
}

// Add adds another client's.
func (s *Stats) Add(o *Stats) {
	s.Commits += o.Commits
	s.ReadOnly += o.ReadOnly
	for i, n := range o.Aborts {
		s.Aborts[i] += n
	}
	s.Unlogged += o.Unlogged
	s.Repairs += o.Repairs
	s.Finished += o.Finished
	s.Undone += o.Undone
	s.Overlaps += o.Overlaps
	s.Refills += o.Refills
	s.Early += o.Early
	s.Copied += o.Copied
	s.Left += o.Left
	s.Unexpected += o.Unexpected
	s.Overtaken += o.Overtaken
	s.LongestWait = max(s.LongestWait, o.LongestWait)
}

// Client is an owner of transactions. See the package comment for who may use it.
type Client struct {
	cfg    Config
	l      *layout
	bug    bug
	stats  Stats
	mr     *verbs.MR
	b      fiber.Batch
	tx     Tx
	broken error
	// committing: something of the client's own is under way that must not be left half done.
	committing bool
	lost       uint64  // memory nodes that did not answer, by bit
	aimed      []uint8 // the memory node of each operation of the batch
	header     uint64  // of the own log

	born    uint64   // leases of former lives are not above it
	last    uint64   // lease
	horizon uint64   // up to which leases may be used without a further WRITE
	slots   []uint64 // as in the memory
	next    []int    // by class: the slot to look at first
	chunk   []int    // by class: the chunk with blocks left, -1: none
	nodes   []Remote // memory nodes
	fresh   int      // the node that gives objects next that were never used
	used    []int    // ... how many were taken
	entries []logEntry
	found   []logEntry // of a log that is repaired

	// What is waited for.
	seen      uint64 // lock word
	seenAt    Ptr
	seenSince time.Duration

	// Offsets in mr.
	words, logOut, logIn, blockIn, metas, arena, arenaEnd int
}

// logEntry is an update of one object.
type logEntry struct {
	ref, old, new uint64
}

// Stats of the client so far.
func (c *Client) Stats() *Stats { return &c.stats }

// Class is the class of blocks of a size; -1: there is none.
func (c *Client) Class(bytes int) int {
	return slices.IndexFunc(c.l.Classes, func(k Class) bool { return k.Bytes == bytes })
}

// Broken is why the client is of no use any more; nil: it is.
func (c *Client) Broken() error { return c.broken }

// Payload is how many bytes of a class's blocks are the program's.
func (c *Client) Payload(class int) int { return c.l.Classes[class].Payload() }

// Root is the i-th object that has a fixed name.
func (c *Client) Root(i int) Ptr { return c.l.rootPtr(i) }

// RootIndex is the number of a root.
func (c *Client) RootIndex(p Ptr) int { return indexOf(p) - c.l.internal() }

// Nodes is how many memory nodes the client uses.
func (c *Client) Nodes() int { return len(c.nodes) }

// wordBytes is scratch for single words and chunk words.
const wordBytes = 1024

// open registers the client's memory.
func (c *Client) open() error {
	largest := 0
	for _, k := range c.l.Classes {
		largest = max(largest, k.Bytes)
	}
	at := 0
	take := func(n int) int {
		was := at
		at = align(at+n, lineBytes)
		return was
	}
	c.words, c.logOut, c.logIn = take(wordBytes), take(c.l.logBytes), take(c.l.ownerBytes)
	c.blockIn = take(blockHeader)
	c.metas = take(2 * metaBytes * c.cfg.Objects)
	c.arena = take(max(c.cfg.Bytes, 2*largest))
	c.arenaEnd = at
	mr, err := c.cfg.PD.AllocMR(at, verbs.AccessLocalWrite, verbs.MROptions{})
	c.mr = mr
	return err
}

// Close frees the client's memory. Nothing of it is in flight.
func (c *Client) Close() error {
	if c.mr == nil {
		return nil
	}
	return c.mr.Close()
}

// now is the time in units of leases.
func (c *Client) now() uint64 {
	return uint64(max(0, c.cfg.Clock.Now()-leaseEpoch) / leaseUnit)
}

// expired: IsExpired of Figure 4.
func (c *Client) expired(lease uint64) bool { return c.now() >= lease }

// fail makes the client useless: what it has in flight may still happen.
func (c *Client) fail(err error) error {
	if c.broken == nil {
		c.broken = err
	}
	return err
}

// Target is the way to a place, its address and key.
func (c *Client) Target(place int) (conn *fiber.Conn, addr uint64, rkey uint32) {
	n := &c.nodes[PlaceNode(place)]
	return n.Conn, n.Memory.Addr + uint64(PlaceOffset(place)), n.Memory.RKey
}

// Shorthands for operations on memory nodes, by place and by offset in the client's memory.

func (c *Client) read(f *fiber.Fiber, to, place, n int) {
	conn, addr, rkey := c.Target(place)
	c.aims(place)
	c.b.Read(f, conn, c.mr.SGE(to, n), addr, rkey)
}

func (c *Client) write(f *fiber.Fiber, from, place, n int) {
	conn, addr, rkey := c.Target(place)
	c.aims(place)
	c.b.Write(f, conn, c.mr.SGE(from, n), addr, rkey)
}

// cas adds a compare-and-swap to the batch and returns its index there.
func (c *Client) cas(f *fiber.Fiber, place int, expect, swap uint64) int {
	conn, addr, rkey := c.Target(place)
	c.aims(place)
	c.b.CAS(f, conn, addr, rkey, expect, swap)
	return c.b.Len() - 1
}

// scattered reports whether no queue pair keeps the order of operations: there are several.
func (c *Client) scattered() bool { return len(c.nodes) > 1 && c.bug != bugNodesUnordered }

// then has what is added to the batch from now on take effect after what is in it: on one node the queue pair keeps
// that order.
func (c *Client) then(f *fiber.Fiber) error {
	if !c.scattered() {
		return nil
	}
	return c.await(f)
}

// casNow is one that is awaited.
func (c *Client) casNow(f *fiber.Fiber, off int, expect, swap uint64) (uint64, error) {
	c.b.Reset()
	i := c.cas(f, off, expect, swap)
	if err := c.await(f); err != nil {
		return 0, err
	}
	return c.b.Old(i), nil
}

// readNow is a READ that is awaited.
func (c *Client) readNow(f *fiber.Fiber, to, off, n int) error {
	c.b.Reset()
	c.read(f, to, off, n)
	return c.await(f)
}

// await awaits the batch. An error breaks the client, unless it is the loss of one of several memory nodes.
func (c *Client) await(f *fiber.Fiber) error {
	if err := c.b.Await(f); err != nil {
		return c.failed(f, err)
	}
	return nil
}

// phase ends a phase of a commit: a marked step, and in between the phases are awaited if they have to be.
func (c *Client) phase(f *fiber.Fiber, step string) error {
	if !c.cfg.Awaited {
		return nil
	}
	if err := c.await(f); err != nil {
		return err
	}
	f.Step(step)
	return nil
}

func (c *Client) word(at int) uint64       { return binary.LittleEndian.Uint64(c.mr.Bytes()[at:]) }
func (c *Client) setWord(at int, v uint64) { binary.LittleEndian.PutUint64(c.mr.Bytes()[at:], v) }

// lease gives a transaction with n updates its lease, above all former ones of the owner, and declares it.
func (c *Client) lease(f *fiber.Fiber, n int) (uint64, error) {
	span := units(time.Duration(n)*c.cfg.Timing.Op + c.cfg.Timing.Drift)
	want := c.now() + span
	lease := max(want, c.last+1)
	if c.bug == bugLeaseRepeats {
		const step = 16
		lease = (want + step - 1) / step * step
	} else if lease > want+span { // it commits faster than leases pass
		if err := f.Sleep(leaseUnit); err != nil {
			return 0, c.fail(err)
		}
	}
	c.last = lease
	if lease <= c.horizon {
		return lease, nil
	}
	return lease, c.declare(f, lease+units(c.cfg.Timing.Horizon))
}

// declare writes that leases up to the horizon may be used.
func (c *Client) declare(f *fiber.Fiber, horizon uint64) error {
	c.setWord(c.words, horizon)
	c.b.Reset()
	c.write(f, c.words, c.l.ownerAt(c.cfg.Owner)+logHorizon, 8)
	if err := c.await(f); err != nil {
		return err
	}
	c.horizon = horizon
	return nil
}

// waited notes that a lock is still there, and for how long it was.
func (c *Client) waited(p Ptr, w uint64) {
	now := c.cfg.Clock.Now()
	if c.seen != w || c.seenAt != p {
		c.seen, c.seenAt, c.seenSince = w, p, now
		return
	}
	c.stats.LongestWait = max(c.stats.LongestWait, now-c.seenSince)
}

// pause waits before something is tried again for the n-th time.
func (c *Client) pause(f *fiber.Fiber, n int) error { return f.Sleep(c.wait(n)) }

// wait draws a pause.
func (c *Client) wait(n int) time.Duration {
	d := c.cfg.Timing.Wait << min(n, 20)
	d = min(d, c.cfg.Timing.MaxWait)
	return d/2 + time.Duration(c.cfg.Rand.Int64N(int64(d/2)+1))
}

// complete fills in the defaults.
func (cfg *Config) complete() error {
	if cfg.Timing == (Timing{}) {
		cfg.Timing = DefaultTiming()
	}
	if cfg.Objects == 0 {
		cfg.Objects = DefaultObjects
	}
	if cfg.Bytes == 0 {
		cfg.Bytes = DefaultBytes
	}
	if cfg.Attempts == 0 {
		cfg.Attempts = DefaultAttempts
	}
	t := cfg.Timing
	if t.Op < 0 || t.Drift < 0 || t.Commit <= 0 || t.Wait <= 0 || t.MaxWait < t.Wait || t.Horizon <= 0 {
		return fmt.Errorf("%w: %+v", ErrUsage, t)
	}
	return nil
}
