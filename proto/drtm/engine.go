package drtm

import (
	"errors"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Engine is the protocol as one worker runs it.
type Engine struct {
	cfg       Config
	clock     verbs.Clock
	bounded   BoundedClock  // clock, if that is one; else nil
	soft      time.Duration // softtime
	softDelta time.Duration // the clock's error then
	fixed     fixedLeases
	glob      bool // CPU and NIC atomics exclude each other: line words
	stats     proto.Stats
	counts    Counts
	tickets   tickets
	free      []*tx
	made      []*tx
	client    *remote.Client
	host      host
	hints     hints
	sightings proto.Sightings
	debts     proto.Debts
	recording *history.Recorder
}

// fixedLeases says which lengths the configuration has named.
type fixedLeases struct{ lease, readOnly bool }

// Counts are what an engine counts beside proto.Stats.
type Counts struct {
	Joined     uint64 // leases shared with whoever took them first
	Renewed    uint64 // CASes repeated because the state was not the one expected
	TwoRounds  uint64 // read-only attempts on the two-round path
	LeaseAll   uint64 // read-only attempts that leased local records too
	Ensured    uint64 // entries made for keys that had none, for this and other machines
	Reclaimed  uint64 // absent entries given back
	Unfinished uint64 // committed updates that did not reach a machine which was gone: see Finish
	Forgotten  uint64 // locks left behind beyond what Finish remembers
	Unsure     uint64 // locks of which it is not known whether they were taken
}

// CPU time of the steps in the simulator, in picoseconds. Assumed, of the order that DrTM reports:
// with them a local SmallBank transaction takes 0.41 us on a worker alone. The paper's 34 million a
// second on one node (abstract), by 16 threads if they are as many as for TPC-C beside it, are
// 0.47 us; one thread on each of six machines, 138 million / 10.85 (§8.3), takes 0.47 us as well,
// its waits for others included. docs/BENCH.md gives the command.
const (
	costBegin  = 60_000
	costFind   = 20_000
	costAccess = 25_000
	costCommit = 60_000
	costPost   = 15_000 // beside the doorbell, which package fiber charges
)

// New makes the engine of a worker, on its thread and before any transaction runs anywhere. It
// registers the RPC handlers with which other machines have entries made here.
func New(cfg Config) (*Engine, error) {
	fixed := fixedLeases{cfg.Lease != 0, cfg.LeaseReadOnly != 0}
	cfg.defaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	now := cfg.Clock.Now()
	e := &Engine{cfg: cfg, clock: cfg.Clock, fixed: fixed, glob: cfg.Memory.Words != nil,
		tickets: newTickets(uint16(cfg.Index), now), recording: cfg.Recorder}
	e.bounded, _ = cfg.Clock.(BoundedClock)
	e.soft, e.softDelta = e.now()
	e.tickets.same = cfg.Mutation == SameTicket
	e.debts.Unlooked = cfg.Mutation == DebtUnlooked
	e.cfg.Region.Flag = cfg.Worker.RegionFlag()
	e.sightings.After, e.sightings.Lives = cfg.OrphanAfter, cfg.HolderLives
	e.hints.init()
	if err := e.host.init(e); err != nil {
		return nil, err
	}
	client, err := remote.NewClient(cfg.Worker, max(cfg.Fibers, 1))
	if err != nil {
		return nil, err
	}
	e.client = client
	if _, err := cfg.Worker.AddPart(softTime{e}, 0); err != nil {
		return nil, err
	}
	if cfg.Port != nil {
		e.host.serve(cfg.Port)
	}
	return e, nil
}

// Close frees the engine's registered memory. The worker is closed, or nothing of the engine is
// in flight. It may be called twice.
func (e *Engine) Close() error {
	var errs []error
	for _, t := range e.made {
		errs = append(errs, t.buffer.close())
	}
	errs = append(errs, e.client.Close())
	return errors.Join(errs...)
}

// Stats of the engine.
func (e *Engine) Stats() *proto.Stats { return &e.stats }

// Counts of the engine; its worker's thread writes them.
func (e *Engine) Counts() *Counts { return &e.counts }

// Regions are the statistics of all regions of the engine.
func (e *Engine) Regions() htm.Stats {
	var s htm.Stats
	for _, t := range e.made {
		s.Add(&t.region.Stats)
	}
	s.Add(&e.host.region.Stats)
	return s
}

// softTime refreshes softtime at the end of each pass of the worker (DrTM §7.1's timer thread,
// without the conflicts that it causes).
type softTime struct{ e *Engine }

func (s softTime) Completed(*verbs.WC) {}
func (s softTime) Flush()              { s.e.soft, s.e.softDelta = s.e.now() }
func (s softTime) Fence(error)         {}
func (s softTime) Close() error        { return nil }

// expired is EXPIRED by softtime.
func (e *Engine) expired(end time.Duration) bool {
	delta := e.softDelta
	if e.lacks(NoDeltaInExpired) {
		delta = 0
	}
	return Expired(end, e.soft, delta)
}

// take gives a transaction object: for another attempt the one that made the attempts before, if
// it is free, since it counts what they ran into.
func (e *Engine) take(d *proto.Decl, attempt int) *tx {
	n := len(e.free)
	if n == 0 {
		return e.newTx()
	}
	at := n - 1
	if attempt > 0 {
		for i := range e.free {
			if e.free[i].decl == d {
				at = i
				break
			}
		}
	}
	t := e.free[at]
	e.free[at], e.free = e.free[n-1], e.free[:n-1]
	return t
}

// newTx makes a transaction object; there are as many as transactions run at the same time.
func (e *Engine) newTx() *tx {
	t := &tx{e: e, lookups: e.client.NewBatch()}
	t.buffer.stride = layout.HeaderBytes
	for _, s := range e.cfg.Specs {
		t.buffer.stride = max(t.buffer.stride, layout.Stride(s.ValueBytes))
	}
	cfg := e.cfg.Region
	if e.cfg.Simulated {
		cfg.Step = func(name string) {
			t.f.Step(name)
			t.f.Charge(costAccess)
		}
	}
	t.region = htm.NewRegion(cfg)
	e.made = append(e.made, t)
	return t
}

// buffer is registered memory for the images of a transaction's records.
type buffer struct {
	mr     *verbs.MR
	stride int
}

// grow sees to it that there is room for n images. What was there is lost.
func (b *buffer) grow(pd *verbs.PD, n int) error {
	const least = 8
	if b.mr != nil && b.mr.Len() >= n*b.stride {
		return nil
	}
	if err := b.close(); err != nil {
		return err
	}
	mr, err := pd.AllocMR(max(n, least)*b.stride, verbs.AccessLocalWrite,
		verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	b.mr = mr
	return nil
}

func (b *buffer) close() error {
	if b.mr == nil {
		return nil
	}
	mr := b.mr
	b.mr = nil
	return mr.Close()
}

// unreachable is the Abort of an operation that failed: the machine does not answer. What ends a
// fiber's waits stays what it is.
func unreachable(f *fiber.Fiber, err error) error {
	if stop := f.Err(); stop != nil {
		return stop
	}
	var we *verbs.Error
	if errors.As(err, &we) {
		return proto.Aborting(proto.ReasonUnreachable)
	}
	return err
}
