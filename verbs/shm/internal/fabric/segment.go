//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxSegmentBytes bounds one segment: half the user address space of x86-64 with four-level
	// page tables.
	maxSegmentBytes = 1 << 46
	lineBytes       = 64
)

// SegmentOptions describes memory to make.
type SegmentOptions struct {
	// Size in bytes, at least 1. Kept memory has the size that it was first made with.
	Size int
	// Keep names memory that outlives the process: 1 to 128 letters, digits, '.', '_' and '-',
	// not starting with '.'. Empty: anonymous.
	Keep string
	// Huge asks for huge pages: from the hugetlb pool if Options.HugeTLB allows it and enough are
	// free, otherwise transparent ones where the kernel grants them. Never an error.
	Huge bool
	// Heap takes Go heap memory, 64-byte aligned, for the race detector to see. Only this Fabric
	// can import it.
	Heap bool
}

// Segment is one reference to shareable memory.
type Segment struct {
	m      *mapping
	id     uint64
	closed atomic.Bool
}

// mapping is memory with the descriptors that belong to it, shared by the Segments of one
// process.
type mapping struct {
	refs    atomic.Int64
	data    []byte // what users see
	mem     []byte // what was mapped, a multiple of the page size; nil for heap memory
	fd      int    // sent to peers; -1 for heap and imported memory
	lockFD  int    // holds the lock of kept memory, never mapped or sent; -1 for the rest
	hugeTLB bool
	kept    string
}

// NewSegment makes memory: zeroed, except that kept memory which exists already has the content
// it was left with. Every page is allocated when it returns. The error wraps ErrSize, ErrNoMemory,
// ErrClosed, an errno, or for kept memory ErrBadName, ErrKeptBusy, ErrKeptSize or ErrUnsafeFile.
func (f *Fabric) NewSegment(o SegmentOptions) (*Segment, error) {
	const op = "make segment"
	if o.Size <= 0 || o.Size > maxSegmentBytes {
		err := fmt.Errorf("%w: %d bytes", ErrSize, o.Size)
		return nil, fail(op, o.Keep, err, fmt.Sprintf("1 to %d bytes", int64(maxSegmentBytes)))
	}
	release, err := f.holdDir()
	if err != nil {
		return nil, fail(op, o.Keep, err, "")
	}
	defer release()
	f.mu.Lock()
	f.lastID++
	id := f.lastID
	f.mu.Unlock()
	var m *mapping
	switch {
	case o.Keep != "" && o.Heap:
		err = fmt.Errorf("%w: heap memory cannot be kept", unix.EINVAL)
	case o.Keep != "":
		m, err = f.dir.makeKept(o.Keep, o.Size)
	case o.Heap:
		m = makeHeap(o.Size)
	default:
		m, err = makeAnonymous(o.Size, o.Huge, o.Huge && f.hugeTLB)
	}
	if err != nil {
		return nil, fail(op, o.Keep, err, segmentHint(err, o))
	}
	m.refs.Store(1)
	return &Segment{m: m, id: id}, nil
}

// Bytes is the memory: Size bytes, at least 64-byte aligned. After Close of this Segment it must
// not be touched, and Bytes gives nil.
func (s *Segment) Bytes() []byte {
	if s.closed.Load() {
		return nil
	}
	return s.m.data
}

// Size is the length in bytes.
func (s *Segment) Size() int { return len(s.m.data) }

// ID is unique among the segments that its Fabric made; an imported one has the id that it was
// fetched by.
func (s *Segment) ID() uint64 { return s.id }

// Kept is the name of kept memory, empty for anonymous memory.
func (s *Segment) Kept() string { return s.m.kept }

// Close gives the reference back; with the last one in this process the memory is unmapped, and
// kept memory may be opened again. Exports hold references of their own. Idempotent.
func (s *Segment) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.m.release()
}

// acquire adds a reference unless the last one is gone.
func (m *mapping) acquire() bool {
	for {
		n := m.refs.Load()
		if n <= 0 {
			return false
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (m *mapping) release() error {
	if m.refs.Add(-1) != 0 {
		return nil
	}
	var err error
	if m.mem != nil {
		err = unix.Munmap(m.mem)
	}
	for _, fd := range []int{m.fd, m.lockFD} {
		if fd >= 0 {
			closeFD(fd)
		}
	}
	if err != nil {
		return fail("unmap segment", m.kept, err, "")
	}
	return nil
}

// share gives another Segment on the same memory; nil if it is gone.
func (s *Segment) share(id uint64) *Segment {
	if s.closed.Load() || !s.m.acquire() {
		return nil
	}
	return &Segment{m: s.m, id: id}
}

func (m *mapping) info() segmentInfo {
	return segmentInfo{size: uint64(len(m.data)), hugeTLB: m.hugeTLB, kept: m.kept}
}

// makeHeap takes memory from the Go heap, whose large objects do not move.
func makeHeap(size int) *mapping {
	b := make([]byte, size+lineBytes-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % lineBytes)
	return &mapping{data: b[skip : skip+size : skip+size], fd: -1, lockFD: -1}
}

// makeAnonymous makes a sealed memfd, allocated in full, and maps it.
func makeAnonymous(size int, huge, hugeTLB bool) (*mapping, error) {
	if hugeTLB {
		if m := makeHugeTLB(size); m != nil {
			return m, nil
		}
	}
	if err := checkAvailable(size); err != nil {
		return nil, err
	}
	fd, err := memfd(0)
	if err != nil {
		return nil, err
	}
	m := &mapping{fd: fd, lockFD: -1}
	if err := m.fill(size, huge); err != nil {
		_ = m.abandon()
		return nil, err
	}
	return m, nil
}

// makeHugeTLB takes pages from the hugetlb pool; nil if they do not suffice.
func makeHugeTLB(size int) *mapping {
	mapped := (size + hugePageBytes - 1) &^ (hugePageBytes - 1)
	if freeHugePages() < mapped/hugePageBytes {
		return nil
	}
	fd, err := memfd(unix.MFD_HUGETLB | unix.MFD_HUGE_2MB)
	if err != nil {
		return nil
	}
	m := &mapping{fd: fd, lockFD: -1, hugeTLB: true}
	if err := m.fill(mapped, false); err != nil { // another process was faster
		_ = m.abandon()
		return nil
	}
	m.data = m.mem[:size:size]
	return m
}

// abandon undoes a mapping that nobody has seen.
func (m *mapping) abandon() error {
	m.refs.Store(1)
	return m.release()
}

// fill sizes, maps, allocates and seals m.fd.
func (m *mapping) fill(size int, transparentHuge bool) error {
	if err := unix.Ftruncate(m.fd, int64(size)); err != nil {
		return err
	}
	if err := m.mapFD(m.fd, size); err != nil {
		return err
	}
	if transparentHuge {
		populateHuge(m.mem) // before allocate, which would choose small pages
	}
	if err := allocate(m.fd, size); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(m.fd), unix.F_ADD_SEALS, wantSeals)
	return err
}

// mapFD maps size bytes of fd; the mapping does not need fd afterwards.
func (m *mapping) mapFD(fd, size int) (err error) {
	m.mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if errors.Is(err, unix.ENOMEM) { // address space or vm.max_map_count
		return fmt.Errorf("%w: %w", ErrNoMemory, err)
	} else if err != nil {
		return err
	}
	m.data = m.mem[:size:size]
	return nil
}
