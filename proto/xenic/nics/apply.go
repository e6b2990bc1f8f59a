package nics

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/store/robinhood"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// This file is the host's Robinhood worker (step 7): it applies logs to tables.

// applier is the part of a Host that applies.
type applier struct {
	due     bool // a log has got something
	busy    bool // its fiber runs
	task    *fiber.Task
	place   int // in Yard
	watch   []*fiber.Watch
	seen    []awaited // by log, if they are polled
	region  *htm.Region
	passes  uint64 // over all logs, each read to its end
	graves  []grave
	tables  [][]change // by shard and table, of what the NIC serves, since it was told
	failed  error
	copying map[int]copying // by node
}

// awaited is the line of a log that is watched, as it was.
type awaited struct {
	at   int
	line [verbs.LineBytes]byte
}

// change is how a table of the own shard has changed since the NIC was told.
type change struct{ entries, inserted int }

// grave is a record that a deletion has left: it goes when nothing that is older can come any more. An older update was
// in a log, readable, before the deletion was; so that is when every log has been read to its end since.
type grave struct {
	shard   int
	ref     Ref
	version layout.Version
	serves  bool     // the NIC serves the shard
	since   []uint64 // passes of each thread, when the record was deleted
}

// Bounds of what is tried again.
const (
	// applyTries bounds the regions of one update: those of other workers, and DMAs, make them abort.
	applyTries = 1000
	// gravePasses are how many passes of a thread end, at most, until one has that began after a deletion.
	gravePasses = 2
	// maxApplied is how many updates of a log are applied before its NIC is told of them: with those of one more
	// transaction, they fit into a message.
	maxApplied = 4096
)

// mostChanges bounds how many tables the NIC is told of at once.
const mostChanges = 512

const _ = uint(smartnic.MaxPayload - 12 - mostChanges*7 - (maxApplied+MaxAccesses)*refBytes)

// fillLook is how often a thread looks whether a replica is filled.
const fillLook = 50 * time.Microsecond

// partlyLook is how often a thread looks at a record of which not all has come, and mostPartly bounds how often: then it waits for
// the record's last line.
const (
	partlyLook = time.Microsecond
	mostPartly = 10_000
)

// applyPs is the CPU time of a record's application. Assumed.
const applyPs = 100_000

// ErrApply: a committed update does not go into the host's table.
var ErrApply = errors.New("a committed update cannot be applied")

// Trouble is why the thread has stopped to apply; nil: it has not.
func (h *Host) Trouble() error { return h.failed }

func (h *Host) beginApplying() {
	cfg := &h.cfg
	h.place = len(cfg.Yard.hosts)
	cfg.Yard.hosts = append(cfg.Yard.hosts, h)
	h.seen = make([]awaited, len(cfg.Logs))
	for i := range cfg.Logs {
		h.watch = append(h.watch, cfg.Worker.NewWatch(func() bool {
			if s := &h.seen[i]; cfg.Polled && bytes.Equal(s.line[:], cfg.Memory.Bytes()[s.at:s.at+verbs.LineBytes]) {
				return false
			}
			h.rouse()
			return true
		}))
	}
	h.busy = true
	cfg.Worker.Submit("apply", func(*fiber.Fiber) error {
		h.task = cfg.Worker.Go("apply", nil, h.apply)
		return nil
	}, nil)
}

// resize makes room for the changes of all tables.
func (h *Host) resize() {
	h.tables = make([][]change, len(h.cfg.Tables))
	for s, t := range h.cfg.Tables {
		h.tables[s] = make([]change, len(t))
	}
}

// rouse has the thread look at its logs. Call it on the thread, or from another thread of the event loop.
func (h *Host) rouse() {
	h.due = true
	if !h.busy && h.failed == nil {
		h.busy = true
		h.cfg.Worker.Restart(h.task)
	}
}

// apply applies until the logs are read to their ends.
func (h *Host) apply(f *fiber.Fiber) (err error) {
	defer func() {
		h.busy = false
		if errors.Is(err, ErrApply) {
			h.failed = err
		}
	}()
	for partly := 0; ; {
		h.due = false
		found := false
		for i := range h.cfg.Logs {
			some, err := h.applyLog(f, i)
			if err != nil {
				return err
			}
			found = found || some
		}
		if found {
			partly = 0
			continue
		}
		if h.begun() && partly < mostPartly {
			partly++
			if err := f.Sleep(partlyLook); err != nil {
				return err
			}
			continue
		}
		for len(h.cfg.Yard.due) > 0 {
			tx := h.cfg.Yard.due[0]
			if err := h.decide(f, tx); err != nil {
				return err
			}
			// Another thread may have taken it meanwhile.
			h.cfg.Yard.due = slices.DeleteFunc(h.cfg.Yard.due, func(x uint64) bool { return x == tx })
		}
		h.passes++
		if err := h.dig(f); err != nil {
			return err
		}
		h.announce()
		if h.due {
			continue
		}
		if len(h.graves) == 0 || !h.fills(&h.graves[0]) {
			return nil
		}
		if err := f.Sleep(fillLook); err != nil {
			return err
		}
	}
}

