// Package lines is how bytes lie in a ring of 64-byte lines that another node WRITES: the log of package
// store/log and the messages of package verbs/ring. Memory is such lines where peers WRITE them.
//
// A position counts bytes since the ring was made and is never used again; it is at position mod capacity of
// the ring, which is whole lines. Where a device makes lines visible in any order, or by halves (no
// verbs.Caps.AscendingWrites), each line ends with a mark, and carries 56 bytes; elsewhere it carries 64. A
// mark is a hash of its line's position and of the ring's generation, so that what an earlier lap or life has
// left behind is no mark. The words of one line are assumed to become visible in ascending order.
package lines

// Sizes in bytes.
const (
	Bytes     = 64
	MarkBytes = 8
)

// Payload is how many bytes a line carries.
func Payload(marks bool) int {
	if marks {
		return Bytes - MarkBytes
	}
	return Bytes
}

// Mark of the line at a position.
func Mark(position, generation uint64) uint64 { return Mix(position+1, generation) }

// Mix is a hash of two words.
func Mix(a, b uint64) uint64 {
	x := a*0x9e3779b97f4a7c15 ^ b
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// Piece says which of some bytes go where.
type Piece struct {
	Offset   int // into the memory that has the ring
	From, To int // of the bytes
}

// Split is where n bytes at a position go, in a ring that begins at an offset of its memory: the second piece
// is empty but where the ring wraps.
func Split(ringAt int, capacity, position uint64, n int) [2]Piece {
	at := int(position % capacity)
	first := min(n, int(capacity)-at)
	return [2]Piece{{ringAt + at, 0, first}, {ringAt, first, n}}
}
