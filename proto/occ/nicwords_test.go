package occ

import (
	"testing"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
)

// nicKit is a kit whose state words are the NIC's, which does nothing.
func nicKit(t *testing.T) *kit {
	x := newKit(t)
	x.cpuLocks, x.swapping = false, true
	x.Env.Memory = &htm.Memory{Bytes: x.Env.Memory.Bytes} // without line words
	x.view.home[2] = 2
	return x
}

// state is the state word of a record of shard 2.
func (x *kit) state(k proto.Key) (off uint64, word onesided.Word) {
	x.t.Helper()
	s := x.Env.Shares[2]
	at, there := s.Tables[0].Find(uint64(k))
	if !there {
		x.t.Fatalf("no entry for key %d", k)
	}
	return uint64(at), onesided.Word(onesided.StateOf(s.Memory, uint64(at)))
}

// TestTheNICUnlocksWhatNICsAskFor: the CPU stores state words of backups, and of a primary that is not served yet.
func TestTheNICUnlocksWhatNICsAskFor(t *testing.T) {
	for _, c := range []struct {
		name            string
		home            proto.NodeID
		restoring, cpus bool
	}{
		{"a backup", 2, false, true},
		{"a primary that is restored", 0, true, true},
		{"a primary", 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := nicKit(t)
			x.load(2, version(1), 1, deadsWord)
			x.view.home[2], x.view.restoring[2] = c.home, c.restoring
			off, _ := x.state(2)
			x.unlockEntry(x.Env.Shares[2], kitTable, off)
			if _, word := x.state(2); (word == onesided.Unlocked) != c.cpus || x.view.swapping() == c.cpus {
				t.Errorf("the state word is %#x, the NIC has to swap it: %t", uint64(word), x.view.swapping())
			}
		})
	}
}

// TestRecoveryWaitsForTheNIC: a commit is done when the NIC has unlocked what it has written, and the record is kept for
// nobody else meanwhile.
func TestRecoveryWaitsForTheNIC(t *testing.T) {
	x := nicKit(t)
	x.load(2, version(1), 1, onesided.Unlocked)
	x.view.home[2], x.view.restoring[2], x.view.moved[2] = 0, true, kitEpoch+1
	var all [2]*noted
	for i := range all {
		all[i] = x.view.note(&noted{name: ofNode1 + 1 + recovery.Name(i), word: deadsWords[i], dead: true, logged: true,
			epoch: kitEpoch, writes: []recovery.Write{write(2, version(2+i), byte(2+i))}})
		if !x.view.keep(all[i], 2) {
			t.Fatal("it cannot keep the record")
		}
	}
	x.view.restoring[2] = false
	nic := func(want onesided.Word) {
		t.Helper()
		if len(x.swaps) != 1 || x.swaps[0].to != want {
			t.Fatalf("the NIC has to make %v, want a swap to %#x", x.swaps, uint64(want))
		}
		x.makeNotedSwaps()
	}
	for i := range all {
		for range 2 {
			if x.view.commit(all[i].name) {
				t.Fatalf("transaction %d is done before the NIC has answered", i)
			}
		}
		if i == 0 {
			if x.view.commit(all[1].name) {
				t.Fatal("the next one changes what the NIC is at")
			}
			x.holds(2, version(2), 2, deadsWords[0])
			nic(deadsWords[1])
		} else {
			nic(onesided.Unlocked)
		}
		if !x.view.commit(all[i].name) {
			t.Fatalf("transaction %d is not done", i)
		}
	}
	x.holds(2, version(3), 3, onesided.Unlocked)
}

// makeNotedSwaps makes them as the NIC would.
func (x *kit) makeNotedSwaps() {
	for _, s := range x.swaps {
		*onesided.WordIn(s.share.Memory, int(s.off)+layout.StateOffset) = uint64(s.to)
		x.Env.Serving.Swapping(-1)
	}
	x.swaps = nil
}

// TestTheCPULocksNoDeletedRecordThatNICsAskFor: a backup gives its entry back, and a primary leaves it.
func TestTheCPULocksNoDeletedRecordThatNICsAskFor(t *testing.T) {
	for _, home := range []proto.NodeID{2, 0} {
		x := nicKit(t)
		gone := version(1).Deleted()
		x.load(2, gone, 1, onesided.Unlocked)
		x.view.home[2] = home
		given := x.unlinkTomb(&tomb{x.Env.Shares[2], 2, kitTable, 2, gone})
		if _, there := x.Env.Shares[2].Tables[0].Find(2); given != (home == 2) || there == given {
			t.Errorf("primary %d: the entry was given back: %t, and is there: %t", home, given, there)
		}
	}
}
