//go:build linux && amd64

package fabric

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// closeWait bounds how long Close waits for handlers that are still running.
const closeWait = 2 * time.Second

// errHandlerRuns is Close's report of a handler that did not return within closeWait.
var errHandlerRuns = errors.New("a call handler did not return")

// Options says which fabric to join.
type Options struct {
	// Dir is the run directory, made with mode 0700 if missing (its parent must exist); empty
	// means DefaultDir. An existing one must be private to this user (0700).
	Dir string
	// HugeTLB allows memory from the preallocated hugetlb pool, made here or imported. Off by
	// default: a peer that punches a hole into it while the pool is empty raises SIGBUS here.
	HugeTLB bool

	// Tests wait less; 0 means the constants of the same names.
	lockWait, closeWait time.Duration
}

// Fabric is one membership of a process. Several may be open in one process, also on the same
// directory; each has a slot of its own.
type Fabric struct {
	hugeTLB bool
	wait    time.Duration // bound on Close's wait for handlers
	self    ProcID
	dir     *runDir
	done    chan struct{} // closed by Close
	wg      sync.WaitGroup
	lis     *net.UnixListener

	// dirUse is held shared while dir's descriptor is in use and exclusively by Close to end that.
	dirUse sync.RWMutex

	mu       sync.RWMutex // guards what follows; slots' descriptor is used under it
	closed   bool
	slots    *slotTable
	exports  map[uint64]*Segment
	events   map[uint64]*EventFD
	handlers [256]Handler
	conns    map[*conn]struct{} // every open connection, both directions
	idle     map[ProcID][]*conn // of conns: ours, between two requests
	watches  map[ProcID]chan struct{}
	lastID   uint64 // last Segment.ID given out
	lastSeq  uint64 // last request number given out
}

// Open joins the fabric as a new process and reclaims the unnamed remains of killed ones. The
// error wraps ErrUnsafeDir, ErrBusy, ErrFull, ErrCorrupt or an errno.
func Open(o Options) (*Fabric, error) {
	dir, err := openRunDir(o.Dir, cmp.Or(o.lockWait, lockWait))
	if err != nil {
		return nil, err
	}
	f := &Fabric{
		hugeTLB: o.HugeTLB,
		wait:    cmp.Or(o.closeWait, closeWait),
		dir:     dir,
		done:    make(chan struct{}),
		exports: make(map[uint64]*Segment),
		events:  make(map[uint64]*EventFD),
		conns:   make(map[*conn]struct{}),
		idle:    make(map[ProcID][]*conn),
		watches: make(map[ProcID]chan struct{}),
	}
	if err := f.joinLocked(); err != nil {
		if f.leaveLocked() || dir.memberless() {
			dir.removeIfEmpty()
		}
		dir.unlock()
		return nil, errors.Join(err, dir.close())
	}
	dir.unlock()
	f.wg.Go(f.acceptLoop)
	return f, nil
}

// joinLocked reclaims, takes a slot and listens. The caller holds the directory's lock.
func (f *Fabric) joinLocked() (err error) {
	if f.slots, err = openSlots(f.dir); err != nil {
		return err
	}
	f.slots.reclaim()
	f.dir.reclaim(f.slots.alive)
	if err := f.slots.take(newIncarnation()); errors.Is(err, ErrFull) {
		return fail("join", f.dir.path, err, fmt.Sprintf("end some of the %d processes on it, or "+
			"name another directory", MaxProcs))
	} else if err != nil {
		return fail("join", f.dir.path, err, "df -h "+f.dir.path)
	}
	f.self = f.slots.self
	if f.lis, err = listen(f.dir, f.self.String()); err != nil {
		return fail("listen on", f.dir.join(f.self.String()), err, "")
	}
	if err := f.slots.publish(); err != nil {
		return fail("join", f.dir.path, err, "df -h "+f.dir.path)
	}
	return nil
}

// newIncarnation draws a random number, never 0.
func newIncarnation() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never returns an error
		if n := binary.LittleEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// Close leaves the fabric: connections end, exports and watches with them, the slot is freed,
// and the run directory is removed if nothing is left in it. Segments and EventFDs live on until
// their own Close, but to peers this process is dead from now on: stop every access to shared
// memory first. Close waits up to 2 s for handlers that are running. Idempotent.
func (f *Fabric) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	close(f.done)
	conns, exports := f.conns, f.exports
	f.conns, f.idle, f.exports, f.events = nil, nil, nil, nil
	f.mu.Unlock()

	_ = f.lis.Close()
	for c := range conns {
		c.close()
	}
	err := f.waitForGoroutines()
	for _, s := range exports {
		err = errors.Join(err, s.Close())
	}
	f.dirUse.Lock()
	defer f.dirUse.Unlock()
	lockErr := f.dir.lock()
	f.mu.Lock()
	last := f.leaveLocked() && lockErr == nil
	f.mu.Unlock()
	if last {
		f.dir.removeIfEmpty()
	}
	if lockErr == nil {
		f.dir.unlock()
	}
	return errors.Join(err, lockErr, f.dir.close())
}

// holdDir keeps the directory's descriptor open until release is called.
func (f *Fabric) holdDir() (release func(), err error) {
	f.dirUse.RLock()
	if f.isClosed() {
		f.dirUse.RUnlock()
		return nil, ErrClosed
	}
	return f.dirUse.RUnlock, nil
}

func (f *Fabric) isClosed() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.closed
}

func (f *Fabric) waitForGoroutines() error {
	over := make(chan struct{})
	go func() { f.wg.Wait(); close(over) }()
	t := time.NewTimer(f.wait)
	defer t.Stop()
	select {
	case <-over:
		return nil
	case <-t.C:
		return fail("close fabric", f.dir.path, errHandlerRuns, "handlers must return by themselves")
	}
}

// leaveLocked gives the slot back and reports whether no other process is left.
func (f *Fabric) leaveLocked() (last bool) {
	if f.lis != nil {
		_ = f.lis.Close()
		_ = unix.Unlinkat(f.dir.fd, f.self.String(), 0)
	}
	if f.slots == nil {
		return false
	}
	f.slots.leave()
	_ = setLock(f.slots.fd, unix.F_UNLCK, int64(f.self.Slot))
	f.slots.self = ProcID{}
	last = !f.slots.anyLive()
	f.slots.close()
	return last
}

// Self names this membership.
func (f *Fabric) Self() ProcID { return f.self }

// Dir is the absolute path of the run directory.
func (f *Fabric) Dir() string { return f.dir.path }

// Alive reports whether p still holds its slot's lock, running or stopped. It costs two system
// calls. After Close it is false for everybody.
func (f *Fabric) Alive(p ProcID) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return !f.closed && f.slots.alive(p)
}

// Peers lists the live members by slot, this one included.
func (f *Fabric) Peers() []ProcID {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return nil
	}
	var all []ProcID
	for slot := range MaxProcs {
		incarnation, _ := f.slots.read(slot)
		p := ProcID{Slot: uint16(slot), Incarnation: incarnation}
		if f.slots.alive(p) {
			all = append(all, p)
		}
	}
	return all
}

// PID is the process id of p as p itself sees it, for messages only; 0 if p is not alive.
func (f *Fabric) PID(p ProcID) int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed || !f.slots.alive(p) {
		return 0
	}
	_, pid := f.slots.read(int(p.Slot))
	return pid
}
