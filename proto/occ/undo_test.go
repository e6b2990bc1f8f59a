package occ

import (
	"errors"
	"runtime"
	"testing"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/log"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// undoKit is a kit whose backups apply an update at once.
func undoKit(t *testing.T) *kit {
	s := ByRPC()
	s.LateOnly, s.Undo = true, true
	return newKitOf(t, s)
}

// oneTripKit is a kit whose log records lock, as those of Dnl-1.
func oneTripKit(t *testing.T) *kit {
	s := ByRPC()
	s.LateOnly, s.Undo, s.LocksInLog = true, true, true
	s.LocksAll, s.LogsPrimary = true, true
	return newKitOf(t, s)
}

// meanwhile has another worker of the machine, which applies an update of recovery, hold a record that a transaction
// has lowered the Readable flag of, and put it back after f was called, if f waits for that.
func (x *kit) meanwhile(s *share, off uint64, name recovery.Name, f func()) {
	x.t.Helper()
	other := onesided.MakeWord(0, 1, 0, 7)
	if !x.swapState(s, off, lowered(name), other) {
		x.t.Fatal("the Readable flag is not lowered")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			runtime.Gosched()
		}
		x.storeState(s, kitTable, off, lowered(name))
	}()
	f()
	<-done
}

// TestAFlagIsRaisedThoughAnotherWorkerHasTheRecord: the record is readable in the end, or what it was before, and not
// locked. Keys 2 and 5 have a backup here.
func TestAFlagIsRaisedThoughAnotherWorkerHasTheRecord(t *testing.T) {
	for _, commit := range []bool{true, false} {
		x := undoKit(t)
		s := x.Env.Shares[2]
		x.load(2, version(1), 1, onesided.Unlocked)
		x.append(1, ofNode1+1, 0, write(2, version(2), 2))
		x.holds(2, version(2), 2, lowered(ofNode1+1))
		off, _ := s.Tables[0].Find(2)
		x.meanwhile(s, uint64(off), ofNode1+1, func() {
			if commit {
				x.hosts[1].raise(ofNode1 + 1)
			} else {
				x.hosts[1].putBack(ofNode1 + 1)
			}
		})
		if commit {
			x.holds(2, version(2), 2, onesided.Unlocked)
		} else {
			x.holds(2, version(1), 1, onesided.Unlocked)
		}
	}
}

// TestARecordThatWasOnlyReadIsUnlockedThoughAnotherWorkerHasIt, when its transaction ends: with Dnl-1 backups lock it.
func TestARecordThatWasOnlyReadIsUnlockedThoughAnotherWorkerHasIt(t *testing.T) {
	x := oneTripKit(t)
	s := x.Env.Shares[2]
	x.load(2, version(1), 1, onesided.Unlocked)
	w := write(2, version(1), 1)
	w.Read = true
	x.append(1, ofNode1+1, 0, w)
	x.holds(2, version(1), 1, lowered(ofNode1+1))
	off, _ := s.Tables[0].Find(2)
	x.meanwhile(s, uint64(off), ofNode1+1, func() { x.hosts[1].end(ofNode1+1, true) })
	x.holds(2, version(1), 1, onesided.Unlocked)
}

// TestATombstoneThatWasReadIsReclaimedLater: it is locked when deleted records are reclaimed, and not lost by that.
func TestATombstoneThatWasReadIsReclaimedLater(t *testing.T) {
	x := oneTripKit(t)
	s, gone := x.Env.Shares[2], version(1).Deleted()
	x.load(2, gone, 1, onesided.Unlocked)
	x.tombs = append(x.tombs, tomb{s, 2, kitTable, 2, gone})
	w := write(2, gone, 1)
	w.Read = true
	x.append(1, ofNode1+1, 0, w)
	if x.reclaimDeleted(); len(x.tombs) > 0 {
		t.Fatalf("a locked tombstone is reclaimed, or kept: %v", x.tombs)
	}
	x.hosts[1].end(ofNode1+1, true)
	if _, there := s.Tables[0].Find(2); !there || !x.reclaimDeleted() {
		t.Error("the tombstone is not reclaimed when its reader has ended")
	}
	if _, there := s.Tables[0].Find(2); there {
		t.Error("the tombstone stays")
	}
}

// TestNobodyEndsTheTransactionOfAnotherCoordinator: the name says whose it is, and the session who calls.
func TestNobodyEndsTheTransactionOfAnotherCoordinator(t *testing.T) {
	x := oneTripKit(t)
	x.load(2, version(1), 1, onesided.Unlocked)
	name := recovery.Name(ofNode1 + 1)
	x.append(1, name, 0, write(2, version(2), 2))
	for _, from := range []rpc.Identity{{Node: 2}, {Node: 1, Worker: 1}} {
		a := x.serveEnd(&rpc.Caller{Identity: from, Epoch: kitEpoch}, name, true)
		if !errors.Is(a.err, errRequest) {
			t.Errorf("node %d, worker %d: %v, want %v", from.Node, from.Worker, a.err, errRequest)
		}
		x.holds(2, version(2), 2, lowered(name))
	}
	must(t, x.serveEnd(&rpc.Caller{Identity: rpc.Identity{Node: 1}, Epoch: kitEpoch}, name, true).err)
	x.holds(2, version(2), 2, onesided.Unlocked)
}

