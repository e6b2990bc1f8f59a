package sim

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// openOwned opens kept memory with room for two line owners.
func (s *side) openOwned() {
	s.t.Helper()
	var err error
	s.ctx, err = s.node.Open()
	must(s.t, err)
	s.pd, err = s.ctx.AllocPD()
	must(s.t, err)
	s.mr, err = s.pd.AllocMR(testBytes, verbs.AccessAll,
		verbs.MROptions{Keep: "owned", LineOwners: 2})
	must(s.t, err)
}

func TestKeptMemoryIsOpenedWithItsNumberOfLineOwners(t *testing.T) {
	w := newWorld(t, 1)
	n, err := w.AddNode(NodeConfig{Name: "a"})
	must(t, err)
	s := &side{t: t, w: w, node: n}
	s.openOwned()
	must(t, s.mr.Close())
	_, err = s.pd.AllocMR(testBytes, verbs.AccessAll, verbs.MROptions{Keep: "owned"})
	if !errors.Is(err, syscall.EINVAL) {
		t.Errorf("opened without line owners: %v", err)
	}
	s.openOwned()
}

func TestLineOwnersAreAsManyAsAskedFor(t *testing.T) {
	w := newWorld(t, 1)
	n, err := w.AddNode(NodeConfig{Name: "a"})
	must(t, err)
	s := &side{t: t, w: w, node: n}
	s.openOwned()
	a, err := s.mr.ClaimLineOwner()
	must(t, err)
	b, err := s.mr.ClaimLineOwner()
	must(t, err)
	if a.Slot == b.Slot || a.Slot == 0 || b.Slot == 0 {
		t.Errorf("slots %d and %d", a.Slot, b.Slot)
	}
	if _, err := s.mr.ClaimLineOwner(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a third owner of two: %v", err)
	}
	slot := a.Slot
	must(t, a.Release())
	must(t, a.Release())
	if c, err := s.mr.ClaimLineOwner(); err != nil || c.Slot != slot {
		t.Errorf("after a release: %+v, %v", c, err)
	}
}

// TestInterruptedCommitEndsAtTheRestart leaves a commit of two lines as a crash does, at each
// state of its journal.
func TestInterruptedCommitEndsAtTheRestart(t *testing.T) {
	const first, second = 3, 9
	for _, c := range []struct {
		name   string
		locked []int
		state  lineword.JournalState
		want   byte // in both lines
	}{
		{"idle", nil, lineword.JournalIdle, 1},
		{"listed", nil, lineword.JournalLocking, 1},
		{"first line locked", []int{first}, lineword.JournalLocking, 1},
		{"both locked", []int{first, second}, lineword.JournalLocking, 1},
		{"committed", []int{first, second}, lineword.JournalCommitted, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			n, err := w.AddNode(NodeConfig{Name: "a"})
			must(t, err)
			s := &side{t: t, w: w, node: n}
			s.openOwned()
			copy(s.mr.Bytes(), bytes.Repeat([]byte{1}, testBytes))
			o, err := s.mr.ClaimLineOwner()
			must(t, err)
			j := lineword.MakeJournal(o.Journal)
			image := [verbs.LineBytes]byte(bytes.Repeat([]byte{2}, verbs.LineBytes))
			for i, line := range []int{first, second} {
				j.List(i, uint64(line))
				j.Image(i, &image)
			}
			switch c.state {
			case lineword.JournalLocking:
				j.Locking(2)
			case lineword.JournalCommitted:
				j.Committed(2)
			}
			for _, line := range c.locked {
				if p := &s.mr.Lines()[line]; !lineword.TryLock(p, lineword.Load(p), o.Slot) {
					t.Fatal("not locked")
				}
			}
			n.Crash(true)
			n.Restart()
			s.openOwned()
			for _, line := range []int{first, second} {
				b := s.mr.Bytes()[line*verbs.LineBytes:][:verbs.LineBytes]
				if !bytes.Equal(b, bytes.Repeat([]byte{c.want}, verbs.LineBytes)) {
					t.Errorf("line %d is %v, want all %d", line, b, c.want)
				}
				if w := lineword.Load(&s.mr.Lines()[line]); w.Locked() {
					t.Errorf("line %d is at %s", line, w)
				}
			}
			if o, err := s.mr.ClaimLineOwner(); err != nil || o.Slot == 0 {
				t.Errorf("after the restart: %v", err)
			}
		})
	}
}
