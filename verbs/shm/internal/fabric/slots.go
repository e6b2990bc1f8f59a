//go:build linux && amd64

package fabric

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxProcs bounds the processes on one fabric.
const MaxProcs = 1024

// The slots file, little-endian:
//
//	 0  8  magic "drtmdfab"
//	 8  4  format version
//	12  4  MaxProcs
//	16 48  zero
//	64 32  slot 0: incarnation (8), pid (4, for messages), zero (20)
//	96 32  slot 1 ...
//
// The byte that slot N's owner locks is byte N of the file. That it lies in the header or in
// some entry does not matter: OFD locks are advisory and nobody locks for reading or writing.
const (
	slotsMagic     = "drtmdfab"
	slotsVersion   = 1
	slotsHeadBytes = 64
	slotBytes      = 32
	slotsFileBytes = slotsHeadBytes + MaxProcs*slotBytes
)

// ProcID names a process on the fabric for ever: slots are used again, incarnations are not.
type ProcID struct {
	Slot        uint16 // index into the slots table, < MaxProcs
	Incarnation uint64 // random, never 0
}

// String gives the slot and the incarnation in hexadecimal.
func (p ProcID) String() string { return fmt.Sprintf("p%d.%016x", p.Slot, p.Incarnation) }

// parseProcID reads back what String wrote and nothing else.
func parseProcID(s string) (ProcID, bool) {
	slot, inc, ok := strings.Cut(strings.TrimPrefix(s, "p"), ".")
	n, err1 := strconv.ParseUint(slot, 10, 16)
	i, err2 := strconv.ParseUint(inc, 16, 64)
	p := ProcID{Slot: uint16(n), Incarnation: i}
	return p, ok && err1 == nil && err2 == nil && p.String() == s
}

// slotTable is an open slots file. fd carries the lock of this membership's slot: it is never
// mapped and never sent.
type slotTable struct {
	fd   int
	self ProcID // zero until take
}

// openSlots opens the table, writing a new one if there is none or if a damaged one is unused.
// The caller holds the directory's lock.
func openSlots(d *runDir) (*slotTable, error) {
	fd, err := d.open(slotsName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, fail("open", d.join(slotsName), err, d.fileHint(slotsName, err))
	}
	t := &slotTable{fd: fd}
	head := newSlotsHead()
	got := make([]byte, slotsHeadBytes)
	var st unix.Stat_t
	n, err := unix.Pread(fd, got, 0)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		t.close()
		return nil, fail("read", d.join(slotsName), err, "")
	}
	if n == len(got) && bytes.Equal(got, head) && st.Size == slotsFileBytes {
		return t, nil
	}
	if t.anyLive() {
		t.close()
		return nil, fail("open", d.join(slotsName), ErrCorrupt,
			"end the processes that use it, perhaps of another version, or name another directory")
	}
	if err := t.format(head); err != nil {
		t.close()
		_ = unix.Unlinkat(d.fd, slotsName, 0) // half of a table is of use to nobody
		return nil, fail("write", d.join(slotsName), err, "df -h "+d.path)
	}
	return t, nil
}

func newSlotsHead() []byte {
	head := make([]byte, slotsHeadBytes)
	copy(head, slotsMagic)
	binary.LittleEndian.PutUint32(head[8:], slotsVersion)
	binary.LittleEndian.PutUint32(head[12:], MaxProcs)
	return head
}

// format writes an empty table, the header last: a half-written one is unused and written again.
func (t *slotTable) format(head []byte) error {
	if err := unix.Ftruncate(t.fd, 0); err != nil {
		return err
	}
	err := retry(func() error { return unix.Fallocate(t.fd, 0, 0, slotsFileBytes) })
	if err != nil {
		return err
	}
	_, err = unix.Pwrite(t.fd, head, 0)
	return err
}

// read gives the incarnation (0 if the slot is empty or unreadable) and pid of a slot.
func (t *slotTable) read(slot int) (incarnation uint64, pid int) {
	var b [slotBytes]byte
	n, err := unix.Pread(t.fd, b[:], slotsHeadBytes+int64(slot)*slotBytes)
	if err != nil || n != len(b) {
		return 0, 0
	}
	return binary.LittleEndian.Uint64(b[:]), int(int32(binary.LittleEndian.Uint32(b[8:])))
}

func (t *slotTable) write(slot int, incarnation uint64, pid int) error {
	var b [slotBytes]byte
	binary.LittleEndian.PutUint64(b[:], incarnation)
	binary.LittleEndian.PutUint32(b[8:], uint32(pid))
	_, err := unix.Pwrite(t.fd, b[:], slotsHeadBytes+int64(slot)*slotBytes)
	return err
}

// live reports whether somebody else's open file, or this membership, holds the slot's lock. When
// the kernel cannot say, the answer is yes: waiting is safe, overruling a live process is not.
func (t *slotTable) live(slot int) bool {
	if t.self.Incarnation != 0 && slot == int(t.self.Slot) {
		return true
	}
	locked, err := lockedByOther(t.fd, int64(slot))
	return locked || err != nil
}

func (t *slotTable) anyLive() bool {
	for slot := range MaxProcs {
		if t.live(slot) {
			return true
		}
	}
	return false
}

// alive looks at the lock first and at the incarnation second. Whoever takes a slot clears the
// old incarnation before locking, so a lock seen here together with p's incarnation is p's own,
// or was at the time of the first look.
func (t *slotTable) alive(p ProcID) bool {
	if p.Slot >= MaxProcs || p.Incarnation == 0 {
		return false
	}
	if p.Slot == t.self.Slot && t.self.Incarnation != 0 {
		return p == t.self
	}
	if !t.live(int(p.Slot)) {
		return false
	}
	incarnation, _ := t.read(int(p.Slot))
	return incarnation == p.Incarnation
}

// reclaim clears the entries of the dead. The caller holds the directory's lock.
func (t *slotTable) reclaim() {
	for slot := range MaxProcs {
		if incarnation, pid := t.read(slot); incarnation != 0 || pid != 0 {
			if !t.live(slot) {
				_ = t.write(slot, 0, 0) // take clears it again and reports its error
			}
		}
	}
}

// take claims a free slot for the incarnation but does not publish it yet. The caller holds the
// directory's lock.
func (t *slotTable) take(incarnation uint64) error {
	for slot := range MaxProcs {
		if t.live(slot) {
			continue
		}
		if err := t.write(slot, 0, 0); err != nil {
			return err
		}
		if err := setLock(t.fd, unix.F_WRLCK, int64(slot)); err != nil {
			continue // somebody locks without the directory's lock; not our slot
		}
		t.self = ProcID{Slot: uint16(slot), Incarnation: incarnation}
		return nil
	}
	return ErrFull
}

// publish makes the slot taken visible as alive.
func (t *slotTable) publish() error {
	return t.write(int(t.self.Slot), t.self.Incarnation, os.Getpid())
}

// leave empties the own entry; the lock goes with close.
func (t *slotTable) leave() {
	if t.self.Incarnation != 0 {
		_ = t.write(int(t.self.Slot), 0, 0) // the next to join clears it otherwise
	}
}

func (t *slotTable) close() { closeFD(t.fd) }