// begun reports whether a log has a record of which not all has come. Its last line is watched; but a record that wraps around is
// two DMAs, of which the short one may be there first.
func (h *Host) begun() bool {
	return slices.ContainsFunc(h.cfg.Logs, func(l HostLog) bool { return l.Begun() })
}

// announce rouses threads that wait for this one to read its logs to the end, also after the first of two passes: they
// ask for the second.
func (h *Host) announce() {
	for _, x := range h.cfg.Yard.hosts {
		if x != h && len(x.graves) > 0 && h.passes <= x.graves[0].passes(h.place)+gravePasses {
			x.rouse()
			x.cfg.Worker.Kick()
		}
	}
}

// applyLog applies what a log has, and tells the NIC.
func (h *Host) applyLog(f *fiber.Fiber, i int) (found bool, err error) {
	l := h.cfg.Logs[i]
	line := l.At/verbs.LineBytes + l.AwaitedLine()
	if s := &h.seen[i]; h.cfg.Polled {
		s.at = line * verbs.LineBytes
		copy(s.line[:], h.cfg.Memory.Bytes()[s.at:])
	}
	if err := h.watch[i].Set(h.cfg.Memory, line); err != nil {
		return false, err
	}
	var applied []Ref
	var record log.Record
	for len(applied) < maxApplied && l.Next(&record) == nil {
		found = true
		h.Applied++
		commits, err := h.applyRecord(f, &record)
		if err != nil {
			return true, err
		}
		applied = append(applied, commits...)
	}
	if l.Position() == l.Head() {
		return found, nil
	}
	if err := l.Truncate(l.Position()); err != nil {
		return found, err
	}
	h.tell(l.Core, l.Head(), applied)
	return found, nil
}

// tell tells a core of the NIC what was applied of its log.
func (h *Host) tell(core int, head uint64, applied []Ref) {
	changes, changed := &encoder{}, 0
	for shard := range h.tables {
		for t := range h.tables[shard] {
			if c := &h.tables[shard][t]; *c != (change{}) && changed < mostChanges {
				changes.u16(uint16(shard)).u8(uint8(t)).u16(uint16(int16(c.entries))).u16(uint16(c.inserted))
				*c = change{}
				changed++
			}
		}
	}
	e := (&encoder{}).u64(head).u16(uint16(changed))
	e.b = append(e.b, changes.b...)
	e.u16(uint16(len(applied)))
	for _, x := range applied {
		e.ref(x)
	}
	h.cfg.Port.Send(core, msgApplied, e.b)
}

// applyRecord does what a log record says, and gives the keys of a commit.
func (h *Host) applyRecord(f *fiber.Fiber, record *log.Record) (commits []Ref, err error) {
	d := &decoder{b: record.Body}
	shard, y := int(d.u16()), h.cfg.Yard
	told, written, updates := d.news(), d.shards(), d.updates()
	for _, tx := range told.decided {
		if err := h.decide(f, tx); err != nil {
			return nil, err
		}
	}
	for _, tx := range told.forget {
		delete(y.gone, tx)
	}
	switch {
	case record.Type == logSettle:
	case record.Type == logBackup && h.cfg.Mutation != ForgetEarly:
		y.hold(record.ID, written, part{shard, updates})
	default:
		own := record.Type == logCommit
		if err := h.applyAll(f, shard, own, updates); err != nil {
			return nil, err
		}
		if own {
			for _, u := range updates {
				commits = append(commits, u.Ref)
			}
		}
	}
	return commits, nil
}

// decide applies what is held of a transaction that is decided.
func (h *Host) decide(f *fiber.Fiber, tx uint64) error {
	y := h.cfg.Yard
	x := y.held[tx]
	if x == nil || x.applying {
		return nil // another thread does
	}
	x.applying = true
	defer func() { x.applying = false }()
	for _, p := range x.parts {
		if err := h.applyAll(f, p.shard, false, p.updates); err != nil {
			return err
		}
	}
	delete(y.held, tx)
	y.gone[tx] = true
	return nil
}

// serves reports whether the NIC serves a shard, and counts the entries of its tables. What the primary itself holds of a
// transaction, for a coordinator that is its backup, may be applied before the commit is.
func (h *Host) serves(shard int) bool {
	if s := h.cfg.Yard.Serves; s != nil {
		return s(shard)
	}
	return shard == h.cfg.Node
}

// applyAll applies updates of a shard that are newer than the table's; commits: they are a commit's.
func (h *Host) applyAll(f *fiber.Fiber, shard int, commits bool, updates []Update) error {
	serves := h.serves(shard)
	for _, u := range updates {
		f.Step(StepApply)
		f.Charge(applyPs)
		h.Updates++
		made, err := h.applyUpdate(f, h.cfg.Tables[shard][u.Table], &u)
		if err != nil {
			return err
		}
		c := &h.tables[shard][u.Table]
		if serves && made {
			c.entries++
		}
		if commits && inserts(u.Version) {
			c.inserted++
		}
		if !u.Version.Live() {
			h.bury(shard, &u, serves)
		}
	}
	return nil
}

