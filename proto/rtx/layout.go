package rtx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Shape is what a memory node's memory is laid out for. All clients read it there.
type Shape struct {
	Owners int // logs and reclamation tables: at most this many fibers of all clients
	// Slots of each reclamation table. They are shared out among the classes, and a transaction updates at
	// most as many objects of a class as that has slots.
	Slots   int
	Roots   int // objects that programs name by Root
	Objects int // all others that there may be
	Classes []Class
	// Node is the number of the memory node, from 0, among Nodes that clients use together; 0 of 0 is one alone. They
	// have the same shape else. Each has room for what follows, and Objects and blocks of its own.
	Node, Nodes int
}

// Class is a size of blocks, of which the first 16 bytes are the package's.
type Class struct {
	Bytes  int // multiple of 64
	Blocks int // multiple of ChunkBlocks
}

// Payload is how many bytes of a block are the program's.
func (c Class) Payload() int { return c.Bytes - blockHeader }

const (
	blockHeader = 16
	// ChunkBlocks is how many blocks an owner takes out of the pool at a time: a class with fewer chunks than
	// there are owners leaves some of them without.
	ChunkBlocks = 32
	maxClasses  = 8
	maxSlots    = 1024 // of one owner, so that logs stay small; all owners together have up to 2^slotBits
	minSlots    = 2    // of a class: a transaction may need one for a repair
	headerBytes = 4096
	metaBytes   = 16
	lineBytes   = 64
)

// The beginning of the memory, little endian. The rest of the first 4096 bytes is zero.
//
//	  0 magic 8 | version 8 | bytes 8 | owners 8 | slots 8 | roots 8 | objects 8 | classes 8
//	 64 bytes 8, blocks 8 of each class, 8 times
//	192 number of the node 8 | nodes that are used together 8 | hash of the above 8
const (
	magic         = 0x3158_5452_4d54_5244 // "DRTMRTX1"
	layoutVersion = 3
	nodeAt        = 192
	hashAt        = 208
)

// Errors of memory that a client refuses. It writes nothing before it has checked.
var (
	// ErrLayout: the memory was not laid out for transactions of this release.
	ErrLayout = errors.New("wrong memory")
	// ErrShape: a shape that cannot be.
	ErrShape = errors.New("wrong shape")
)

// layout is a shape with the place of everything.
//
//	header | owner records | objects, 16 bytes each | chunk words of each class | blocks of each class
type layout struct {
	Shape
	logBytes   int // of a log, its header included
	ownerBytes int // log and slots
	owners     int // offsets
	metas      int
	chunks     [maxClasses]int
	blocks     [maxClasses]int
	bytes      int // of one node
	perClass   int // slots of a class
	lists      int // class of the lists of free objects
}

// Log, at the beginning of an owner's record:
//
//	0 header 8 | lease horizon 8 | lock word 8 | hash 8 | entries n 8 | entry 24: ref, old, new pointer | ...
const (
	logHeader  = 0
	logHorizon = 8
	logBody    = 16
	logEntries = 40
	entryBytes = 24
)

func align(n, to int) int { return (n + to - 1) / to * to }

// internal objects: the pool of objects that were never used, and each owner's list of free ones.
func (s *Shape) internal() int { return 1 + s.Owners }

// metaCount is how many objects a node has with the internal ones.
func (s *Shape) metaCount() int { return s.internal() + s.Roots + s.Objects }

