package log

import (
	"encoding/binary"
	"fmt"

	"drtmd/verbs/lines"
)

// Config of Format.
type Config struct {
	// Generation tells this content of the memory from earlier ones: random, and not zero.
	Generation uint64
	// Marks has each line carry a mark: wherever records are WRITTEN by a device without
	// verbs.Caps.AscendingWrites.
	Marks bool
}

// Log is a ring in memory, as its host sees it.
type Log struct {
	shape
	mem    []byte       // header and ring
	shared lines.Memory // the same, while others use it
	head   uint64       // records before were truncated
	slot   int          // of the two heads, the next to write
	next   uint64       // of Next
	// epoch is that of the record before next.
	epoch Epoch
	// present is the highest epoch that a record may have; 0 is any.
	present Epoch
	body    []byte          // scratch
	line    [lineBytes]byte // scratch
	header  [recordBytes]byte
}

// Bytes is the memory that a log of a capacity takes.
func Bytes(capacity int) int { return headBytes + capacity }

// Format makes an empty log in memory of a multiple of 64 bytes, and begins to read it. The content that was
// there is lost, though its bytes stay: the generation tells.
func Format(mem []byte, c Config) (*Log, error) {
	capacity := len(mem) - headBytes
	switch {
	case capacity < minCapacity || capacity%lineBytes != 0:
		return nil, fmt.Errorf("a log in %d bytes of memory: give it %d and a multiple of %d", len(mem),
			headBytes+minCapacity, lineBytes)
	case c.Generation == 0:
		return nil, fmt.Errorf("the log's generation is zero: draw a random one each time it is formatted")
	}
	l := &Log{mem: mem, shared: lines.Plain(mem), shape: shape{capacity: uint64(capacity), generation: c.Generation, marks: c.Marks}}
	clear(mem[:headBytes]) // no log at all until the checksum below is there
	l.putHead(0)
	l.putHead(0)
	b := mem[:lineBytes]
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint16(b[6:], version)
	le.PutUint64(b[8:], l.capacity)
	le.PutUint64(b[16:], c.Generation)
	if c.Marks {
		b[24] = 1
	}
	le.PutUint64(b[32:], sumOf(b[:32]))
	return l, nil
}

// sumOf is the checksum of the log's header.
func sumOf(b []byte) uint64 {
	sum := uint64(version)
	for ; len(b) >= 8; b = b[8:] {
		sum = lines.Mix(sum, binary.LittleEndian.Uint64(b))
	}
	return sum
}

// Share has the log use memory, which is that of Format or Open, while others WRITE into it or look at it.
func (l *Log) Share(m lines.Memory) { l.shared = m }

// Open begins to read the log that memory holds, at its head.
func Open(mem []byte) (*Log, error) { return open(lines.Plain(mem)) }

func open(m lines.Memory) (*Log, error) {
	le, mem := binary.LittleEndian, m.Bytes()
	switch {
	case len(mem) < headBytes+minCapacity || string(mem[:len(magic)]) != magic:
		return nil, fmt.Errorf("%w: format it", ErrNoLog)
	case le.Uint16(mem[6:]) != version:
		return nil, fmt.Errorf("%w: %d, this program has %d", ErrVersion, le.Uint16(mem[6:]), version)
	case le.Uint64(mem[32:]) != sumOf(mem[:32]):
		return nil, fmt.Errorf("%w: its header has a wrong checksum, as if it had not been formatted to the "+
			"end", ErrNoLog)
	case le.Uint64(mem[8:]) != uint64(len(mem)-headBytes) || mem[24] > 1:
		return nil, fmt.Errorf("%w: it has a ring of %d bytes, not of %d: open it with its own size",
			ErrNoLog, le.Uint64(mem[8:]), len(mem)-headBytes)
	}
	l := &Log{mem: mem, shared: m, shape: shape{capacity: le.Uint64(mem[8:]), generation: le.Uint64(mem[16:]),
		marks: mem[24] == 1}}
	var ok bool
	if l.head, ok = l.latestHead(); !ok {
		return nil, ErrHead
	}
	if head, valid := l.headAt(0); valid && head == l.head {
		l.slot = 1
	}
	l.next = l.head
	return l, nil
}

// headAt reads one of the two heads.
func (l *Log) headAt(i int) (uint64, bool) {
	b := l.shared.Line(lineBytes, &l.line)[16*i:]
	head := binary.LittleEndian.Uint64(b)
	return head, head%lineBytes == 0 && binary.LittleEndian.Uint64(b[8:]) == lines.Mix(head, ^l.generation)
}

// putHead writes one of the two heads, the older.
func (l *Log) putHead(head uint64) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], head)
	binary.LittleEndian.PutUint64(b[8:], lines.Mix(head, ^l.generation))
	l.shared.CopyIn(lineBytes+16*l.slot, b[:])
	l.head, l.slot = head, 1-l.slot
}

// Generation is that of Config.
func (l *Log) Generation() uint64 { return l.generation }

// Marks is that of Config.
func (l *Log) Marks() bool { return l.marks }

// Capacity is the bytes of the ring.
func (l *Log) Capacity() int { return int(l.capacity) }

// Head is the position before which everything was truncated.
func (l *Log) Head() uint64 { return l.head }

// Position is that of the record that Next looks for.
func (l *Log) Position() uint64 { return l.next }

// SetEpoch says what the present epoch is: a record of a higher one does not count.
func (l *Log) SetEpoch(e Epoch) { l.present = max(l.present, e) }

// Truncate frees what was read before a position: the end of a record that Next has given, or the head. Tell
// the writer (Writer.Released).
func (l *Log) Truncate(position uint64) error {
	if position < l.head || position > l.next || position%lineBytes != 0 {
		return fmt.Errorf("%w: %d is not between the head, %d, and what was read, %d", ErrTruncate, position,
			l.head, l.next)
	}
	if position > l.head {
		l.putHead(position)
	}
	return nil
}

// at is the offset of a position.
func (l *Log) at(position uint64) int { return headBytes + int(position%l.capacity) }

// lineAt is the line of a position, until the next call.
func (l *Log) lineAt(position uint64) []byte { return l.shared.Line(l.at(position), &l.line) }

// Line is the number of the 64-byte line of the memory at which a position is: that of Position is the one
// to await (fiber.Watch).
func (l *Log) Line(position uint64) int { return l.at(position) / lineBytes }
