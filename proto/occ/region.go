package occ

import (
	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
)

// Strategies with Regions (DrTM+R, Xenic §2.2.2): the records of the own node are compared and written in a
// region at the commit, with those of other nodes locked. Where there are no line words a region sees
// nothing of NICs: then the own NIC locks the own node's records.

// regionAttempts of a transaction run regions, in later ones the own NIC locks, too: a region may not fit. The
// CPU cannot: the lines of a record that a region writes are there one after the other.
const regionAttempts = 4

// regionEngine is an engine that runs regions in transactions.
type regionEngine struct{ recoverer }

// Regions implements proto.RegionCounter.
func (e regionEngine) Regions() htm.Stats {
	s := e.HostRegions()
	s.Add(&e.commits.Stats)
	return s
}

// newCommits makes the region of commits.
func (e *Engine) newCommits() {
	c := e.Env.Region
	c.Flag = e.Env.Worker.RegionFlag()
	if e.Env.Simulated {
		c.Step = func(name string) {
			e.committing.F.Step(name)
			e.committing.F.Charge(regionCostPs)
		}
	}
	e.commits = htm.NewRegion(c)
}

// regional reports whether a region at the commit is what protects a record: of one shard, as a region is of
// one memory. Those of a shard that the node has got when another one died are locked.
func (t *tx) regional(r *record) bool {
	return t.regions && r.Node == t.e.Env.Node && r.At.Shard == proto.ShardID(r.Node)
}

// commitRegion is LOCK and VALIDATE of the own node's records, and COMMIT if nothing has to be done between:
// else it locks those that are written. It reports what was in the way.
func (t *tx) commitRegion() error {
	if err := t.e.view.begin(t); err != nil {
		return err
	}
	err := t.runRegion()
	if !t.placed {
		t.e.view.end()
	}
	return err
}

// runRegion is commitRegion within its phase.
func (t *tx) runRegion() error {
	e := t.e
	own, inserts := 0, false
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Local = t.regional(r) && r.Loaded; r.Own.Local {
			own++
			inserts = inserts || r.Changes() && !(r.Was && r.Is)
		}
	}
	if own == 0 {
		return nil
	}
	t.F.Charge(recordCostPs * int64(own))
	if e.lacks(outsideRegion) && !inserts && !t.reserved {
		return t.commitOutside()
	}
	e.Counters.RegionRuns++
	e.committing = t
	e.commits.Begin()
	err := t.inRegion()
	if err == nil {
		t.NoteWrites()
		if e.commits.Commit(nil) {
			t.regionCommitted()
			return nil
		}
		err = t.regionOver()
	}
	return err
}

// inRegion compares the own node's records and stores what was written. After an error the region has ended.
func (t *tx) inRegion() error {
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local {
			continue
		}
		if err := t.sameInRegion(r); err != nil {
			return err
		}
	}
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Local && r.Changes() && !t.storeInRegion(r) {
			return t.regionOver()
		}
	}
	return nil
}

// sameInRegion looks whether a record is as it was read, and nobody's. It makes an entry for one that is
// written and has none.
func (t *tx) sameInRegion(r *record) error {
	x, err := t.findInRegion(r)
	e := t.e
	switch {
	case err != nil:
		return err
	case e.lacks(localUnchecked):
	case layout.Locked(x.head.State):
		e.commits.Abort(0)
		r.Own.Off = x.off
		return t.met(r, x.head)
	case !e.same(&x, r.Version):
		return t.leaveRegion(proto.ReasonValidation)
	}
	if r.Own.Off = x.off; !r.Changes() || r.Was {
		return nil
	}
	if r.Version = x.head.Version; x.off != 0 {
		return nil
	}
	off, v, ok, err := e.Here(r).Tables[r.Table-1].EnsureIn(e.commits, uint64(r.Key), uint64(onesided.Unlocked))
	switch {
	case !ok:
		return t.regionOver()
	case err != nil:
		return t.leaveRegion(proto.ReasonFull)
	}
	r.Own.Off, r.Version = uint64(off), v
	return nil
}

// findInRegion finds the entry of a record: at the place where it was read, or by its table.
func (t *tx) findInRegion(r *record) (x found, err error) {
	e, off, there := t.e, int(r.Own.Off), r.Own.Off != 0
	for range 2 {
		if !there {
			var ok bool
			if off, there, ok = e.Here(r).Tables[r.Table-1].FindIn(e.commits, uint64(r.Key)); !ok {
				return x, t.regionOver()
			}
		}
		if !there {
			absent, ok := e.Here(r).Tables[r.Table-1].AbsentIn(e.commits)
			if !ok {
				return x, t.regionOver()
			}
			return found{present: layout.Absent, absent: absent}, nil
		}
		var image [layout.HeaderBytes]byte
		if !e.commits.Load(e.Here(r).Memory, off, image[:]) {
			return x, t.regionOver()
		}
		x = found{off: uint64(off), head: layout.HeadOf(image[:])}
		if x.present = x.head.Match(uint64(r.Key)); x.present == layout.Absent && x.head.Version.Trace() == 0 {
			var ok bool
			if x.absent, ok = e.Here(r).Tables[r.Table-1].AbsentIn(e.commits); !ok {
				return x, t.regionOver()
			}
		}
		if x.present != layout.Stale {
			return x, nil
		}
		there = false
	}
	return x, t.leaveRegion(proto.ReasonConflict)
}

// storeInRegion stores an update, or the lock.
func (t *tx) storeInRegion(r *record) bool {
	m, off := t.e.Here(r).Memory, int(r.Own.Off)
	if t.reserved { // nobody may see the update before it is logged
		return t.e.commits.Store64(m, off+layout.StateOffset, uint64(t.word))
	}
	return t.e.commits.Store64(m, off+layout.VersionOffset, uint64(r.Next())) &&
		(!r.Is || t.e.commits.Store(m, off+layout.ValueOffset, r.Value))
}

// regionCommitted takes down what has happened. Entries of deleted records go back to their tables.
func (t *tx) regionCommitted() {
	t.settled, t.placed = true, !t.reserved
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local || !r.Changes() {
			continue
		}
		if t.reserved {
			r.Own.Hold = onesided.Locked
			continue
		}
		if r.Own.Stored = true; !r.Is {
			t.e.UnlinkAt(t.e.Here(r), r.Table, r.Key, uint64(onesided.Unlocked), onesided.HostTries)
		}
	}
}

// commitOutside is a mutation: commitRegion without a region.
func (t *tx) commitOutside() error {
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local {
			continue
		}
		x := item{table: r.Table, key: r.Key, version: r.Version}
		if there, c := t.e.validateHere(t.e.Here(r), &x); c != done {
			return t.refusedHere(r, c, &there)
		}
	}
	t.NoteWrites()
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Local && r.Changes() && r.Was && r.Is {
			x := t.update(r)
			t.e.publish(t.F, t.e.Here(r), r.Own.Off, &x)
		}
	}
	t.regionCommitted()
	return nil
}

// leaveRegion aborts the region, and gives the attempt's error.
func (t *tx) leaveRegion(r proto.Reason) error {
	t.e.commits.Abort(uint8(r))
	return proto.Aborting(r)
}

// regionOver is the attempt's error after the region has aborted.
func (t *tx) regionOver() error {
	switch code, _ := t.e.commits.Aborted(); code {
	case htm.Capacity:
		return proto.Aborting(proto.ReasonCapacity)
	case htm.System, htm.Nested:
		return proto.Aborting(proto.ReasonSystem)
	}
	return proto.Aborting(proto.ReasonConflict)
}
