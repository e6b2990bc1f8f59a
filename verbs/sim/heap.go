package sim

// entry is an event's place in the order of time: earlier first, and among equals the one that
// was scheduled first. Four of them fill a cache line.
type entry struct {
	at Time
	// order is the number of the call of schedule, and below it, in slotBits, the index of the
	// event in World.slab, which the comparison never reaches: numbers differ.
	order uint64
}

// Events that may wait at a time, and that may be scheduled in all: 16 million, and a million
// million, which take days.
const (
	slotBits = 24
	maxSlots = 1 << slotBits
	maxSeq   = 1 << (64 - slotBits)
)

func newEntry(at Time, seq uint64, slot uint32) entry {
	return entry{at: at, order: seq<<slotBits | uint64(slot)}
}

func (a entry) slot() uint32 { return uint32(a.order & (maxSlots - 1)) }

func (a *entry) before(b *entry) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// eventHeap is a 4-ary heap of entries: half the depth of a binary one, and the four children
// of a node share one or two cache lines. The order is total, so what comes out does not depend
// on how the heap came to be.
type eventHeap struct{ a []entry }

func (h *eventHeap) len() int { return len(h.a) }

func (h *eventHeap) push(e entry) {
	h.a = append(h.a, e)
	h.up(len(h.a) - 1)
}

// pop removes the first entry. The heap must not be empty.
func (h *eventHeap) pop() entry {
	first := h.a[0]
	last := len(h.a) - 1
	h.a[0] = h.a[last]
	h.a = h.a[:last]
	if last > 1 {
		h.down(0)
	}
	return first
}

func (h *eventHeap) up(i int) {
	e := h.a[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h.a[parent]) {
			break
		}
		h.a[i] = h.a[parent]
		i = parent
	}
	h.a[i] = e
}

func (h *eventHeap) down(i int) {
	e := h.a[i]
	n := len(h.a)
	for {
		child := 4*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, n); c++ {
			if h.a[c].before(&h.a[least]) {
				least = c
			}
		}
		if !h.a[least].before(&e) {
			break
		}
		h.a[i] = h.a[least]
		i = least
	}
	h.a[i] = e
}

// filter drops the entries that keep refuses, in one pass.
func (h *eventHeap) filter(keep func(entry) bool) {
	kept := h.a[:0]
	for _, e := range h.a {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	h.a = kept
	for i := (len(kept) - 2) / 4; i >= 0 && len(kept) > 1; i-- {
		h.down(i)
	}
}
