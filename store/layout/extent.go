package layout

// A table that grows consists of extents: hash tables or trees with records of one layout, each in a memory
// region of its own. The first one is followed by the directory, which names the others. It is memory
// that peers READ, 32 lines:
//
//	line 0    number of extents, the first included 8 | zero 56
//	line i    extent i: address 8 | length 8 | rkey 4, zero 4 | main buckets, or nodes 8 |
//	          indirect buckets 8 | entries 8 | end 8 | check 8
//
// The line of an extent is complete before the number counts it, and does not change while peers are
// connected. The check is a hash of the other words and of i, so that a READ which is not atomic per
// line takes no half of it for a whole.
const (
	MaxExtents     = 32
	DirectoryBytes = MaxExtents * LineBytes
)

// Extent is where an extent is and what it consists of. Its table begins at offset 0 of its region.
type Extent struct {
	Addr, Length    uint64 // of its memory region
	RKey            uint32
	MainBuckets     uint64
	IndirectBuckets uint64
	Entries         uint64
	End             uint64 // of the table
}

// ExtentWords is a line of the directory.
type ExtentWords [LineBytes / 8]uint64

// Words are the line of extent i.
func (e *Extent) Words(i int) ExtentWords {
	w := ExtentWords{e.Addr, e.Length, uint64(e.RKey), e.MainBuckets, e.IndirectBuckets, e.Entries, e.End}
	w[len(w)-1] = w.check(i)
	return w
}

func (w *ExtentWords) check(i int) uint64 {
	h := Hash(uint64(i) + 1)
	for _, v := range w[:len(w)-1] {
		h = Hash(h ^ v)
	}
	return h
}

// Extent is what the line of extent i says; false if it is not whole.
func (w *ExtentWords) Extent(i int) (Extent, bool) {
	if w[len(w)-1] != w.check(i) || w[2]>>32 != 0 {
		return Extent{}, false
	}
	return Extent{Addr: w[0], Length: w[1], RKey: uint32(w[2]), MainBuckets: w[3], IndirectBuckets: w[4],
		Entries: w[5], End: w[6]}, true
}

// Of is the descriptor of the table in the extent, of a table that grows; false if there can be none.
func (e *Extent) Of(d Descriptor) (Descriptor, bool) {
	ordered := d.Index.Ordered()
	d.Index, d.MainOffset, d.MainBuckets, d.End = ClusterChaining, TableHeadBytes, e.MainBuckets, e.End
	if ordered {
		d.Index, d.MainOffset = BPlusTree, TreeHeadBytes
	}
	return d, e.End <= e.Length && d.check() == nil
}

// A place is where a record is in a table that may consist of extents: the offset in the extent's
// region, and above it the number of the extent. In a table of one extent it is the offset.

// MakePlace joins both.
func MakePlace(extent, offset int) int { return extent<<offsetBits | offset }

// InFirst reports whether a place is in the first extent, where it is the offset.
func InFirst(place uint64) bool { return place <= MaxOffset }

// SplitPlace takes a place apart.
func SplitPlace(place int) (extent, offset int) { return place >> offsetBits, place & MaxOffset }
