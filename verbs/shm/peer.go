//go:build linux && amd64

package shm

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/shm/internal/fabric"
)

// peer is another member of the fabric as this device sees it (or this device itself): its
// control segment and what was imported of it. All of its memory is untrusted.
//
// RC QPs, address handles, the targets that UD QPs remember and imports under way are its users:
// only they may touch its memory, which is given back once it is dead and has none.
type peer struct {
	dev   *device
	id    fabric.ProcID
	gid   verbs.GID
	local *device // in this process; nil otherwise
	ctl   *control
	seg   *fabric.Segment
	dead  atomic.Bool
	users atomic.Int64 // from 0 it grows under device.mu only

	mu      sync.Mutex // guards what follows
	closed  bool
	regions map[uint32]*region         // MRs that some view uses, by key
	areas   map[uint64]*fabric.Segment // imported arenas by id
	fetches map[fetchKey]*fetch        // imports under way or failed
	events  map[uint32]*fabric.EventFD // imported events of channels
	sender  uint16                     // own index in ctl.senders; 0 = not claimed yet
}

// fetchKey names what is being imported: an MR by its key, or an arena by its id.
type fetchKey struct {
	key  uint32
	area uint64
}

// fetch is an import that runs on a goroutine, because it waits for the peer's process.
type fetch struct {
	done chan struct{}
	out  outcome // once done: success, or how the operation ends; waitFetch: try again
}

func (d *device) peerByGID(g verbs.GID) (*peer, error) {
	id, err := procOf(g)
	if err != nil {
		return nil, err
	}
	return d.peerByID(id)
}

// peerByID finds or makes the view of a member, for a user more: the caller lets go of it. It
// waits for the other process, at most fabric.DefaultTimeout.
func (d *device) peerByID(id fabric.ProcID) (*peer, error) {
	d.mu.Lock()
	p := d.peers[id]
	closed := d.closed
	if p != nil && !p.dead.Load() {
		p.users.Add(1)
		d.mu.Unlock()
		return p, nil
	}
	d.mu.Unlock()
	if closed {
		return nil, verbs.ErrClosed
	}
	if p != nil {
		return nil, unreachable(id, fabric.ErrPeerDead)
	}
	p = &peer{dev: d, id: id, gid: gidOf(id), local: d.provider.inProcess(id),
		regions: map[uint32]*region{}, areas: map[uint64]*fabric.Segment{},
		fetches: map[fetchKey]*fetch{}, events: map[uint32]*fabric.EventFD{}}
	var err error
	if p.seg, err = p.importSegment(controlID); err != nil {
		return nil, unreachable(id, err)
	}
	if err := p.checkControl(); err != nil {
		return nil, errors.Join(unreachable(id, err), p.seg.Close())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.peers[id]; q != nil || d.closed {
		_ = p.seg.Close() // another goroutine was faster
		if q == nil {
			return nil, verbs.ErrClosed
		}
		q.users.Add(1)
		return q, nil
	}
	if p.local != nil && d.provider.inProcess(id) != p.local {
		_ = p.seg.Close() // it closed meanwhile: Provider.remove has told this device before
		return nil, unreachable(id, fabric.ErrPeerDead)
	}
	p.users.Add(1)
	d.peers[id] = p
	if p.local == nil {
		d.wg.Go(p.watch)
	}
	return p, nil
}

func unreachable(id fabric.ProcID, err error) error {
	e := &verbs.Error{Op: "connect to process", Errno: syscall.EHOSTUNREACH, Detail: id.String(),
		Err: err, Hint: "the peer's process must be alive and on the same run directory; " +
			"exchange endpoints anew"}
	if raceEnabled {
		e.Hint = "builds with the race detector reach contexts of the same provider only"
	}
	return e
}

var errBadControl = errors.New("the peer's control segment is of another version or damaged")

func (p *peer) checkControl() error {
	if uintptr(p.seg.Size()) != unsafe.Sizeof(control{}) {
		return errBadControl
	}
	p.ctl = (*control)(unsafe.Pointer(unsafe.SliceData(p.seg.Bytes())))
	if p.ctl.magic != layoutMagic || p.ctl.version != layoutVersion ||
		p.ctl.incarnation != p.id.Incarnation {
		return errBadControl
	}
	return nil
}

// importSegment maps a segment of the peer; of one in this process without a system call.
func (p *peer) importSegment(id uint64) (*fabric.Segment, error) {
	if p.local != nil {
		return p.local.fab.Import(p.id, id)
	}
	return p.dev.fab.Import(p.id, id)
}

// letGo ends a use.
func (p *peer) letGo() {
	if p.users.Add(-1) == 0 && p.dead.Load() {
		p.retire()
	}
}

// retire forgets a dead peer that has no user, and gives back what was imported of it.
func (p *peer) retire() {
	d := p.dev
	d.mu.Lock()
	mine := p.users.Load() == 0 && d.peers[p.id] == p
	if mine {
		delete(d.peers, p.id)
	}
	d.mu.Unlock()
	if mine {
		_ = p.close() // unmapping what we mapped does not fail
	}
}

// watch waits for the end of a peer in another process.
func (p *peer) watch() {
	select {
	case <-p.dev.fab.Watch(p.id):
		p.die()
	case <-p.dev.done:
	}
}

// die marks the peer as dead; without users it is given back at once.
func (p *peer) die() {
	p.dead.Store(true)
	p.dev.peerDied(p)
	if p.users.Load() == 0 {
		p.retire()
	}
}

func (p *peer) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, r := range p.regions {
		errs = append(errs, r.close())
	}
	for _, s := range p.areas {
		errs = append(errs, s.Close())
	}
	for _, e := range p.events {
		errs = append(errs, e.Close())
	}
	if p.sender != 0 {
		e := &p.ctl.senders[p.sender]
		e.slot.Store(0)
		e.incarnation.Store(0)
	}
	return errors.Join(append(errs, p.seg.Close())...)
}

