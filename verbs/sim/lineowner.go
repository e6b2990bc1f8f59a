package sim

import (
	"fmt"
	"syscall"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

var _ verbs.DriverLineOwners = (*mr)(nil)

// lineOwner is what a worker claims to lock lines of a memory. Its index plus 1 is the slot.
type lineOwner struct {
	taken   bool
	journal []uint64
}

// setOwners makes room for n line owners in memory that nobody has open, after undoing or
// finishing what a crash has interrupted.
func (m *memory) setOwners(n int) {
	m.recover()
	m.owners = make([]lineOwner, n)
	for i := range m.owners {
		m.owners[i].journal = make([]uint64, lineword.JournalWords(lineword.JournalLines))
	}
}

// recover unlocks every line that the owners left locked; those of a commit that had taken place
// get their new contents.
func (m *memory) recover() {
	for i := range m.owners {
		slot := uint16(i + 1)
		j := lineword.MakeJournal(m.owners[i].journal)
		state, n := j.State()
		for k := range n {
			line := j.Line(k)
			if line >= uint64(len(m.lines)) {
				continue
			}
			w := lineword.Word(m.lines[line])
			if !w.Locked() || w.Owner() != slot {
				continue
			}
			if state == lineword.JournalCommitted {
				j.Read(k, (*[verbs.LineBytes]byte)(
					unsafe.Pointer(&m.bytes[line*verbs.LineBytes])))
			}
			m.lines[line] = uint64(w.Next())
		}
		if len(m.owners[i].journal) > 0 {
			j.Idle()
		}
	}
}

// ClaimLineOwner implements verbs.DriverLineOwners.
func (m *mr) ClaimLineOwner() (uint16, []uint64, error) {
	if m.closed {
		return 0, nil, verbs.ErrClosed
	}
	for i := range m.mem.owners {
		if o := &m.mem.owners[i]; !o.taken {
			o.taken = true
			return uint16(i + 1), o.journal, nil
		}
	}
	return 0, nil, &verbs.Error{Op: "claim line owner", Errno: syscall.ENOSPC,
		Detail: fmt.Sprintf("all line owners of the MR are taken: %d", len(m.mem.owners)),
		Hint:   "raise MROptions.LineOwners"}
}

// ReleaseLineOwner implements verbs.DriverLineOwners.
func (m *mr) ReleaseLineOwner(slot uint16) error {
	if !m.closed { // else the memory may be another MR's by now
		m.mem.owners[slot-1].taken = false
	}
	return nil
}

// RescueLine implements verbs.DriverLineOwners. Owners of a node die with the node, and are
// recovered when the memory is opened again.
func (m *mr) RescueLine(int) {}
