package drtm

import (
	"encoding/binary"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Read-only transactions (§5.4, §4.4) run without a region. Remote records are leased with a
// common end by START. Local ones are read in two rounds that both have to find them unlocked and
// at the same version; the second round is made at commit, and after it the leases are confirmed.
// So all local records were there together between the rounds, and the leases held then.
//
// If the rounds disagree, the next attempts lease the local records as well (START_RO, Figure
// 10(c)), and after Config.Attempts the fallback handler takes over, as for all others.
const (
	// roundAttempts is how many attempts read local records in two rounds.
	roundAttempts = 2
	// roundLooks bounds how often one round copies a record that changes meanwhile.
	roundLooks = 16
)

// loadRound is the first round for one record.
func (t *tx) loadRound(it *item) error {
	for range roundLooks {
		if !it.found {
			if it.off, it.found = t.e.cfg.Tables[it.table-1].Find(uint64(it.key)); !it.found {
				return t.absentRound(it)
			}
		}
		if !t.e.peek(t.f, it.off, it.image) {
			continue
		}
		key, v, s := it.decode()
		presence := layout.Match(uint64(it.key), key, v)
		if t.e.lacks(NoKeyCheckRounds) {
			presence = layout.Live
		}
		switch {
		case presence == layout.Stale:
			it.found = false
		case s.Locked() && !t.e.lacks(NoLockInFirstRound):
			return t.e.met(it, s)
		default:
			it.accept(v, presence == layout.Live)
			return nil
		}
	}
	return proto.Aborting(proto.ReasonValidation)
}

// absentRound protects the absence of a record that has no entry and so no version: the lines of
// its buckets are read in a region, which commits, empty, after the second round. Without line
// words only a lease on an entry made for it will do.
func (t *tx) absentRound(it *item) error {
	switch {
	case t.e.lacks(AbsenceWithoutLease):
		it.absent()
		return nil
	case !t.e.glob:
		return proto.Aborting(proto.ReasonValidation)
	}
	if !t.inRegion {
		t.region.Begin()
		t.inRegion = true
		t.e.stats.RegionRuns++
	}
	_, found, ok := t.e.cfg.Tables[it.table-1].FindIn(t.region, uint64(it.key))
	switch {
	case !ok:
		return t.regionOver()
	case found:
		// It was not there a moment ago: it has come, or the region's view is an old one, which its
		// commit would not survive.
		return proto.Aborting(proto.ReasonValidation)
	}
	it.absent()
	return nil
}

// confirmRounds makes the second round, and confirms the leases after it.
func (t *tx) confirmRounds() error {
	t.f.Step("drtm: between rounds")
	t.f.Charge(costCommit)
	if t.way == twoRounds {
		for i := range t.items {
			it := &t.items[i]
			if it.verbs || !it.loaded || !it.found {
				continue
			}
			t.f.Charge(costAccess)
			if !t.same(it) && !t.e.lacks(NoSecondRound) {
				return proto.Aborting(proto.ReasonValidation)
			}
		}
		if t.inRegion {
			if t.e.lacks(AbsenceOutsideRounds) {
				t.region.Abort(0)
			} else if !t.region.Commit(nil) {
				return t.regionOver()
			}
			t.inRegion = false
		}
	}
	t.f.Step("drtm: after second round")
	if !t.Confirm() && !t.e.lacks(NoConfirmRounds) {
		return proto.Aborting(proto.ReasonLease)
	}
	return nil
}

// same is the second round for one record: unlocked, and at the version of the first.
func (t *tx) same(it *item) bool {
	var head [layout.LineBytes]byte
	if !t.e.cfg.Memory.Peek(it.off/layout.LineBytes, &head) {
		return false
	}
	le, e := binary.LittleEndian, t.e
	key := le.Uint64(head[layout.KeyOffset:]) == uint64(it.key)
	version := layout.Version(le.Uint64(head[layout.VersionOffset:])) == it.version
	unlocked := !State(le.Uint64(head[layout.StateOffset:])).Locked()
	return (key || e.lacks(NoKeyInRounds)) && (version || e.lacks(NoVersionInRounds)) &&
		(unlocked || e.lacks(NoLockInRounds))
}

// peek copies an entry of this machine, all of it as of one moment, and reports false if it was
// being written. A line is copied at one moment. Whoever writes several lines of an entry, a
// region or a remote transaction, has the first one locked, by its word or by its state, before
// it writes any and until it has written all, and changes the version; so the copy is whole if
// the header is unlocked and the same before and after.
func (e *Engine) peek(f *fiber.Fiber, off int, image []byte) bool {
	m := e.cfg.Memory
	var line [layout.LineBytes]byte
	for at := 0; at < len(image); at += layout.LineBytes {
		if !m.Peek((off+at)/layout.LineBytes, &line) {
			return false
		}
		copy(image[at:], line[:])
		f.Step("drtm: between lines")
	}
	if len(image) <= layout.LineBytes && e.glob || e.lacks(NoSecondLookRounds) {
		return true
	}
	if !m.Peek(off/layout.LineBytes, &line) {
		return false
	}
	le := binary.LittleEndian
	return le.Uint64(line[layout.VersionOffset:]) == le.Uint64(image[layout.VersionOffset:]) &&
		!State(le.Uint64(line[layout.StateOffset:])).Locked()
}
