package rtx

// Hints remember the metadata of objects as it was seen last, one object for each place of a table; a newer one takes
// its place. With a hint the block of an object is read together with its metadata, in one round trip instead of two
// (section 4.2 has the second one as the price of the layout): if the metadata is what the hint says, the block was the
// object's value. A lock word never comes again with another pointer, so a hint may be as old as it likes.
//
// The clients of a thread may share one. A nil *Hints remembers nothing.
type Hints struct{ places []hint }

// hint is the metadata of an object while it was unlocked.
type hint struct {
	ptr        Ptr
	word, dptr uint64
}

// hintBytes is what a place takes.
const hintBytes = 24

// NewHints makes a table of so many bytes.
func NewHints(bytes int) *Hints { return &Hints{places: make([]hint, max(1, bytes/hintBytes))} }

// placeOf is the place of an object in a table of so many.
func placeOf(p Ptr, places int) int {
	const golden = 0x9E3779B97F4A7C15 // its highest bits spread neighbours, and steps of any size
	return int(uint64(p) * golden >> 32 * uint64(places) >> 32)
}

// get gives what was seen of an object; false: nothing, or it had no block.
func (h *Hints) get(p Ptr) (hint, bool) {
	if h == nil {
		return hint{}, false
	}
	x := h.places[placeOf(p, len(h.places))]
	return x, x.ptr == p && !isNil(x.dptr)
}

// put notes the metadata of an object, unlocked.
func (h *Hints) put(p Ptr, word, dptr uint64) {
	if h != nil {
		h.places[placeOf(p, len(h.places))] = hint{p, word, dptr}
	}
}
