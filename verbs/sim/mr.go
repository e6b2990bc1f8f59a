package sim

import (
	"syscall"
	"unsafe"

	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// memory is what an MR registers: the bytes, their line words, and who may lock these.
type memory struct {
	bytes  []byte
	lines  []uint64
	owners []lineOwner
}

// newMemory allocates n zeroed bytes whose first one is page-aligned.
func newMemory(n int) *memory {
	align := 4096
	if invariant.Enabled {
		align = verbs.LineBytes
	}
	b := make([]byte, n+align-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(align-1))
	return &memory{bytes: b[skip : skip+n : skip+n],
		lines: make([]uint64, (n+verbs.LineBytes-1)/verbs.LineBytes)}
}

// mr implements verbs.DriverMR and DriverLineNotifier.
type mr struct {
	node   *Node
	ctx    *device
	pd     *pd
	mem    *memory
	base   uint64 // address of the first byte
	key    uint32
	access verbs.Access
	keep   string
	closed bool
	waits  []*lineWait // in the order in which they were made
}

// lineWait is one OnLineChange.
type lineWait struct {
	line int
	seen uint64
	call func()
}

// AllocMR implements verbs.DriverPD.
func (p *pd) AllocMR(size int, access verbs.Access, o verbs.MROptions) (verbs.DriverMR, error) {
	n := p.dev.node
	if err := p.dev.alive(); err != nil {
		return nil, err
	}
	if n.failAllocs > 0 {
		n.failAllocs--
		n.failOutcome.Hits++
		return nil, &verbs.Error{Op: "ibv_reg_mr", Errno: syscall.ENOMEM,
			Detail: "simulated allocation failure", Hint: "a fault of the schedule"}
	}
	var mem *memory
	if o.Keep != "" {
		mem = n.kept[o.Keep]
		for _, other := range n.mrs {
			if other != nil && other.keep == o.Keep {
				return nil, &verbs.Error{Op: "ibv_reg_mr", Errno: syscall.EBUSY,
					Detail: "kept memory " + o.Keep + " is open", Hint: "close the other MR first"}
			}
		}
		if mem != nil && len(mem.bytes) != size {
			return nil, &verbs.Error{Op: "ibv_reg_mr", Errno: syscall.EINVAL,
				Detail: "kept memory " + o.Keep + " has another size"}
		}
		if mem != nil && len(mem.owners) != o.LineOwners {
			return nil, &verbs.Error{Op: "ibv_reg_mr", Errno: syscall.EINVAL,
				Detail: "kept memory " + o.Keep + " has another number of line owners"}
		}
	}
	if mem == nil {
		mem = newMemory(size)
		if o.Keep != "" {
			n.kept[o.Keep] = mem
		}
	}
	mem.setOwners(o.LineOwners)
	m := &mr{node: n, ctx: p.dev, pd: p, mem: mem, access: access, keep: o.Keep,
		base: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem.bytes))))}
	m.key = n.addMR(m)
	p.dev.mrs = append(p.dev.mrs, m)
	return m, nil
}

// Keys are 20 bits of index and 12 of a tag that changes at each use of an index, so that a key
// of a deregistered MR does not fit its successor.
const (
	keyIndexBits = 20
	maxMRs       = 1<<keyIndexBits - 1
)

func (n *Node) addMR(m *mr) uint32 {
	var i uint32
	if last := len(n.freeMR) - 1; last >= 0 {
		i, n.freeMR = n.freeMR[last], n.freeMR[:last]
	} else {
		i = uint32(len(n.mrs))
		n.mrs = append(n.mrs, nil)
		n.mrTag = append(n.mrTag, 0)
	}
	n.mrTag[i]++
	n.mrs[i] = m
	return n.mrTag[i]<<keyIndexBits | i
}

// findMR gives the live MR of a key, or nil.
func (n *Node) findMR(key uint32) *mr {
	i := key & maxMRs
	if int(i) >= len(n.mrs) || n.mrs[i] == nil || n.mrs[i].key != key {
		return nil
	}
	return n.mrs[i]
}

func (m *mr) Bytes() []byte   { return m.mem.bytes }
func (m *mr) LKey() uint32    { return m.key }
func (m *mr) RKey() uint32    { return m.key }
func (m *mr) Lines() []uint64 { return m.mem.lines }

// Close deregisters the region. Its memory is the collector's once nobody refers to it.
func (m *mr) Close() error {
	m.drop()
	return nil
}

func (m *mr) drop() {
	if m.closed {
		return
	}
	m.closed = true
	i := m.key & maxMRs
	m.node.mrs[i] = nil
	m.node.freeMR = append(m.node.freeMR, i)
	m.ctx.mrs = remove(m.ctx.mrs, m)
	m.waits = nil
}

// offset turns an address range into an offset; false if it is not all inside.
func (m *mr) offset(addr uint64, n int) (int, bool) {
	off := addr - m.base
	size := uint64(len(m.mem.bytes))
	if addr < m.base || off > size || uint64(n) > size-off {
		return 0, false
	}
	return int(off), true
}

// OnLineChange implements verbs.DriverLineNotifier. f runs as an event of its own, at the time
// of the change, or now if the line has changed already.
func (m *mr) OnLineChange(line int, seen uint64, f func()) (cancel func()) {
	w := m.node.world
	var t Timer
	if line < 0 || line >= len(m.mem.lines) || changed(m.mem.lines[line], seen) {
		t = w.At(w.now, f)
		return func() { w.Cancel(t) }
	}
	wait := &lineWait{line: line, seen: seen}
	wait.call = func() { t = w.At(w.now, f) }
	m.waits = append(m.waits, wait)
	return func() {
		m.waits = remove(m.waits, wait)
		w.Cancel(t)
	}
}

// touched wakes who waits for lines first..last.
func (m *mr) touched(first, last int) {
	if len(m.waits) == 0 {
		return
	}
	kept := m.waits[:0]
	var hit []*lineWait
	for _, x := range m.waits {
		if x.line >= first && x.line <= last && changed(m.mem.lines[x.line], x.seen) {
			hit = append(hit, x)
		} else {
			kept = append(kept, x)
		}
	}
	clear(m.waits[len(kept):])
	m.waits = kept
	for _, x := range hit {
		x.call()
	}
}

// changed is the condition for which OnLineChange waits.
func changed(word, seen uint64) bool {
	return word != seen && !lineword.Word(word).Locked()
}

// Touch tells the world that code outside of it (an emulated HTM, a fiber) changed line words of
// a region: who waits for them is woken.
func (n *Node) Touch(region *verbs.MR, offset, length int) {
	m := n.findMR(region.RKey())
	if m == nil || length <= 0 {
		return
	}
	last := min((offset+length-1)/verbs.LineBytes, len(m.mem.lines)-1)
	m.touched(max(offset, 0)/verbs.LineBytes, last)
}

// remove deletes the first x of s, keeping the order.
func remove[T comparable](s []T, x T) []T {
	for i := range s {
		if s[i] == x {
			copy(s[i:], s[i+1:])
			var zero T
			s[len(s)-1] = zero
			return s[:len(s)-1]
		}
	}
	return s
}