// remoteView gives the lane's view of the peer's MR of a key.
func (l *lane) remoteView(p *peer, key uint32) (*view, outcome) {
	v := &l.remote[key%remoteViews]
	if v.key == key && v.r != nil && v.r.live() {
		return v, success
	}
	r, out := p.acquire(key)
	if out != success {
		return nil, out
	}
	if v.r != nil {
		v.drop()
		p.release(v.r)
	}
	*v = view{r: r, key: key}
	return v, success
}

// acquire finds the peer's MR of a key, importing it if it must, and counts a view of it.
func (p *peer) acquire(key uint32) (*region, outcome) {
	if r := p.counted(key); r != nil {
		return r, success
	}
	e := &p.ctl.mrs[key&(maxMR-1)]
	if key == 0 || e.key.Load() != key {
		return nil, outcome(verbs.WCRemAccessErr)
	}
	out := p.fetch(fetchKey{key: key}, func() outcome { return p.importRegion(key, e) })
	if out != success {
		return nil, out
	}
	if r := p.counted(key); r != nil {
		return r, success
	}
	return nil, outcome(verbs.WCRemAccessErr)
}

// counted gives a live imported MR with one more view; nil if there is none.
func (p *peer) counted(key uint32) *region {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.regions[key]
	if r == nil || !r.live() {
		return nil
	}
	r.refs++
	return r
}

// release ends a view. One that is registered stays imported, for lanes that use more MRs than
// they have views, until the next QP to the peer is closed.
func (p *peer) release(r *region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.refs--; r.refs > 0 || p.closed || p.regions[r.key] == r && r.live() {
		return
	}
	if p.regions[r.key] == r {
		delete(p.regions, r.key)
	}
	_ = r.close()
}

// sweepLocked unmaps the MRs that no view uses; those that are still registered only if all is
// set. Caller holds mu.
func (p *peer) sweepLocked(all bool) {
	for key, r := range p.regions {
		if r.refs == 0 && (all || !r.live()) {
			delete(p.regions, key)
			_ = r.close()
		}
	}
}

// fetch runs an import: at once for a peer in this process, else on a goroutine of its own, for
// which it waits a little; then waitFetch.
func (p *peer) fetch(k fetchKey, run func() outcome) outcome {
	if p.local != nil {
		return run()
	}
	f := p.startFetch(k, run)
	if f == nil {
		return retryExceeded(VendorDead)
	}
	// Nearly always the answer is there within a fraction of a millisecond.
	patience := time.NewTimer(fetchPatience)
	defer patience.Stop()
	select {
	case <-f.done:
	case <-patience.C:
		return waitFetch
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fetches[k] == f {
		delete(p.fetches, k)
	}
	return f.out
}

// fetchLimit bounds the first use of a peer's memory, where the QP's retry time is shorter. The
// peer's process has to run for it, once, as no NIC needs one: a QP with a retry time of some
// milliseconds must not fail because that process does not get a CPU at once. Death ends it early.
const fetchLimit = 2 * fabric.DefaultTimeout

// fetchPatience is how long a post waits for an import before it becomes pending.
const fetchPatience = 20 * time.Millisecond

// startFetch starts an import or finds the one under way; nil if the peer is gone.
func (p *peer) startFetch(k fetchKey, run func() outcome) *fetch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.dead.Load() {
		return nil
	}
	if f := p.fetches[k]; f != nil {
		return f
	}
	f := &fetch{done: make(chan struct{})}
	p.fetches[k] = f
	p.users.Add(1) // the caller is one already
	p.dev.wg.Go(func() {
		defer p.letGo()
		f.out = run()
		close(f.done)
	})
	return f
}

