//go:build linux && amd64

package shm

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/shm/internal/fabric"
)

const (
	pageBytes = 4096
	mrMagic   = 0x3130726d6d687364 // "dshmmr01"
)

// region is an MR as an initiator sees it: the own one of this device, or a peer's that was
// imported. It holds a reference to the segment: of an own MR until that is closed and nobody is
// at work on it, of a peer's until the last view of it is gone. Immutable but for what follows
// mem.
type region struct {
	key    uint32
	pd     uint32
	access verbs.Access
	base   uint64 // owner's address of the first byte
	size   uint64 // bytes
	nonce  uint64
	data   unsafe.Pointer
	words  unsafe.Pointer
	head   *mrHead
	owners unsafe.Pointer
	// journals are those of the line owners.
	journals unsafe.Pointer
	count    int // owner entries of lanes; those of line owners follow
	lined    int // line owners, each with an entry and a journal
	seg      *fabric.Segment
	mem      *memory // the MR itself if it is this process's; nil otherwise
	// private: it is an own MR that ends with this process, without remote access rights or line owners. Nobody copies
	// its lines but this process, which does so without their words: own lanes store there without locks.
	private bool

	refs int // views of an imported one; guarded by peer.mu

	users atomic.Int64 // whoever has to close it, and calls of use without done

	mu     sync.Mutex
	closed bool // guarded by mu
}

// close gives the segment back, once nobody uses it. Owner entries are not touched any more after
// that.
func (r *region) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	return r.done()
}

// use keeps the memory mapped until done, for those who are not lanes; false if it is gone.
func (r *region) use() bool {
	for {
		n := r.users.Load()
		if n == 0 {
			return false
		}
		if r.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (r *region) done() error {
	if r.users.Add(-1) == 0 {
		return r.seg.Close()
	}
	return nil
}

// regionShape is where the parts of an MR's segment lie, in bytes.
type regionShape struct {
	words, head, owners, journals, total uint64
	count                                int
}

func shapeOf(size uint64, lined int) regionShape {
	up := func(n uint64) uint64 { return (n + pageBytes - 1) &^ (pageBytes - 1) }
	data := up(size)
	s := regionShape{words: data, count: 32}
	s.head = s.words + up(data/lineBytes*8)
	s.owners = s.head + uint64(unsafe.Sizeof(mrHead{}))
	switch {
	case size >= 16<<20:
		s.count = 1024
	case size >= 64<<10:
		s.count = 128
	}
	s.journals = s.owners + uint64(s.count+lined)*uint64(unsafe.Sizeof(ownerEntry{}))
	s.total = up(s.journals + uint64(lined)*journalBytes)
	return s
}

var errBadMR = errors.New("peer's MR does not have the announced shape")

// newRegion lays a region over a segment. Only its size is trusted, which tells the number of
// line owners too.
func newRegion(seg *fabric.Segment, size uint64) (*region, error) {
	if size == 0 || size > maxMRBytes {
		return nil, errBadMR
	}
	lined := 0
	s := shapeOf(size, 0)
	for s.total != uint64(seg.Size()) {
		if lined++; lined > verbs.MaxLineOwners {
			return nil, errBadMR
		}
		s = shapeOf(size, lined)
	}
	p := unsafe.Pointer(unsafe.SliceData(seg.Bytes()))
	r := &region{size: size, data: p, words: unsafe.Add(p, s.words),
		head: (*mrHead)(unsafe.Add(p, s.head)), owners: unsafe.Add(p, s.owners), count: s.count,
		lined: lined, journals: unsafe.Add(p, s.journals), seg: seg}
	r.users.Store(1)
	return r, nil
}

// live reports whether the MR is still registered as it was when the region was made.
func (r *region) live() bool { return r.head.registered.Load() == r.nonce }

func (r *region) word(line uint64) *uint64 { return (*uint64)(unsafe.Add(r.words, line*8)) }

func (r *region) line(line uint64) *[lineBytes]byte {
	return (*[lineBytes]byte)(unsafe.Add(r.data, line*lineBytes))
}

func (r *region) lineCount() uint64 { return (r.size + lineBytes - 1) / lineBytes }

func (r *region) at(offset uint64) unsafe.Pointer { return unsafe.Add(r.data, offset) }

func (r *region) owner(slot uint16) *ownerEntry {
	return (*ownerEntry)(unsafe.Add(r.owners, uintptr(slot-1)*unsafe.Sizeof(ownerEntry{})))
}

// slots is the number of owner entries, of which those from count+1 on have journals.
func (r *region) slots() int { return r.count + r.lined }

// journalWords gives the journal of a line owner.
func (r *region) journalWords(slot uint16) []uint64 {
	p := unsafe.Add(r.journals, (int(slot)-1-r.count)*journalBytes)
	return unsafe.Slice((*uint64)(p), journalBytes/8)
}

// offset turns an owner's address into an offset, if n bytes from there lie inside.
func (r *region) offset(addr, n uint64) (uint64, bool) {
	off := addr - r.base
	return off, off <= r.size && n <= r.size-off
}