// applyUpdate applies one update in one region, and says whether that has made an entry.
func (h *Host) applyUpdate(f *fiber.Fiber, t *robinhood.Table, u *Update) (made bool, err error) {
	for range applyTries {
		made, ok, err := h.tryUpdate(t, u)
		if err != nil {
			return false, fmt.Errorf("%w: table %q, key %#x: %w", ErrApply, t.Config().Name, u.Key, err)
		}
		if ok {
			return made, nil
		}
		if err := f.Yield(); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("%w: table %q, key %#x: its region was aborted %d times", ErrApply, t.Config().Name, u.Key,
		applyTries)
}

// tryUpdate is one region; false: try again. A record that has no entry has none of a later version: see grave.
func (h *Host) tryUpdate(t *robinhood.Table, u *Update) (made, ok bool, err error) {
	r := h.region
	r.Begin()
	place, found, ok := t.FindIn(r, u.Key)
	if !ok {
		return false, false, nil
	}
	if !found {
		if place, _, ok, err = t.EnsureIn(r, u.Key, 0); err != nil || !ok {
			if err != nil {
				r.Abort(0)
			}
			return false, false, err
		}
	}
	m, off := t.At(place)
	now, ok := r.Load64(m, off+layout.VersionOffset)
	if !ok {
		return false, false, nil
	}
	if found && layout.Version(now) >= u.Version && h.cfg.Mutation != ApplyOlder {
		return false, r.Commit(nil), nil
	}
	if !u.Version.Live() {
		return !found, r.Store64(m, off+layout.VersionOffset, uint64(u.Version)) && r.Commit(nil), nil
	}
	record := t.Record()
	image := make([]byte, record.Bytes)
	binary.LittleEndian.PutUint64(image, u.Key)
	record.Put(image, u.Version, u.Bytes)
	return !found, r.Store64(m, off+layout.VersionOffset, uint64(u.Version)) &&
		r.Store(m, off+layout.ValueOffset, image[layout.ValueOffset:]) && r.Commit(nil), nil
}

// bury notes a deletion, and has all threads read their logs to the end.
func (h *Host) bury(shard int, u *Update, serves bool) {
	g := grave{shard: shard, serves: serves, ref: u.Ref, version: u.Version}
	for _, x := range h.cfg.Yard.hosts {
		g.since = append(g.since, x.passes)
	}
	h.graves = append(h.graves, g)
}

// passes are those of a thread when the record was deleted; 0 if it had not begun.
func (g *grave) passes(place int) uint64 {
	if place < len(g.since) {
		return g.since[place]
	}
	return 0
}

// fills reports whether the replica of a grave is being filled: a copy of the record may still come.
func (h *Host) fills(g *grave) bool {
	y := h.cfg.Yard
	return y.Filling != nil && y.Filling(g.shard)
}

// past reports whether all threads have read their logs to the end since a deletion, in a pass that began later. It has
// those read that have not.
func (h *Host) past(g *grave) bool {
	if h.fills(g) || h.cfg.Yard.older(g.shard, g.ref, g.version) || len(h.cfg.Yard.hosts) < h.cfg.Yard.Threads {
		return false
	}
	ok := true
	for i, x := range h.cfg.Yard.hosts {
		if x.passes < g.passes(i)+gravePasses {
			ok = false
			x.rouse()
			if x != h {
				x.cfg.Worker.Kick()
			}
		}
	}
	return ok
}

// dig gives the records of deletions back.
func (h *Host) dig(f *fiber.Fiber) error {
	for len(h.graves) > 0 && h.past(&h.graves[0]) {
		g := h.graves[0]
		h.graves = h.graves[1:]
		t := h.cfg.Tables[g.shard][g.ref.Table]
		gone, err := h.reclaim(f, t, &g)
		if err != nil {
			return err
		}
		if gone && g.serves {
			h.tables[g.shard][g.ref.Table].entries--
			if len(h.cfg.Logs) > 0 {
				l := h.cfg.Logs[0]
				h.tell(l.Core, l.Head(), nil)
			}
		}
	}
	return nil
}

// reclaim gives one back, unless the key has another version by now.
func (h *Host) reclaim(f *fiber.Fiber, t *robinhood.Table, g *grave) (gone bool, err error) {
	r := h.region
	for range applyTries {
		r.Begin()
		place, found, ok := t.FindIn(r, g.ref.Key)
		if ok && !found {
			r.Abort(0)
			return false, nil
		}
		if ok {
			m, off := t.At(place)
			var v uint64
			if v, ok = r.Load64(m, off+layout.VersionOffset); ok && layout.Version(v) != g.version {
				r.Abort(0)
				return false, nil
			}
		}
		if ok {
			if ok, err = t.ReclaimIn(r, g.ref.Key, 0); err != nil {
				r.Abort(0)
				if errors.Is(err, store.ErrState) || errors.Is(err, store.ErrLive) || errors.Is(err, store.ErrNoEntry) {
					return false, nil
				}
				return false, err
			}
		}
		if ok && r.Commit(nil) {
			return true, nil
		}
		if err := f.Yield(); err != nil {
			return false, err
		}
	}
	return false, nil
}