// fetchOutcome is how an operation goes on whose memory could not be imported. A live peer that
// did not answer or hung up is asked again; fetchLimit decides.
func fetchOutcome(err error) outcome {
	switch {
	case errors.Is(err, fabric.ErrPeerDead), errors.Is(err, fabric.ErrClosed):
		return retryExceeded(VendorDead)
	case errors.Is(err, fabric.ErrNoSegment), errors.Is(err, fabric.ErrBadSegment),
		errors.Is(err, errBadMR):
		return outcome(verbs.WCRemAccessErr)
	}
	return waitFetch
}

// importRegion maps an MR and enters it into the table. Nothing that the entry says is trusted
// but to agree with the segment.
func (p *peer) importRegion(key uint32, e *mrEntry) outcome {
	size, nonce := e.length.Load(), e.nonce.Load()
	seg, err := p.importSegment(e.segment.Load())
	if err != nil {
		return fetchOutcome(err)
	}
	r, err := newRegion(seg, size)
	if err != nil {
		_ = seg.Close()
		return fetchOutcome(err)
	}
	r.key, r.pd, r.nonce = key, e.pd.Load(), nonce
	r.access, r.base = verbs.Access(e.access.Load()), e.base.Load()
	if p.local != nil {
		if own := p.local.mr(key); own != nil {
			r.mem = own.mem
		}
	}
	if e.key.Load() != key {
		_ = seg.Close()
		return outcome(verbs.WCRemAccessErr)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweepLocked(false)
	if old := p.regions[key]; old != nil && old.refs == 0 {
		_ = old.close() // two lanes imported it at the same time
	}
	p.regions[key] = r
	return success
}

// area finds bytes of an arena of the peer.
func (p *peer) area(id, offset, n uint64) (unsafe.Pointer, outcome) {
	p.mu.Lock()
	s := p.areas[id]
	p.mu.Unlock()
	if s == nil {
		out := p.fetch(fetchKey{area: id}, func() outcome {
			seg, err := p.importSegment(id)
			if err != nil {
				return fetchOutcome(err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.areas[id] != nil || p.closed {
				_ = seg.Close()
			} else {
				p.areas[id] = seg
			}
			return success
		})
		if out != success {
			return nil, out
		}
		p.mu.Lock()
		s = p.areas[id]
		p.mu.Unlock()
		if s == nil {
			return nil, retryExceeded(VendorDead)
		}
	}
	if size := uint64(s.Size()); offset%lineBytes != 0 || offset > size || n > size-offset {
		return nil, retryExceeded(VendorGone)
	}
	return unsafe.Add(unsafe.Pointer(unsafe.SliceData(s.Bytes())), offset), success
}

// notify tells the peer's receive CQ that a message came: the bit of the QP's group, and an
// event if the CQ is armed for it. The message was published with a full fence.
func (p *peer) notify(cqIndex, group uint32, solicited bool) {
	e := &p.ctl.cqs[cqIndex%maxCQ]
	if bit := uint64(1) << (group % 64); e.ready.Load()&bit == 0 {
		e.ready.Or(bit)
	}
	if a := e.armed.Load(); a == armAny || a == armSolicited && solicited {
		if e.armed.CompareAndSwap(a, armFired) {
			p.signal(e.channel.Load())
		}
	}
}

// signal makes the event of one of the peer's channels.
func (p *peer) signal(id uint32) {
	if p.local != nil {
		p.local.signal(id)
		return
	}
	p.mu.Lock()
	e := p.events[id]
	closed := p.closed
	p.mu.Unlock()
	switch {
	case e != nil:
		_ = e.Signal() // a peer that broke its own event sleeps on
	case !closed && !p.dead.Load():
		p.dev.wg.Go(func() { p.importEvent(id) })
	}
}

// importEvent fetches the event of a channel and makes it; the first time only.
func (p *peer) importEvent(id uint32) {
	e, err := p.dev.fab.ImportFD(p.id, uint64(id))
	if err != nil {
		return // the peer is gone or closed the channel
	}
	_ = e.Signal()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.events[id] != nil {
		_ = e.Close()
		return
	}
	p.events[id] = e
}

// senderSlot is the own index among those who send datagrams to the peer; 0 if its table is
// full.
func (p *peer) senderSlot() uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 1; p.sender == 0 && i < len(p.ctl.senders); i++ {
		e := &p.ctl.senders[i]
		if e.incarnation.Load() == 0 &&
			e.incarnation.CompareAndSwap(0, p.dev.self.Incarnation) {
			e.slot.Store(uint64(p.dev.self.Slot) + 1)
			p.sender = uint16(i)
		}
	}
	return p.sender
}
