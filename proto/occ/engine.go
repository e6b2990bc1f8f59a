package occ

import (
	"errors"
	"fmt"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/store/log"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ring"
)

// Modelled CPU costs in picoseconds, for the simulator: assumed, those of two-phase locking here.
const (
	beginCostPs  = 60_000 // of an attempt
	recordCostPs = 40_000 // of a record of the own node in one phase
	itemCostPs   = 10_000 // of a record of another node in one phase
	copyCostPs   = 10_000 // of an access by the program
	regionCostPs = 10_000 // of a step of a region's commit
)

// errConfig is wrapped by everything that New refuses.
var errConfig = errors.New("bad configuration")

// Engine implements proto.Engine.
type Engine struct {
	onesided.Base
	strategy   Strategy
	messengers [carrierEnd]messenger
	rings      *ring.Port // of carrier Ring; nil: there are none
	// worded: line words make the CPU's and the NIC's accesses exclude each other.
	worded bool
	// cpuLocks: the own node's records are locked by its CPU, not by loopback.
	cpuLocks bool
	// early: what is declared or discovered as written is locked in EXECUTE; else in LOCK.
	early    bool
	mutation Mutation
	words    onesided.Words
	region   *htm.Region // of look-ups that find nothing
	// commits is the region of commits, which the transaction committing is in; nil: there is none.
	commits    *htm.Region
	committing *tx
	owed       proto.Debts
	backups    *backups      // nil: there are no backups
	hosts      []*hosted     // by node; nil: it appends to no log here
	applier    onesided.Word // locks records of backups
	tombs      []tomb
	older      []bool      // of reclaimDeleted
	views      []*log.View // of the logs of all workers
	view       *view       // nil: there are no backups
	// swaps are those that the NIC has to make, in order, and swapping says that swapper makes them (nicwords.go).
	swaps    []swap
	swapping bool
	swapper  *fiber.Task
	free     []*tx
	made     []*tx
	// unawaited are transactions whose programs go on while COMMIT is under way.
	unawaited      []*tx
	unawaitedTimer *fiber.Timer
	trouble        error // see Trouble
	countsRecords  bool  // see CountRecords
	lookUps        lookUps
	// Of compact messages: a value on its way into an answer, and the body of a record.
	value, text []byte
}

var _ proto.Engine = (*Engine)(nil)

// New makes the engine of a worker.
func New(env *protocol.Env, s Strategy) (*Engine, error) {
	m, err := Mutations().Find(env.Mutation)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, err
	}
	words, err := onesided.NewWords(env)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	e := &Engine{words: words, mutation: m, strategy: s, early: s.early(env)}
	err = e.Init(env, onesided.Rules{
		Owner: onesided.OwnerOf, Now: env.Clock.Now, OrphanAfter: env.Options.Duration(protocol.OptOrphanAfter),
		AccessPs: copyCostPs + s.Software.AccessPs, Uncached: s.Uncached, Skip: skips[m],
		Steps: onesided.Steps{Lookup: stepLookup, Ensure: stepEnsure, Finish: stepFinish, Unlocked: stepValue},
		Costs: onesided.Costs{Find: recordCostPs}})
	if err != nil {
		return nil, err
	}
	if env.Port != nil && s.uses(Ring, proto.Phases()...) {
		if e.rings, err = newRings(env, ringBugs[m]); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	for c := range e.messengers {
		e.messengers[c] = e.messengerOf(Carrier(c))
	}
	e.worded = e.Worded() && env.Scope == verbs.AtomicGlob
	e.cpuLocks = s.by(proto.PhaseLock) != OneSided || e.worded && !s.Regions
	region := env.Region
	region.Flag = env.Worker.RegionFlag()
	region.Step, region.Spurious = nil, nil // they run in handlers
	e.region = htm.NewRegion(region)
	if s.Regions {
		e.newCommits()
	}
	e.newLookUps()
	if err := e.newBackups(); err != nil {
		return nil, err
	}
	if err := e.host(); err != nil {
		return nil, err
	}
	e.newView()
	e.unawaitedTimer = env.Worker.NewTimer(e.lookAtUnawaited)
	if env.Port != nil {
		e.serve()
		e.Serve(onesided.TypeEnsure, func(t proto.TableID, k proto.Key, _ uint64) (uint64, onesided.Code) {
			if s, serves := e.shareOf(t, k); s != nil && serves {
				return e.EnsureAt(s, t, k)
			}
			return 0, onesided.Busy
		})
		e.Serve(onesided.TypeReclaim, func(t proto.TableID, k proto.Key, word uint64) (uint64,
			onesided.Code) {
			if s, _ := e.shareOf(t, k); s != nil {
				return 0, e.UnlinkAt(s, t, k, word, onesided.HostTries)
			}
			return 0, onesided.Busy
		})
		e.ServeRanges(e.servedShare)
		if e.lacks(lockTwice) {
			env.Port.ForgetServed()
		}
	}
	return e, nil
}

// early reports whether records are locked in EXECUTE.
func (s *Strategy) early(env *protocol.Env) bool {
	return !s.LateOnly && env.Options.Choice(OptLock) == LockEarly
}

// byCPU reports whether the CPU reads a record, or locks and unlocks it.
func (e *Engine) byCPU(r *record, locks bool) bool {
	return r.Node == e.Env.Node && (e.cpuLocks || !locks)
}

