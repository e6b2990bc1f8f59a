//go:build linux && amd64

package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"drtmd/verbs"
)

// memory is an MR of this device.
type memory struct {
	dev    *device
	region *region
	index  uint32
	id     uint64 // of the segment
	kept   bool
}

// AllocMR makes the memory, its line words and owner entries in one segment, and publishes it.
func (p *pd) AllocMR(size int, access verbs.Access, o verbs.MROptions) (verbs.DriverMR, error) {
	d := p.dev
	shape := shapeOf(uint64(size), o.LineOwners)
	seg, id, err := d.newSegment(int(shape.total), o.Keep, !o.NoHuge && size >= 2<<20)
	if err != nil {
		return nil, err
	}
	m := &memory{dev: d, id: id, kept: o.Keep != ""}
	fail := func(err error) (verbs.DriverMR, error) {
		d.fab.Unexport(id)
		return nil, errors.Join(err, seg.Close())
	}
	r, err := newRegion(seg, uint64(size))
	if err != nil {
		return fail(err)
	}
	r.base = uint64(uintptr(r.data))
	r.access, r.pd, r.mem = access, p.id, m
	r.private = !raceEnabled && !m.kept && o.LineOwners == 0 && access&^verbs.AccessLocalWrite == 0
	m.region = r
	if err := m.adopt(); err != nil {
		return fail(err)
	}
	if err := m.register(); err != nil {
		return fail(err)
	}
	return m, nil
}

var errNotMR = errors.New("the kept memory is not an MR of this size and version")

// adopt gives the segment its head. Kept memory that was an MR before loses the owners that are
// dead, and their locks; what a live one holds stays its own.
func (m *memory) adopt() error {
	r := m.region
	h := r.head
	if m.kept && h.magic != 0 {
		if h.magic != mrMagic || h.size != r.size || int(h.owners) != r.count ||
			h.lined != uint64(r.lined) {
			return errNotMR
		}
		h.registered.Store(0)
		for i := range r.count {
			m.dev.freeIfDead(r, uint16(i+1))
		}
		for i := range r.lined {
			m.dev.endLineOwner(r, uint16(r.count+i+1))
		}
		return nil
	}
	h.size, h.owners, h.lined = r.size, uint32(r.count), uint64(r.lined)
	h.magic = mrMagic
	return nil
}

// register gives the MR its key and shows it to peers.
func (m *memory) register() error {
	d, r := m.dev, m.region
	d.mu.Lock()
	defer d.mu.Unlock()
	switch n := len(d.mrFree); {
	case n > 0:
		m.index, d.mrFree = d.mrFree[0], d.mrFree[1:]
	case len(d.mrGen) < maxMR:
		m.index = uint32(len(d.mrGen))
		d.mrGen = append(d.mrGen, 0)
	default:
		return &verbs.Error{Op: "ibv_reg_mr", Errno: syscall.ENOMEM,
			Detail: fmt.Sprintf("a context has at most %d MRs", maxMR)}
	}
	d.mrGen[m.index]++
	if d.mrGen[m.index]<<mrBits == 0 {
		d.mrGen[m.index] = 1
	}
	r.key = d.mrGen[m.index]<<mrBits | m.index
	r.nonce = randomNonce()
	r.head.registered.Store(r.nonce)
	e := &d.ctl.mrs[m.index]
	e.access.Store(uint32(r.access))
	e.base.Store(r.base)
	e.length.Store(r.size)
	e.segment.Store(m.id)
	e.nonce.Store(r.nonce)
	e.pd.Store(r.pd)
	e.key.Store(r.key)
	d.mrs[m.index].Store(r)
	return nil
}

func randomNonce() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails (crypto/rand)
		if n := binary.NativeEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

func (m *memory) Bytes() []byte {
	return m.region.seg.Bytes()[:m.region.size:m.region.size]
}

func (m *memory) LKey() uint32 { return m.region.key }
func (m *memory) RKey() uint32 { return m.region.key }

func (m *memory) Lines() []uint64 {
	return unsafe.Slice((*uint64)(m.region.words), m.region.lineCount())
}

const (
	// leaveWait is how long Close waits for lanes that were inside; a line's copy takes far less.
	// Longer stays only one that has lost the processor.
	leaveWait = 100 * time.Millisecond
	leavePoll = 20 * time.Microsecond
	leaveLate = time.Millisecond // between two looks after leaveWait
)

// Close deregisters: requests that run later find the MR gone. The memory stays mapped for as
// long as the QP that is at work on it now, which may be in the ticker's or another goroutine's
// hands. Mappings that peers have stay theirs.
func (m *memory) Close() error {
	d, r := m.dev, m.region
	d.mu.Lock()
	d.ctl.mrs[m.index].key.Store(0)
	r.head.registered.Store(0)
	d.mrs[m.index].Store(nil) // a full fence: see lane.enter
	fenceAll()
	d.mrFree = append(d.mrFree, m.index)
	inside := d.visitsLocked()
	d.mu.Unlock()
	d.fab.Unexport(m.id)
	for deadline := time.Now().Add(leaveWait); !allOver(inside); time.Sleep(leavePoll) {
		if time.Now().After(deadline) {
			d.wg.Go(func() {
				for !allOver(inside) { // at the latest when their QPs are closed
					time.Sleep(leaveLate)
				}
				_ = r.close() // unmapping what we mapped does not fail
			})
			return nil
		}
	}
	return r.close()
}

func allOver(vs []visit) bool {
	for _, v := range vs {
		if !v.over() {
			return false
		}
	}
	return true
}
