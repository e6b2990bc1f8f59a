package history

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
)

// Content is what a table holds of a key, when nothing runs.
type Content struct {
	Table   Table
	Key     Key
	State   State
	Version Version
	Digest  Digest // of a value that is there
	// Replica is whose content it is, if Sharded: what EachContent gives, and Put takes no notice of.
	Replica Replica
	Sharded bool
}

// Replica names the copy of a shard that a node has.
type Replica struct {
	Shard uint16 `json:"shard"`
	Node  NodeID `json:"node"`
}

func compareReplicas(a, b Replica) int {
	return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Node, b.Node))
}

// State says what there is of a key.
type State uint8

// States of a key. Keys that a snapshot does not name are absent, and nothing is known of their
// versions.
const (
	Present State = iota + 1 // Version with Digest
	Deleted                  // since Version: a tombstone
	// Pending: a write of a coordinator that died may be half made, or not made at all, and nobody
	// can read the record before it is. Version and Digest are what memory holds.
	Pending
)

// Moment is when a Snapshot was taken.
type Moment uint8

// Moments.
const (
	Initial Moment = iota + 1 // before the first transaction
	Final                     // after the last one
)

// Snapshot is what one node's tables held at a Moment. It belongs to one goroutine until it is
// given to NewRun.
type Snapshot struct {
	node    NodeID
	shard   uint32 // and 1; 0: the node's tables are no replica of a shard
	moment  Moment
	open    []*snapshotBlock // by table
	full    [][]byte
	records uint64
}

// snapshotBlock is a block under construction.
type snapshotBlock struct {
	bytes   []byte
	records uint32
	last    Content
	step    Key
	repeat  uint64 // how many keys like last, each step further, are not encoded yet
}

// NewSnapshot makes a snapshot without keys.
func NewSnapshot(node NodeID, m Moment) *Snapshot { return &Snapshot{node: node, moment: m} }

// NewReplicaSnapshot makes a snapshot of a shard's replica on a node, without keys. All replicas of a shard
// are expected to hold the same in the end.
func NewReplicaSnapshot(r Replica, m Moment) *Snapshot {
	return &Snapshot{node: r.Node, shard: uint32(r.Shard) + 1, moment: m}
}

// Put adds a key, which must not be there yet. It costs the least if keys come in ascending order.
func (s *Snapshot) Put(c Content) {
	for int(c.Table) >= len(s.open) {
		s.open = append(s.open, nil)
	}
	b := s.open[c.Table]
	if b == nil {
		b = &snapshotBlock{bytes: make([]byte, blockHeaderBytes, blockSlack)}
		s.open[c.Table] = b
	}
	b.put(c)
	s.records++
	if len(b.bytes) >= blockBytes || b.records == maxBlockKeys {
		s.finish(c.Table)
	}
}

func (s *Snapshot) finish(t Table) {
	b := s.open[t]
	b.flush()
	seal(b.bytes, blockHeader{magic: tableMagic, owner: uint32(t) | s.shard<<16, node: s.node,
		moment: s.moment, items: b.records})
	s.full = append(s.full, b.bytes)
	s.open[t] = nil
}

// blocks gives all blocks; nothing can be put from then on.
func (s *Snapshot) blocks() [][]byte {
	for t, b := range s.open {
		if b != nil {
			s.finish(Table(t))
		}
	}
	return s.full
}

// maxBlockKeys bounds the keys of a block, whose repetitions take no room.
const maxBlockKeys = 1 << 20

// repeatTag marks a repetition; other tags are a State.
const repeatTag = 0

func (b *snapshotBlock) put(c Content) {
	step := c.Key - b.last.Key
	b.records++
	if l := &b.last; l.State == c.State && l.Version == c.Version && l.Digest == c.Digest &&
		step == b.step {
		b.repeat++
		b.last.Key = c.Key
		return
	}
	b.flush()
	b.bytes = append(b.bytes, byte(c.State))
	b.bytes = binary.AppendVarint(b.bytes, int64(step))
	b.bytes = binary.AppendVarint(b.bytes, int64(c.Version-b.last.Version))
	if c.State != Deleted {
		b.bytes = binary.LittleEndian.AppendUint64(b.bytes, uint64(c.Digest))
	}
	b.last, b.step = c, step
}

// flush encodes a repetition.
func (b *snapshotBlock) flush() {
	if b.repeat > 0 {
		b.bytes = append(b.bytes, repeatTag)
		b.bytes = binary.AppendUvarint(b.bytes, b.repeat)
		b.repeat = 0
	}
}

// eachContent decodes the payload of a snapshot's block.
func eachContent(h blockHeader, payload []byte, fn func(Content) error) error {
	if crc32.Checksum(payload, castagnoli) != h.crc {
		return errChecksum
	}
	d := decoder{rest: payload}
	var c Content
	if shard := h.owner >> 16; shard > 0 {
		c.Replica, c.Sharded = Replica{uint16(shard - 1), h.node}, true
	}
	var step Key
	left := uint64(h.items)
	for left > 0 {
		n := uint64(1)
		switch tag := d.byte(); State(tag) {
		case repeatTag:
			if n = d.uvarint(); c.State == 0 || n == 0 {
				return errContent
			}
		case Present, Deleted, Pending:
			c.Table, c.State, step = Table(h.owner), State(tag), Key(d.varint())
			c.Version += Version(d.varint())
			c.Digest = 0
			if c.State != Deleted {
				c.Digest = Digest(d.uint64())
			}
		default:
			return errContent
		}
		if d.bad || n > left || c.Version == 0 {
			return errContent
		}
		left -= n
		for range n {
			c.Key += step
			if err := fn(c); err != nil {
				return &callerError{err}
			}
		}
	}
	if len(d.rest) > 0 {
		return errContent
	}
	return nil
}
