package htm

import "fmt"

// Code is why a region aborted: the bits of EAX after an RTM abort, and Nested.
type Code uint8

const (
	Conflict Code = iota + 1 // another region or a remote operation touched a line
	Capacity                 // more lines than the geometry has room for
	Explicit                 // Abort was called; its argument is the second result of Aborted
	System                   // a verb was posted inside, or a spurious abort was injected
	Nested                   // Begin was called inside
	CodeEnd                  // one past the last
)

var codeNames = [CodeEnd]string{"none", "conflict", "capacity", "explicit", "system", "nested"}

func (c Code) String() string {
	if c < CodeEnd {
		return codeNames[c]
	}
	return fmt.Sprintf("abort code %d", uint8(c))
}

// Unconfirmed is the argument of the Explicit abort that a commit ends in whose Confirm said no.
const Unconfirmed uint8 = 255

// Stats count what became of a Region's regions. They are read by its own thread.
type Stats struct {
	Begun     uint64
	Committed uint64
	Aborts    [CodeEnd]uint64 // by Code
	Rescues   uint64          // lines found locked for so long that Memory.Rescue was called
}

// Add adds the counts of another region object.
func (s *Stats) Add(o *Stats) {
	s.Begun += o.Begun
	s.Committed += o.Committed
	s.Rescues += o.Rescues
	for i := range s.Aborts {
		s.Aborts[i] += o.Aborts[i]
	}
}
