package optimal

import (
	"encoding/binary"
	"fmt"

	"drtmd/proto/rtx"
)

// Shape is what memory is laid out for.
//
//	header 4096 | lock words | counter of nodes 64 | root objects | nodes
type Shape struct {
	Owners int // clients, each with a number
	Roots  int
	Nodes  int
}

// Sizes of objects, by class: roots and nodes.
const (
	rootBytes = 64
	NodeBytes = 1024
	edgeBytes = 8 // a version, at both ends
)

const (
	headerBytes = 4096
	magic       = 0x3154_504f_4d54_5244 // "DRTMOPT1"
	version     = 1
	maxOwners   = 1 << 20
)

func (s *Shape) locksAt() int   { return headerBytes }
func (s *Shape) counterAt() int { return align(s.locksAt() + 8*(1+s.Roots+s.Nodes)) }
func (s *Shape) rootsAt() int   { return s.counterAt() + rootBytes }
func (s *Shape) nodesAt() int   { return align(s.rootsAt() + rootBytes*s.Roots) }

func align(n int) int { return (n + 1023) / 1024 * 1024 }

// Bytes is how much memory it takes.
func (s *Shape) Bytes() int { return s.nodesAt() + NodeBytes*s.Nodes }

// ShapeFor is that of memory of some bytes, for a number of owners and of roots.
func ShapeFor(bytes, owners, roots int) (Shape, error) {
	s := Shape{Owners: owners, Roots: roots}
	s.Nodes = max(0, bytes-s.Bytes()-1024) / (NodeBytes + 8)
	if owners < 1 || owners > maxOwners || s.Nodes < chunk*owners {
		return s, fmt.Errorf("%w: %d bytes are too few for %d owners: take %d or more", rtx.ErrShape, bytes, owners,
			s.Bytes()+2048+chunk*owners*(NodeBytes+8))
	}
	return s, nil
}

// Format lays memory of zeros out. Other memory must have the same layout.
func (s Shape) Format(memory []byte) error {
	le := binary.LittleEndian
	if le.Uint64(memory) == 0 {
		for i, v := range []int{magic, version, s.Bytes(), s.Owners, s.Roots, s.Nodes} {
			le.PutUint64(memory[8*i:], uint64(v))
		}
		return nil
	}
	was, err := decode(memory, len(memory))
	if err == nil && was != s {
		err = fmt.Errorf("%w: it is laid out for another shape: %+v", rtx.ErrLayout, was)
	}
	return err
}

// decode checks the beginning of memory and reads the shape from it.
func decode(h []byte, bytes int) (Shape, error) {
	word := func(i int) int { return int(binary.LittleEndian.Uint64(h[8*i:])) }
	refuse := func(format string, args ...any) (Shape, error) {
		return Shape{}, fmt.Errorf("%w: %s", rtx.ErrLayout, fmt.Sprintf(format, args...))
	}
	switch {
	case bytes < headerBytes:
		return refuse("%d bytes are too few for any", bytes)
	case word(0) == 0:
		return refuse("it was never initialised")
	case word(0) != magic:
		return refuse("it begins with %#x: it is of another protocol; start the memory node with --memory-for optimal", word(0))
	case word(1) != version:
		return refuse("layout version %d, this side speaks %d: run the same release on both sides", word(1), version)
	}
	s := Shape{Owners: word(3), Roots: word(4), Nodes: word(5)}
	if s.Owners < 1 || s.Owners > maxOwners || s.Roots < 0 || s.Nodes < 0 || s.Roots+s.Nodes > 1<<36 ||
		s.Bytes() != word(2) || s.Bytes() > bytes {
		return refuse("its layout has %d bytes, the memory has %d", word(2), bytes)
	}
	return s, nil
}

// Pointers: 1.. are roots, and nodes are behind them.

func (s *Shape) has(p rtx.Ptr) bool   { return p >= 1 && int(p) <= s.Roots+s.Nodes }
func (s *Shape) lockAt(p rtx.Ptr) int { return s.locksAt() + 8*int(p) }

// place is where an object is, and its size.
func (s *Shape) place(p rtx.Ptr) (at, bytes int) {
	if i := int(p) - 1; i < s.Roots {
		return s.rootsAt() + rootBytes*i, rootBytes
	}
	return s.nodesAt() + NodeBytes*(int(p)-1-s.Roots), NodeBytes
}
