//go:build linux && amd64 && !race

package shm

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// ownedLines are those that the interrupted commits of these tests change from all 1 to all 2.
var ownedLines = [...]uint64{2, 5, 7}

// interrupted leaves the commit of a line owner in the middle, and waits to be killed. after runs
// when the lines are locked and the images noted.
func (r *role) interrupted(after func(mr *verbs.MR, journal []uint64)) {
	r.ready()
	mr, err := r.n.pd.AllocMR(1<<16, verbs.AccessAll, verbs.MROptions{LineOwners: 2})
	check(r.tb, err)
	o, err := mr.ClaimLineOwner()
	check(r.tb, err)
	j := lineword.MakeJournal(o.Journal)
	for i := range mr.Bytes() {
		mr.Bytes()[i] = 1
	}
	image := [lineBytes]byte(bytes.Repeat([]byte{2}, lineBytes))
	for i, line := range ownedLines {
		j.List(i, line)
	}
	j.Locking(len(ownedLines))
	for i, line := range ownedLines {
		p := &mr.Lines()[line]
		if !lineword.TryLock(p, lineword.Load(p), o.Slot) {
			r.tb.Fatal("a line is locked")
		}
		j.Image(i, &image)
	}
	after(mr, o.Journal)
	check(r.tb, json.NewEncoder(os.Stdout).Encode(mr.Remote()))
	select {}
}

func (r *role) ownLocking() { r.interrupted(func(*verbs.MR, []uint64) {}) }

// ownCommitted has published the first line, and half of the second one.
func (r *role) ownCommitted() {
	r.interrupted(func(mr *verbs.MR, journal []uint64) {
		j := lineword.MakeJournal(journal)
		j.Committed(len(ownedLines))
		first, second := ownedLines[0], ownedLines[1]
		copy(mr.Bytes()[first*lineBytes:(first+1)*lineBytes], bytes.Repeat([]byte{2}, lineBytes))
		p := &mr.Lines()[first]
		lineword.Unlock(p, lineword.Load(p))
		copy(mr.Bytes()[second*lineBytes:][:lineBytes/2], bytes.Repeat([]byte{2}, lineBytes/2))
	})
}

// ownDamaged has a journal that makes no sense.
func (r *role) ownDamaged() {
	r.interrupted(func(_ *verbs.MR, journal []uint64) {
		for i := range journal {
			journal[i] = ^uint64(i)
		}
	})
}

// TestPeersEndTheCommitOfADeadLineOwner kills the owner of an MR in the middle of a commit. Peers
// that have its memory mapped, and meet its lines at the same time, finish or undo it.
func TestPeersEndTheCommitOfADeadLineOwner(t *testing.T) {
	for _, c := range []struct {
		role string
		want byte
	}{{"own-locking", 1}, {"own-committed", 2}, {"own-damaged", 1}} {
		t.Run(c.role, func(t *testing.T) {
			n, child := newProcessPair(t, c.role, nodeOptions{})
			child.await()
			var remote verbs.RemoteMR
			child.hear(&remote)
			if wc := n.do(t, verbs.WR{Op: verbs.OpRead, NumSGE: 1,
				SGE:        [verbs.MaxSGE]verbs.SGE{n.mr.SGE(0, lineBytes)},
				RemoteAddr: remote.Addr, RKey: remote.RKey}); wc.Status != 0 {
				t.Fatal(wc.Err())
			}
			d, q := n.inside(t)
			r := q.send.lane.remote[remote.RKey%remoteViews].r
			child.kill()
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for _, line := range ownedLines {
						d.rescue(r, line, lineword.Load(r.word(line)))
					}
				})
			}
			wg.Wait()
			for _, line := range ownedLines {
				if w := lineword.Load(r.word(line)); w.Locked() || w.Version() != 1 {
					t.Errorf("line %d is at %s", line, w)
				}
				if b := r.line(line)[:]; !bytes.Equal(b, bytes.Repeat([]byte{c.want}, lineBytes)) {
					t.Errorf("line %d is %v, want all %d", line, b, c.want)
				}
			}
		})
	}
}

// TestReopenedMemoryHasAllItsLineOwners closes kept memory without releasing them, in a process
// that lives on.
func TestReopenedMemoryHasAllItsLineOwners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run") // what is kept stays in it
	n := newNode(t, New(Options{Dir: dir}), nodeOptions{})
	const owners = 3
	for range 3 {
		mr, err := n.pd.AllocMR(1<<16, verbs.AccessAll,
			verbs.MROptions{Keep: "reopened", LineOwners: owners})
		check(t, err)
		for i := range owners {
			if _, err := mr.ClaimLineOwner(); err != nil {
				t.Fatalf("line owner %d: %v", i, err)
			}
		}
		check(t, mr.Close())
	}
	_, err := n.pd.AllocMR(1<<16, verbs.AccessAll,
		verbs.MROptions{Keep: "reopened", LineOwners: owners + 1})
	if err == nil {
		t.Error("kept memory was opened with another number of line owners")
	}
}