// TestAPromotedRecordIsUnlockedThoughAnotherWorkerHasIt: its flag gives way to locks.
func TestAPromotedRecordIsUnlockedThoughAnotherWorkerHasIt(t *testing.T) {
	x := undoKit(t)
	s := x.Env.Shares[2]
	x.load(2, version(1), 1, onesided.Unlocked)
	x.append(1, ofNode1+1, 0, write(2, version(2), 2))
	off, _ := s.Tables[0].Find(2)
	x.view.home[2] = 0
	x.meanwhile(s, uint64(off), ofNode1+1, x.hosts[1].raisePromoted)
	x.holds(2, version(2), 2, onesided.Unlocked)
}

// TestALogRecordThatDoesNotFitIsAcknowledgedWhenItIsApplied: the table of a backup is full until deletions are decided.
func TestALogRecordThatDoesNotFitIsAcknowledgedWhenItIsApplied(t *testing.T) {
	x := undoKit(t)
	s := x.Env.Shares[2]
	k := uint64(2)
	for ; ; k += kitNodes {
		if _, c := x.EnsureAt(s, kitTable, proto.Key(k)); c != onesided.Done {
			break
		}
	}
	h, w := x.hosts[1], x.writers[1]
	b := recovery.BeginBody(le.AppendUint64(nil, 0), deadsWord, 1)
	new := write(proto.Key(k), version(1), 3)
	b = recovery.AppendWrite(b, &new)
	if ok, err := w.TryReserve(&x.rooms[1], len(b)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	record := make([]byte, w.Span(len(b)))
	_, err := w.Encode(&x.rooms[1], &log.Record{Type: recordUpdate, ID: uint64(ofNode1 + 1), Body: b}, record)
	must(t, err)
	for range 2 {
		if c, err := h.place(kitEpoch, record); c != busy || err != nil {
			t.Fatalf("no room: %v, %v, want busy", c, err)
		}
	}
	if c := x.UnlinkAt(s, kitTable, 2, uint64(onesided.Unlocked), onesided.HostTries); c != onesided.Done {
		t.Fatal(c)
	}
	if c, err := h.place(kitEpoch, record); c != done || err != nil {
		t.Fatalf("%v, %v, want done", c, err)
	}
	x.holds(proto.Key(k), version(1), 3, lowered(ofNode1+1))
}

// TestWhatIsAppliedAtOnceIsNoVoteForApplied: it says no more than the log record, until the transaction is decided or
// a later one has written the record.
func TestWhatIsAppliedAtOnceIsNoVoteForApplied(t *testing.T) {
	x := undoKit(t)
	x.load(2, version(1), 1, onesided.Unlocked)
	x.append(1, ofNode1+1, 0, write(2, version(2), 2))
	x.view.scan()
	applied := func(name recovery.Name, v int) bool {
		w := write(2, version(v), 2)
		return x.view.applied(&noted{name: name, epoch: kitEpoch}, &w)
	}
	if applied(ofNode1+1, 2) {
		t.Error("a record that was only applied at once counts as that of a committed transaction")
	}
	x.append(1, ofNode1+2, 0, write(2, version(3), 3))
	if !applied(ofNode1+1, 2) || applied(ofNode1+2, 3) {
		t.Error("a later transaction shows that the first is committed, and nothing of itself")
	}
	x.hosts[1].raise(ofNode1 + 2)
	if !applied(ofNode1+2, 3) {
		t.Error("a transaction that its coordinator has decided does not count as committed")
	}
}

// TestBackupsAreReadWhileNothingIsInDoubt: a record is read at a backup on the own machine unless its Readable flag is
// lowered, the replica is not complete, or the node knows of a transaction that is not decided.
func TestBackupsAreReadWhileNothingIsInDoubt(t *testing.T) {
	x := undoKit(t)
	x.load(2, version(1), 1, onesided.Unlocked)
	tx := x.newTx()
	r := record{}
	r.Table, r.Key, r.Node, r.At.Shard, r.At.Primary, r.Value = kitTable, 2, 2, 2, 2, value(0)
	reads := func(want bool, when string) {
		t.Helper()
		x.run(func(f *fiber.Fiber) error {
			tx.F = f
			if got := tx.readBackup(&r); got != want {
				t.Errorf("%s: the record is read at the backup: %t, want %t", when, got, want)
			}
			return nil
		})
	}
	reads(true, "at rest")
	if r.Value[0] != 1 || r.Version != version(1) || !r.Own.Elsewhere {
		t.Errorf("it has version %v, a value of %d, and is to be validated elsewhere: %t", r.Version, r.Value[0],
			r.Own.Elsewhere)
	}
	x.Env.Serving.Noted(1)
	reads(false, "while a transaction is not decided")
	x.Env.Serving.Noted(-1)
	x.view.whole[2] = false
	reads(false, "while the replica is filled")
	x.view.whole[2] = true
	x.append(1, ofNode1+1, 0, write(2, version(2), 2))
	reads(false, "while its flag is lowered")
	x.hosts[1].raise(ofNode1 + 1)
	reads(true, "when its flag was raised")
}