// plan checks a shape and places everything.
func (s Shape) plan() (*layout, error) {
	bad := func(format string, args ...any) (*layout, error) {
		return nil, fmt.Errorf("%w: %s", ErrShape, fmt.Sprintf(format, args...))
	}
	n := len(s.Classes)
	s.Nodes = max(s.Nodes, 1)
	switch {
	case s.Nodes > MaxNodes || s.Node < 0 || s.Node >= s.Nodes:
		return bad("memory node %d of %d, of up to %d", s.Node+1, s.Nodes, MaxNodes)
	case s.Owners < 1 || s.Owners > MaxOwners:
		return bad("%d owners, of 1..%d", s.Owners, MaxOwners)
	case n < 1 || n > maxClasses:
		return bad("%d classes of blocks, of 1..%d", n, maxClasses)
	case s.Slots < minSlots*n || s.Slots > maxSlots || s.Owners*s.Slots > 1<<slotBits:
		return bad("%d slots, of %d..%d with %d classes and %d owners", s.Slots, minSlots*n,
			min(maxSlots, 1<<slotBits/s.Owners), n, s.Owners)
	case s.Roots < 0 || s.Objects < 0 || s.metaCount() >= 1<<36:
		return bad("%d roots and %d objects", s.Roots, s.Objects)
	}
	l := &layout{Shape: s, perClass: s.Slots / n, lists: -1}
	l.logBytes = align(logEntries+entryBytes*s.Slots, lineBytes)
	l.ownerBytes = l.logBytes + align(8*s.Slots, lineBytes)
	l.owners = headerBytes
	l.metas = l.owners + s.Owners*l.ownerBytes
	at := align(l.metas+s.metaCount()*metaBytes, lineBytes)
	for i, c := range s.Classes {
		if c.Bytes < lineBytes || c.Bytes%lineBytes != 0 || c.Bytes > 1<<24 {
			return bad("blocks of %d bytes: a multiple of %d up to %d", c.Bytes, lineBytes, 1<<24)
		}
		if c.Blocks < ChunkBlocks || c.Blocks%ChunkBlocks != 0 {
			return bad("%d blocks of %d bytes: a multiple of %d", c.Blocks, c.Bytes, ChunkBlocks)
		}
		if l.lists < 0 && c.Payload() >= 8*n+16 {
			l.lists = i
		}
		l.chunks[i] = at
		at = align(at+8*c.Blocks/ChunkBlocks, lineBytes)
	}
	if l.lists < 0 {
		return bad("no class has blocks of %d bytes, for the lists of free objects", 8*n+16+blockHeader)
	}
	for i, c := range s.Classes {
		l.blocks[i] = at
		at += c.Bytes * c.Blocks
	}
	if at > offsetMask {
		return bad("%d bytes: more than data pointers reach", at)
	}
	l.bytes = at
	return l, nil
}

// Bytes is how much memory a shape needs.
func (s Shape) Bytes() (int, error) {
	l, err := s.plan()
	if err != nil {
		return 0, err
	}
	return l.bytes, nil
}

// Format lays memory of zeros out. Memory that has the same layout already is left as it is; other memory that
// is not zero is refused.
func (s Shape) Format(memory []byte) error {
	l, err := s.plan()
	if err != nil {
		return err
	}
	if len(memory) < l.bytes {
		return fmt.Errorf("%w: it needs %d bytes, and the memory has %d", ErrShape, l.bytes, len(memory))
	}
	h := make([]byte, headerBytes)
	l.encode(h)
	if binary.LittleEndian.Uint64(memory) == 0 {
		copy(memory, h)
		return nil
	}
	was, err := decode(memory, len(memory))
	if err != nil {
		return err
	}
	again := make([]byte, headerBytes)
	was.encode(again)
	if string(again) != string(h) {
		return fmt.Errorf("%w: it is laid out for another shape: %+v", ErrLayout, was.Shape)
	}
	return nil
}

// likens reports whether another node has the same shape.
func (l *layout) likens(o *layout) bool {
	return l.Owners == o.Owners && l.Slots == o.Slots && l.Roots == o.Roots && l.Objects == o.Objects &&
		slices.Equal(l.Classes, o.Classes)
}

func (l *layout) encode(h []byte) {
	le := binary.LittleEndian
	for i, v := range []int{magic, layoutVersion, l.bytes, l.Owners, l.Slots, l.Roots, l.Objects, len(l.Classes)} {
		le.PutUint64(h[8*i:], uint64(v))
	}
	for i, c := range l.Classes {
		le.PutUint64(h[64+16*i:], uint64(c.Bytes))
		le.PutUint64(h[72+16*i:], uint64(c.Blocks))
	}
	le.PutUint64(h[nodeAt:], uint64(l.Node))
	le.PutUint64(h[nodeAt+8:], uint64(l.Nodes))
	le.PutUint64(h[hashAt:], hashBytes(h[:hashAt]))
}