// Close implements proto.Engine.
func (e *Engine) Close() error {
	errs := []error{e.Base.Close()}
	for _, t := range e.made {
		errs = append(errs, t.looks.Close())
		if t.out != nil {
			errs = append(errs, t.out.Close())
		}
	}
	e.made = nil
	if e.rings != nil {
		errs = append(errs, e.rings.Close(), e.rings.Free())
	}
	return errors.Join(errs...)
}

// Begin implements proto.Engine: it executes what d declares.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	if e.view != nil {
		if err := e.view.await(f); err != nil {
			return nil, err
		}
	}
	if len(e.unawaited) > 0 {
		e.lookAtUnawaited()
	}
	t, err := e.take()
	if err != nil {
		return nil, err
	}
	t.inView()
	if attempt == 0 {
		e.Counters.Begun++
	}
	f.Charge(beginCostPs)
	t.Open(f, d)
	regions := e.strategy.Regions && e.worded
	t.locksAll, t.lone = false, len(d.Accesses) == 1
	t.name, t.denied, t.unended, t.own.writes = 0, nil, t.unended[:0], t.own.writes[:0]
	t.settled, t.regions = false, regions && attempt < regionAttempts
	if regions && !t.regions {
		e.Counters.Fallbacks++
	}
	if !e.strategy.Undo {
		e.Ahead.Prefetch(d)
	}
	if err = t.Declare(d); err == nil {
		if e.strategy.Undo { // they may be in any replica of the own machine
			t.prefetch()
		}
		err = t.Load(0, len(t.Records))
	}
	if err != nil {
		t.finish(history.Aborted)
		return nil, err
	}
	return t, nil
}

// peekLooks bounds how often Peek looks at a record that is locked or being changed.
const peekLooks = 64

// Peek implements proto.Peeker.
func (e *Engine) Peek(f *fiber.Fiber, table proto.TableID, k proto.Key, dst []byte) error {
	if err := f.Err(); err != nil {
		return err
	}
	t, err := e.take()
	if err != nil {
		return err
	}
	defer func() {
		t.F, t.peeks = nil, false
		e.free = append(e.free, t)
	}()
	t.F, t.Records, t.peeks = f, t.Records[:0], true
	if e.view != nil {
		if err := e.view.await(f); err != nil {
			return err
		}
	}
	t.inView()
	if err := t.Add(table, k, proto.ModeRead); err != nil {
		return err
	}
	r := &t.Records[0]
	if len(dst) != len(r.Value) {
		return proto.WrongSize(table, k, len(dst), len(r.Value))
	}
	for range peekLooks {
		err = t.Load(0, 1)
		switch reason := proto.AbortReason(err); {
		case err == nil && r.Is:
			copy(dst, r.Value)
			return nil
		case err == nil:
			return proto.ErrNotFound
		case reason == proto.ReasonMoved && e.view != nil && t.epoch != e.view.epoch:
			return err // the record may be elsewhere
		case reason != proto.ReasonLocked && reason != proto.ReasonConflict && reason != proto.ReasonStale &&
			reason != proto.ReasonMoved:
			return err
		}
		if err := f.Yield(); err != nil {
			return err
		}
	}
	return err
}

// take gives a transaction object that is free.
func (e *Engine) take() (*tx, error) {
	if n := len(e.free); n > 0 {
		t := e.free[n-1]
		e.free = e.free[:n-1]
		return t, nil
	}
	if len(e.made) == onesided.MaxTxs-1 {
		return nil, fmt.Errorf("%d transactions at the same time: use fewer fibers", onesided.MaxTxs-1)
	}
	return e.newTx(), nil
}

func (e *Engine) newTx() *tx {
	t := &tx{e: e}
	e.made = append(e.made, t)
	e.InitTx(&t.Tx, t)
	t.looks.Init(e.Env.Worker.PD(), nil) // a line for each
	if e.backups != nil {
		n := len(e.Env.Peers)
		t.bodies, t.rooms, t.at = make([]int, n), make([]log.Reservation, n), make([]*backup, n)
	}
	t.word = e.words.Next()
	if e.view != nil {
		t.epoch = e.view.epoch
	}
	return t
}

// inView begins an attempt in the present view. In each view it has another lock word: of what the object has done in the
// view before, records may be in logs still, for which a new primary keeps what they name locked with the word that was
// logged. An attempt that had the same word could give these locks back, and such a primary that of the attempt.
func (t *tx) inView() {
	v := t.e.view
	if v == nil || t.epoch == v.epoch {
		return
	}
	t.epoch, t.word = v.epoch, t.e.words.Next()
}

// Debts implements proto.Debtor.
func (e *Engine) Debts() (n int) {
	for peer := range e.Env.Peers {
		n += e.backups.debts(proto.NodeID(peer))
	}
	return n + e.owed.Len() + e.Base.Debts()
}

// DebtsAt implements proto.Debtor.
func (e *Engine) DebtsAt(peer proto.NodeID) int {
	return e.owed.At(peer) + e.Base.DebtsAt(peer) + e.backups.debts(peer)
}

// Trouble implements proto.Troubled.
func (e *Engine) Trouble() error { return e.trouble }

// note takes down what no correct node does.
func (e *Engine) note(err error) {
	if e.trouble == nil {
		e.trouble = err
	}
}

// Orphans implements proto.OrphanLister.
func (e *Engine) Orphans(to []proto.Orphan) []proto.Orphan {
	return e.owed.Orphans(e.Base.Orphans(to), e.Env.Node)
}