func TestLineOwnersOfTheLivingAreNotOverruled(t *testing.T) {
	n := newNode(t, New(Options{Dir: runDir(t)}), nodeOptions{})
	mr, err := n.pd.AllocMR(1<<16, verbs.AccessAll, verbs.MROptions{LineOwners: 1})
	check(t, err)
	o, err := mr.ClaimLineOwner()
	check(t, err)
	p := &mr.Lines()[3]
	before := lineword.Load(p)
	if !lineword.TryLock(p, before, o.Slot) {
		t.Fatal("not locked")
	}
	o.Rescue(3)
	o.Rescue(-1)
	o.Rescue(1 << 20)
	if w := lineword.Load(p); w != before.LockedBy(o.Slot) {
		t.Errorf("the line of a living owner is at %s", w)
	}
	lineword.Restore(p, before)
	check(t, o.Release())
	check(t, mr.Close())
	if err := o.Release(); err != nil {
		t.Errorf("release after the MR was closed: %v", err)
	}
	if _, err := mr.ClaimLineOwner(); err == nil {
		t.Error("a closed MR has a line owner to lend")
	}
}

// A rescuer may sleep between any two of its steps. When it goes on, other rescuers may have freed
// the slot of the dead, and somebody who lives may be in a commit of its own under it.
func TestRescuerThatSleptLeavesTheNextOwnerAlone(t *testing.T) {
	const dead, line = 12345, 3 // an incarnation that nobody has
	for _, c := range []struct {
		name   string
		wakes  func(d *device, r *region, slot uint16) bool
		listed lineword.JournalState
	}{
		{name: "before it read the journal", listed: lineword.JournalCommitted,
			wakes: func(d *device, r *region, slot uint16) bool {
				d.recoverCommit(r, slot, dead)
				return false
			}},
		{name: "before it frees the slot", listed: lineword.JournalLocking,
			wakes: func(d *device, r *region, slot uint16) bool { return d.freeDead(r, slot, dead) }},
		{name: "when it knew the line's lock", listed: lineword.JournalCommitted,
			wakes: func(d *device, r *region, slot uint16) bool {
				old := lineword.Load(r.word(line)) - 1<<17 // the version before
				return d.recoverLine(r, line, old, dead) && false
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, New(Options{Dir: runDir(t)}), nodeOptions{})
			mr, err := n.pd.AllocMR(1<<16, verbs.AccessAll, verbs.MROptions{LineOwners: 1})
			check(t, err)
			o, err := mr.ClaimLineOwner()
			check(t, err)
			d, _ := n.inside(t)
			r := d.mrs[mr.Remote().RKey%maxMR].Load()
			p := r.word(line)
			for range 2 {
				w := lineword.Load(p)
				if !lineword.TryLock(p, w, o.Slot) {
					t.Fatal("not locked")
				}
				lineword.Unlock(p, w.LockedBy(o.Slot))
			}
			j := lineword.MakeJournal(o.Journal)
			image := [lineBytes]byte(bytes.Repeat([]byte{7}, lineBytes))
			j.List(0, line)
			j.Image(0, &image)
			j.Locking(1)
			before := lineword.Load(p)
			if !lineword.TryLock(p, before, o.Slot) {
				t.Fatal("not locked")
			}
			if c.listed == lineword.JournalCommitted {
				j.Committed(1)
			}
			if c.wakes(d, r, o.Slot) {
				t.Error("the slot of a living owner was freed")
			}
			if w := lineword.Load(p); w != before.LockedBy(o.Slot) || r.line(line)[0] != 0 {
				t.Errorf("the living owner's line is at %s and begins with %d", w, r.line(line)[0])
			}
			if s, _ := j.State(); s != c.listed || r.owner(o.Slot).incarnation.Load() == 0 {
				t.Errorf("its journal is %s, and the slot has incarnation %d", s,
					r.owner(o.Slot).incarnation.Load())
			}
			lineword.Restore(p, before)
			j.Idle()
			check(t, o.Release())
			check(t, mr.Close())
		})
	}
}

// The same for an initiator's entry, which names the one line that it may have locked.
func TestRescuerThatSleptLeavesTheNextInitiatorAlone(t *testing.T) {
	const dead, line = 12345, 3
	n := newNode(t, New(Options{Dir: runDir(t)}), nodeOptions{})
	mr, err := n.pd.AllocMR(1<<16, verbs.AccessAll, verbs.MROptions{LineOwners: 1})
	check(t, err)
	d, _ := n.inside(t)
	r := d.mrs[mr.Remote().RKey%maxMR].Load()
	slot := d.claim(r, 1, r.count-publicOwners)
	e, p := r.owner(slot), r.word(line)
	before := lineword.Load(p)
	e.intent = line + 1
	if !lineword.TryLock(p, before, slot) {
		t.Fatal("not locked")
	}
	if d.freeDead(r, slot, dead) {
		t.Error("the entry of a living initiator was freed")
	}
	if w := lineword.Load(p); w != before.LockedBy(slot) {
		t.Errorf("its line is at %s", w)
	}
	lineword.Restore(p, before)
	e.free()
	check(t, mr.Close())
}
