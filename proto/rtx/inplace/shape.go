package inplace

import (
	"encoding/binary"
	"fmt"

	"drtmd/proto/rtx"
)

// Kind is a layout of memory.
type Kind struct {
	Protocol string // whose it is
	Magic    uint64
	Version  int
	// PerObject and PerOwner are bytes, multiples of 8.
	PerObject, PerOwner int
}

// Shape is what memory is laid out for.
type Shape struct {
	Owners int // clients, each with a number
	Roots  int
	Nodes  int

	kind *Kind
}

// Sizes of objects, by class: roots and nodes.
const (
	RootBytes = 64
	NodeBytes = 1024
)

const (
	headerBytes = 4096
	maxOwners   = 1 << 20
	maxObjects  = 1 << 36 // sums of sizes do not overflow
	// chunk is how many nodes a client takes from the pool at a time.
	chunk = 16
)

func (s *Shape) objects() int { return 1 + s.Roots + s.Nodes }

// ObjectAt is where the bytes beside an object are, OwnerAt those of an owner.
func (s *Shape) ObjectAt(p rtx.Ptr) int { return headerBytes + s.kind.PerObject*int(p) }
func (s *Shape) OwnerAt(owner int) int {
	return align(headerBytes+s.kind.PerObject*s.objects()) + s.kind.PerOwner*owner
}

func (s *Shape) counterAt() int { return align(s.OwnerAt(s.Owners)) }
func (s *Shape) rootsAt() int   { return s.counterAt() + RootBytes }
func (s *Shape) nodesAt() int   { return align(s.rootsAt() + RootBytes*s.Roots) }

func align(n int) int { return (n + 1023) / 1024 * 1024 }

// Bytes is how much memory it takes.
func (s *Shape) Bytes() int { return s.nodesAt() + NodeBytes*s.Nodes }

// ShapeFor is that of memory of some bytes, for a number of owners and of roots.
func (k *Kind) ShapeFor(bytes, owners, roots int) (Shape, error) {
	s := Shape{Owners: owners, Roots: roots, kind: k}
	if owners < 1 || owners > maxOwners {
		return s, fmt.Errorf("%w: %d owners, of 1..%d", rtx.ErrShape, owners, maxOwners)
	}
	const slack = 2048 // for what is aligned
	s.Nodes = max(0, bytes-s.Bytes()-slack) / (NodeBytes + k.PerObject)
	if s.Nodes < chunk*owners {
		s.Nodes = 0
		return s, fmt.Errorf("%w: %d bytes are too few for %d owners: take %d or more", rtx.ErrShape, bytes, owners,
			s.Bytes()+2*slack+chunk*owners*(NodeBytes+k.PerObject))
	}
	return s, nil
}

// Format lays memory of zeros out. Other memory must have the same layout.
func (s Shape) Format(memory []byte) error {
	le := binary.LittleEndian
	if le.Uint64(memory) == 0 {
		for i, v := range []int{int(s.kind.Magic), s.kind.Version, s.Bytes(), s.Owners, s.Roots, s.Nodes} {
			le.PutUint64(memory[8*i:], uint64(v))
		}
		return nil
	}
	was, err := s.kind.decode(memory, len(memory))
	if err == nil && was != s {
		err = fmt.Errorf("%w: it is laid out for another shape: %d owners, %d roots, %d nodes", rtx.ErrLayout, was.Owners,
			was.Roots, was.Nodes)
	}
	return err
}

// decode checks the beginning of memory and reads the shape from it.
func (k *Kind) decode(h []byte, bytes int) (Shape, error) {
	word := func(i int) int { return int(binary.LittleEndian.Uint64(h[8*i:])) }
	refuse := func(format string, args ...any) (Shape, error) {
		return Shape{}, fmt.Errorf("%w: %s", rtx.ErrLayout, fmt.Sprintf(format, args...))
	}
	switch {
	case bytes < headerBytes:
		return refuse("%d bytes are too few for any", bytes)
	case word(0) == 0:
		return refuse("it was never initialised")
	case uint64(word(0)) != k.Magic:
		return refuse("it begins with %#x: it is of another protocol; start the memory node with --memory-for %s", word(0),
			k.Protocol)
	case word(1) != k.Version:
		return refuse("layout version %d, this side speaks %d: run the same release on both sides", word(1), k.Version)
	}
	s := Shape{Owners: word(3), Roots: word(4), Nodes: word(5), kind: k}
	if s.Owners < 1 || s.Owners > maxOwners || uint(s.Roots) > maxObjects || uint(s.Nodes) > maxObjects ||
		s.Bytes() != word(2) || s.Bytes() > bytes {
		return refuse("its layout has %d bytes, the memory has %d", word(2), bytes)
	}
	return s, nil
}

// Has reports whether a pointer names an object: 1.. are roots, and nodes are behind them.
func (s *Shape) Has(p rtx.Ptr) bool { return p >= 1 && p <= rtx.Ptr(s.Roots+s.Nodes) }

// Place is where an object is, and its size.
func (s *Shape) Place(p rtx.Ptr) (at, bytes int) {
	if i := int(p) - 1; i < s.Roots {
		return s.rootsAt() + RootBytes*i, RootBytes
	}
	return s.nodesAt() + NodeBytes*(int(p)-1-s.Roots), NodeBytes
}
