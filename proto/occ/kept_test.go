package occ

import (
	"testing"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// another is the engine of a second worker of the machine.
func (x *kit) another(strategy Strategy) *kit {
	x.t.Helper()
	env := *x.Env
	env.Index = 1
	var err error
	env.Worker, err = x.core.NewWorker(fiber.WorkerConfig{Name: "worker 1 of node 0", PD: x.pd})
	must(x.t, err)
	y := &kit{t: x.t, world: x.world}
	y.open(&env, strategy)
	x.t.Cleanup(func() { must(x.t, y.Close()) })
	return y
}

// deadsWords are locks of two workers of node 1.
var deadsWords = [2]onesided.Word{deadsWord, deadsWord | 1<<17}

// TestWorkersOfAMachineKeepRecordsTogether: two transactions of a dead node, of two workers, wrote the same two
// records one after the other, and neither is decided. Each worker locks the records for its own transaction, in
// orders that would have them wait for one another; the records end with the newer update, whichever is decided
// first.
func TestWorkersOfAMachineKeepRecordsTogether(t *testing.T) {
	const a, b = 2, 5 // of shard 2
	for first := range 2 {
		x := newKit(t)
		workers := [2]*kit{x, x.another(ByRPC())}
		var all [2]*noted
		for i, w := range workers {
			w.view.home[2] = 0
			all[i] = w.view.note(&noted{name: recovery.MakeName(1, i, 1, 1), word: deadsWords[i], dead: true, logged: true,
				epoch: kitEpoch})
		}
		x.load(a, version(1), 1, onesided.Unlocked)
		x.load(b, version(1), 1, onesided.Unlocked)
		for _, k := range [][2]proto.Key{{a, b}, {b, a}} {
			for i, w := range workers {
				all[i].writes = append(all[i].writes, write(k[i], version(i+2), byte(i+2)))
				if !w.view.keep(all[i], 2) {
					t.Fatalf("worker %d cannot keep key %d", i, k[i])
				}
			}
		}
		for i := range workers {
			n := (first + i) % 2
			if !workers[n].view.commit(all[n].name) {
				t.Fatalf("worker %d cannot commit", n)
			}
			if i == 0 {
				v := version(n + 2)
				x.holds(a, v, byte(n+2), deadsWords[1-n])
				x.holds(b, v, byte(n+2), deadsWords[1-n])
			}
		}
		x.holds(a, version(3), 3, onesided.Unlocked)
		x.holds(b, version(3), 3, onesided.Unlocked)
	}
}

// TestRecordsKeptForTheDeadAreGivenBack: when all transactions of nodes that are gone are decided, each worker gives
// back what is still locked for those of its index, and what another one keeps stays locked.
func TestRecordsKeptForTheDeadAreGivenBack(t *testing.T) {
	x := newKit(t)
	y := x.another(ByRPC())
	x.load(2, version(1), 1, onesided.Unlocked)
	var names [2]recovery.Name
	for i, w := range []*kit{x, y} {
		w.view.home[2], w.view.lives[1] = 0, false
		n := &noted{name: recovery.MakeName(1, i, 1, 1), word: deadsWords[i],
			dead: true, writes: []recovery.Write{write(2, version(2), 2)}}
		names[i] = n.name
		w.view.note(n)
		if !w.view.keep(n, 2) {
			t.Fatalf("worker %d cannot keep the record", i)
		}
	}
	y.view.letOfDead(2)
	x.holds(2, version(1), 1, deadsWords[0]) // both are undecided
	x.view.forget(names[0])
	y.view.letOfDead(2)
	x.view.letOfDead(2)
	x.holds(2, version(1), 1, deadsWords[1])
	y.view.forget(names[1])
	x.view.letOfDead(2)
	x.holds(2, version(1), 1, deadsWords[1])
	y.view.letOfDead(2)
	x.holds(2, version(1), 1, onesided.Unlocked)
}

// TestTheLastPartOfATransactionMayComeAgain: its answer was lost, and who asks waits for one.
func TestTheLastPartOfATransactionMayComeAgain(t *testing.T) {
	x := newKit(t)
	n := &noted{name: ofNode1 + 1, word: deadsWord, epoch: kitEpoch,
		writes: []recovery.Write{write(2, version(2), 2), write(5, version(2), 2)}}
	first, next := appendPart(nil, n, 0, partBytes+writeBytes(&n.writes[0], true), true, nil)
	if next != 1 {
		t.Fatalf("the first part ends at write %d", next)
	}
	second, _ := appendPart(nil, n, next, partMost, true, nil)
	for i, part := range [][]byte{first, first, second, second} {
		if !x.view.takeLog(part) {
			t.Fatalf("part %d was refused", i)
		}
	}
	if all := x.view.known[n.name]; all == nil || len(all.writes) != 2 || !all.logged {
		t.Fatalf("known: %+v", all)
	}
}

// TestAPrimaryThatHasGivenALockBackHadTheUpdate: it tells so of a record that was deleted since, or was given to another
// transaction. It does not if the record is locked still, if it became the primary after the record was logged, or if
// nothing was written.
func TestAPrimaryThatHasGivenALockBackHadTheUpdate(t *testing.T) {
	const other = deadsWord | 1<<17
	for _, c := range []struct {
		name  string
		is    bool // there is a record, of version 1
		word  onesided.Word
		moved uint64
		read  bool
		want  bool
	}{
		{"deleted and forgotten since", false, 0, 0, false, true},
		{"unlocked", true, onesided.Unlocked, 0, false, true},
		{"locked by another", true, other, 0, false, true},
		{"locked still", true, deadsWord, 0, false, false},
		{"forgotten, by a later primary", false, 0, kitEpoch + 1, false, false},
		{"primary since the epoch of LOG", false, 0, kitEpoch, false, true},
		{"only read", false, 0, 0, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newKit(t)
			x.view.home[2], x.view.moved[2] = 0, c.moved
			if c.is {
				x.load(2, version(1), 1, c.word)
			}
			w := write(2, version(2), 2)
			w.Read = c.read
			n := &noted{name: ofNode1 + 1, word: deadsWord, dead: true, epoch: kitEpoch, writes: []recovery.Write{w}}
			if got := x.view.applied(n, &n.writes[0]); got != c.want {
				t.Errorf("it says that it has the update: %t, want %t", got, c.want)
			}
		})
	}
}

