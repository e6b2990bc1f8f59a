package dlht

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"drtmd/internal/hostmem"
)

// Geometry of bins.
const (
	lineBytes   = 64
	lineWords   = lineBytes / 8
	ownSlots    = 3 // in the bin itself
	bucketSlots = 4 // in a link bucket
	binSlots    = ownSlots + bucketSlots + 2*bucketSlots
	fullLinks   = 3 // link buckets of a full bin
)

// Header: two bits for each slot, two for the bin, and a version, which every change of taken slots counts up.
const (
	claimedBits header = 0x15555555 // claimed by an insertion under way
	takenBits   header = claimedBits << 1
	frozen      header = 1 << 30 // is being moved: nobody changes it
	moved       header = 1 << 31 // its records are in the next index
	version     header = 1 << 32 // 1 of it
)

// header is the first word of a bin.
type header uint64

// sameAs reports whether the same slots are taken as at another look, and have been all the time.
func (h header) sameAs(o header) bool { return h>>30 == o>>30 }

func claimed(slot int) header { return 1 << (2 * slot) }

func taken(slot int) header { return 2 << (2 * slot) }

// takenSlots has the claimed bit of every slot that is taken.
func (h header) takenSlots() header { return h & takenBits >> 1 }

// free is the first slot that is neither taken nor claimed; binSlots: there is none.
func (h header) free() int {
	used := h&claimedBits | h.takenSlots()
	return min(bits.TrailingZeros64(uint64(^used&claimedBits)|1<<(2*binSlots))/2, binSlots)
}

func (h header) count() int { return bits.OnesCount64(uint64(h & takenBits)) }

// line is a bin or a link bucket.
type line [lineWords]uint64

func (b *line) header() header { return header(atomic.LoadUint64(&b[0])) }

func (b *line) change(from, to header) bool {
	return atomic.CompareAndSwapUint64(&b[0], uint64(from), uint64(to))
}

// slot is a key and a value.
type slot [2]uint64

func (s *slot) load() (key, value uint64) {
	return atomic.LoadUint64(&s[0]), atomic.LoadUint64(&s[1])
}

// store fills a slot that the caller has claimed. Whoever reads it meanwhile finds out by the header. The header
// follows by a compare-and-swap, so plain stores do: each is one store of the processor.
func (s *slot) store(key, value uint64) {
	if raceEnabled {
		atomic.StoreUint64(&s[0], key)
		atomic.StoreUint64(&s[1], value)
		return
	}
	s[0], s[1] = key, value
}

// index is the bins of a table of one size.
type index struct {
	bins   []line
	links  []line // link buckets
	linked atomic.Int64
	// reserved link buckets are for bins that move here; 0 once all have.
	reserved atomic.Int64

	making  atomic.Bool // somebody makes next
	next    atomic.Pointer[index]
	claimed atomic.Int64 // bins that some thread has undertaken to move
	moved   atomic.Int64 // bins that have moved
}

// makeIndex makes an empty index; bins is a power of two.
func makeIndex(bins int) *index {
	all := alignedLines(bins + linksOf(bins))
	return &index{bins: all[:bins:bins], links: all[bins:]}
}

// linksOf is the number of link buckets for so many bins. With random keys a quarter suffices for about 2.6
// records per bin. Twice the bins have at least 4/3 of the link buckets, which moving there can take.
func linksOf(bins int) int { return max(bins/4, fullLinks) }

func indexBytes(bins int) int64 { return int64(bins+linksOf(bins)) * lineBytes }

func (x *index) bytes() int64 { return indexBytes(len(x.bins)) }

// alignedLines returns lines that are cache lines. Large ones are in huge pages, so that a look at a random line takes
// no walk through page tables.
func alignedLines(n int) []line {
	words := make([]uint64, (n+1)*lineWords)
	first := unsafe.SliceData(words)
	hostmem.Huge(unsafe.Slice((*byte)(unsafe.Pointer(first)), 8*len(words)))
	skip := -uintptr(unsafe.Pointer(first)) % lineBytes / 8
	return unsafe.Slice((*line)(unsafe.Pointer(&words[skip])), n)
}

func (x *index) bin(hash uint64) *line { return &x.bins[hash&uint64(len(x.bins)-1)] }

// slot is the place of a slot of a bin that has what link buckets it needs.
func (x *index) slot(b *line, i int) *slot {
	if i < ownSlots {
		return (*slot)(b[2+2*i:])
	}
	links := atomic.LoadUint64(&b[1])
	if i < ownSlots+bucketSlots {
		return (*slot)(x.links[uint32(links)-1][2*(i-ownSlots):])
	}
	i -= ownSlots + bucketSlots
	return (*slot)(x.links[int(links>>32)-1+i/bucketSlots][2*(i%bucketSlots):])
}

// linkFor gives a bin the link bucket or the pair that a slot is in. false: none is left, or so few that they are
// kept for bins which move here, if spare says so.
func (x *index) linkFor(b *line, i int, spare bool) bool {
	shift, n := 0, 1
	if i >= ownSlots+bucketSlots {
		shift, n = 32, 2
	}
	for i >= ownSlots {
		links := atomic.LoadUint64(&b[1])
		if uint32(links>>shift) != 0 {
			return true
		}
		first, ok := x.takeLinks(n, spare)
		if !ok {
			return false
		}
		if atomic.CompareAndSwapUint64(&b[1], links, links|uint64(first+1)<<shift) {
			return true
		}
		// Somebody else linked the bin. What was taken is lost until the table grows.
	}
	return true
}

func (x *index) takeLinks(n int, spare bool) (first int64, ok bool) {
	for {
		at, room := x.linked.Load(), int64(len(x.links))
		if spare {
			room -= x.reserved.Load()
		}
		if at+int64(n) > room {
			return 0, false
		}
		if x.linked.CompareAndSwap(at, at+int64(n)) {
			return at, true
		}
	}
}