// decode checks the beginning of memory and reads the layout from it.
func decode(h []byte, bytes int) (*layout, error) {
	le := binary.LittleEndian
	word := func(i int) int { return int(le.Uint64(h[8*i:])) }
	refuse := func(format string, args ...any) (*layout, error) {
		return nil, fmt.Errorf("%w: %s", ErrLayout, fmt.Sprintf(format, args...))
	}
	switch {
	case bytes < headerBytes:
		return refuse("%d bytes are too few for any", bytes)
	case word(0) == 0:
		return refuse("it was never initialised; start the memory node with a shape")
	case word(0) != magic:
		return refuse("it begins with %#x: not memory of rTX; start the memory node with --memory-for rtx", word(0))
	case word(1) != layoutVersion:
		return refuse("layout version %d, this side speaks %d: run the same release on both sides", word(1),
			layoutVersion)
	case le.Uint64(h[hashAt:]) != hashBytes(h[:hashAt]):
		return refuse("the description of its layout is corrupt")
	}
	s := Shape{Owners: word(3), Slots: word(4), Roots: word(5), Objects: word(6), Node: word(nodeAt / 8), Nodes: word(nodeAt/8 + 1)}
	for i := range min(word(7), maxClasses) {
		s.Classes = append(s.Classes, Class{Bytes: word(8 + 2*i), Blocks: word(9 + 2*i)})
	}
	l, err := s.plan()
	switch {
	case err != nil:
		return refuse("%v", err)
	case l.bytes != word(2) || l.bytes > bytes:
		return refuse("its layout has %d bytes, the memory has %d", word(2), bytes)
	}
	return l, nil
}

// ownerAt, metaAt and the like are places. Owners are spread over the nodes, and roots.

func (l *layout) ownerAt(owner int) int {
	return PlaceAt(owner%l.Nodes, l.owners+owner*l.ownerBytes)
}

func (l *layout) metaAt(p Ptr) int { return PlaceAt(nodeOf(p), l.metas+indexOf(p)*metaBytes) }

func (l *layout) rootPtr(i int) Ptr { return ptrTo(i%l.Nodes, l.internal()+i) }

// slotAt is the place of a slot that is counted through all owners.
func (l *layout) slotAt(slot int) int {
	return l.ownerAt(slot/l.Slots) + l.logBytes + 8*(slot%l.Slots)
}

// chunkCount is how many chunks of a class a node has. They are counted through all nodes.
func (l *layout) chunkCount(class int) int { return l.Classes[class].Blocks / ChunkBlocks }

func (l *layout) chunkAt(class, chunk int) int {
	n := l.chunkCount(class)
	return PlaceAt(chunk/n, l.chunks[class]+8*(chunk%n))
}

// blockOf is the data pointer of a block of a chunk that was never used.
func (l *layout) blockOf(class, chunk, i int) uint64 {
	n := l.chunkCount(class)
	return uint64(PlaceAt(chunk/n, l.blocks[class]+(chunk%n*ChunkBlocks+i)*l.Classes[class].Bytes))
}

// has reports whether a pointer names an object.
func (l *layout) has(p Ptr) bool {
	return p <= ptrMask && nodeOf(p) < l.Nodes && indexOf(p) < l.metaCount()
}

// classOf is the class of the block that a data pointer names; -1: none has it.
func (l *layout) classOf(d uint64) int {
	off := PlaceOffset(int(offsetOf(d)))
	if PlaceNode(int(offsetOf(d))) >= l.Nodes {
		return -1
	}
	for i := len(l.Classes) - 1; i >= 0; i-- {
		c := l.Classes[i]
		if off >= l.blocks[i] {
			if off >= l.blocks[i]+c.Bytes*c.Blocks || (off-l.blocks[i])%c.Bytes != 0 {
				return -1
			}
			return i
		}
	}
	return -1
}

// slotClass is the class whose blocks a slot of an owner takes; -1: none.
func (l *layout) slotClass(slot int) int {
	if c := slot / l.perClass; c < len(l.Classes) {
		return c
	}
	return -1
}

// hashBytes is the hash of whole words (the round of xxHash64).
func hashBytes(b []byte) uint64 {
	h := uint64(len(b)) * 0x9E3779B185EBCA87
	for i := 0; i+8 <= len(b); i += 8 {
		h += binary.LittleEndian.Uint64(b[i:]) * 0xC2B2AE3D27D4EB4F
		h = (h<<31 | h>>33) * 0x9E3779B185EBCA87
	}
	return h ^ h>>29
}