// TestAnUpdateIsNotMadeAgainWhereItWasForgotten: the record was deleted, its entry given back, and the coordinator, that is
// dead now, locked the key for its next transaction, with the same word.
func TestAnUpdateIsNotMadeAgainWhereItWasForgotten(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry layout.Version
		made  bool
	}{
		{"made for the transaction", layout.Fresh(0), true},
		{"made since", layout.Fresh(2), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newKit(t)
			x.view.home[2] = 0
			x.load(2, c.entry, 9, deadsWord)
			n := x.view.note(&noted{name: ofNode1 + 1, word: deadsWord, dead: true, logged: true, epoch: kitEpoch,
				writes: []recovery.Write{write(2, layout.MakeVersion(1, 0), 7)}})
			if got := x.view.applied(n, &n.writes[0]); got == c.made {
				t.Errorf("it says that it has the update: %t", got)
			}
			if !x.view.commit(n.name) {
				t.Fatal("it cannot commit")
			}
			if c.made {
				x.holds(2, layout.MakeVersion(1, 0), 7, onesided.Unlocked)
			} else {
				x.holds(2, c.entry, 9, deadsWord)
			}
		})
	}
}

// TestAnAttemptOfTheNextViewHasAnotherLockWord: a new primary may keep records locked with that of the view before, for what
// the same object has logged. Within a view nobody does.
func TestAnAttemptOfTheNextViewHasAnotherLockWord(t *testing.T) {
	x := newKit(t)
	var words []onesided.Word
	x.run(func(f *fiber.Fiber) error {
		for _, epoch := range []uint64{kitEpoch, kitEpoch, kitEpoch + 1, kitEpoch + 1} {
			x.view.epoch = epoch
			attempt, err := x.Begin(f, &proto.Decl{}, 0)
			if err != nil {
				return err
			}
			words = append(words, attempt.(*tx).word)
			attempt.Abort(nil)
		}
		return nil
	})
	if words[0] != words[1] || words[1] == words[2] || words[2] != words[3] {
		t.Errorf("the lock words are %v, want another one from the third on", words)
	}
}

// TestWhatRecoveryHasCarriedOutIsSaidAgain: the record is deleted and forgotten since, and who decided has died: the next one
// hears that the transaction is committed, and no backup makes the record again.
func TestWhatRecoveryHasCarriedOutIsSaidAgain(t *testing.T) {
	for _, home := range []proto.NodeID{0, 2} {
		x := newKit(t)
		x.view.home[2], x.view.moved[2] = home, kitEpoch+1
		noted := func() *noted {
			return x.view.note(&noted{name: ofNode1 + 1, word: deadsWord, dead: true, logged: true, epoch: kitEpoch,
				writes: []recovery.Write{write(2, version(1), 1)}})
		}
		n := noted()
		if home == 0 && !x.view.keep(n, 2) {
			t.Fatal("it cannot keep the record")
		}
		if x.view.applied(n, &n.writes[0]) {
			t.Errorf("primary %d: it has the update before", home)
		}
		if !x.view.commit(n.name) || !x.view.truncate(n.name) {
			t.Fatalf("primary %d: it cannot carry out the commit", home)
		}
		x.holds(2, version(1), 1, onesided.Unlocked)
		s := x.Env.Shares[2]
		off, _ := s.Tables[0].Find(2)
		x.storeLine(s, off, layout.ValueOffset, nil,
			lastWord{at: layout.VersionOffset, v: uint64(version(1).Deleted()), ok: true})
		if c := x.UnlinkAt(s, kitTable, 2, uint64(onesided.Unlocked), 1); c != onesided.Done {
			t.Fatalf("the deleted record was not forgotten: %v", c)
		}
		n = noted()
		if !x.view.applied(n, &n.writes[0]) {
			t.Errorf("primary %d: it says nothing of what it has carried out", home)
		}
		if !x.view.commit(n.name) || !x.view.truncate(n.name) {
			t.Fatalf("primary %d: it cannot carry out the commit again", home)
		}
		x.holds(2, 0, 0, 0)
	}
}
