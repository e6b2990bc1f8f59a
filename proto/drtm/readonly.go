package drtm

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
)

// Read-only transactions (§5.4, §4.4) run without a region. Remote records are leased with a
// common end by START. Local ones are read in two rounds that both have to find them unlocked and
// at the same version; the second round is made at commit, and after it the leases are confirmed.
// So all local records were there together between the rounds, and the leases held then.
//
// If the rounds disagree, the next attempts lease the local records as well (START_RO, Figure
// 10(c)), and after Config.Attempts the fallback handler takes over, as for all others.
const (
	// leastRounds is how many attempts read local records in two rounds. Where transactions run in pieces, all do
	// (§4.4), up to the fallback handler: leases on what a long one reads would stop all who write there.
	leastRounds = 2
	// roundLooks bounds how often one round copies a record that changes meanwhile.
	roundLooks = 16
)

func (e *Engine) roundAttempts() int {
	if e.cfg.Chopped {
		return e.cfg.Attempts
	}
	return leastRounds
}

// Read-only transactions that find local records changed lease them as well (START_RO, Figure 10(c)).
var (
	twoRounds = way{start: (*tx).startRounds, load: (*tx).firstRound,
		complete: (*tx).completeRound, commit: (*tx).secondRound,
		rollback: (*tx).secondRound}
	leaseAll = way{byVerbs: true, start: (*tx).lockRemote, commit: (*tx).confirmRounds,
		rollback: (*tx).confirmRounds}
)

// startRounds is START without a region.
func (t *tx) startRounds() error {
	if err := t.restEarly(); err != nil {
		return err
	}
	err := t.lockRemote()
	if err == nil {
		t.locate()
	}
	return err
}

// firstRound is the first round for one record.
func (t *tx) firstRound(r *record) error {
	for range roundLooks {
		if !r.Own.Found {
			off, found := t.e.tables[r.Table-1].Find(r.Key)
			if r.Own.Off, r.Own.Found = uint64(off), found; !found {
				return t.absentRound(r)
			}
		}
		if !t.CopyHere(r, true) {
			continue
		}
		_, v, s := onesided.Header(r)
		presence := onesided.Presence(r)
		if t.e.lacks(NoKeyCheckRounds) {
			presence = layout.Live
		}
		switch {
		case presence == layout.Stale:
			r.Own.Found = false
		case t.e.lockInFirstRound(State(s)):
			return t.Met(r, s)
		default:
			r.Accept(v, presence == layout.Live)
			return nil
		}
	}
	return proto.Aborting(proto.ReasonValidation)
}

// absentRound protects the absence of a record that has no entry and so no version: the lines of
// its buckets are read in a region, which commits, empty, after the second round. Without line
// words only a lease on an entry made for it will do.
func (t *tx) absentRound(r *record) error {
	switch {
	case t.e.lacks(AbsenceWithoutLease):
		r.Absent()
		return nil
	case !t.e.glob:
		return proto.Aborting(proto.ReasonValidation)
	}
	if !t.inRegion {
		if t.elsewhere() {
			t.ranged = true // the second round calls, for which a region would have to end
			return proto.Aborting(proto.ReasonSystem)
		}
		t.region.Begin()
		t.inRegion = true
		t.e.Counters.RegionRuns++
	}
	_, found, ok := t.e.tables[r.Table-1].FindIn(t.region, r.Key)
	switch {
	case !ok:
		return t.regionOver()
	case found:
		// It was not there a moment ago: it has come, or the region's view is an old one, which its
		// commit would not survive.
		return proto.Aborting(proto.ReasonValidation)
	}
	r.Absent()
	return nil
}

// secondRound makes the second round, and confirms the leases after it.
//
// Scanned ranges are looked at again between the rounds: then their records are the same as at that moment.
func (t *tx) secondRound() error {
	t.F.Step("drtm: between rounds")
	t.F.Charge(costCommit)
	if err := t.atRest(); err != nil {
		return err
	}
	if err := t.sameRanges(); err != nil {
		return err
	}
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local || !r.Loaded || !r.Own.Found {
			continue
		}
		t.F.Charge(costAccess)
		key, v, s, ok := t.HeaderNow(r)
		if !t.e.sameInRounds(ok && key == uint64(r.Key), ok && v == r.Version,
			ok && !State(s).Locked()) {
			return proto.Aborting(proto.ReasonValidation)
		}
	}
	switch {
	case !t.inRegion:
	case t.e.lacks(AbsenceOutsideRounds):
		t.leaveRegion()
	case !t.region.Commit(nil):
		return t.regionOver()
	}
	t.inRegion = false
	return t.confirmLeases()
}

// confirmRounds is the end of leaseAll, which has everything leased.
func (t *tx) confirmRounds() error {
	t.F.Step("drtm: between rounds")
	t.F.Charge(costCommit)
	if err := t.atRest(); err != nil {
		return err
	}
	if err := t.sameRanges(); err != nil {
		return err
	}
	return t.confirmLeases()
}

func (t *tx) confirmLeases() error {
	t.F.Step("drtm: after second round")
	if !t.confirmed(NoConfirmRounds) {
		return proto.Aborting(proto.ReasonLease)
	}
	return nil
}
