package remote

import (
	"errors"
	"fmt"

	"drtmd/store/layout"
	"drtmd/verbs"
)

// What a look-up can end with, beside the errors of the transport.
var (
	// ErrNotFound: the table has no entry of this key.
	ErrNotFound = errors.New("no entry of this key")
	// ErrUnstable: the chain changed each time that it was read. Try again later.
	ErrUnstable = errors.New("bucket chain kept changing while it was read")
	// ErrBounds: the table does not fit in the memory that its node offers. Exchange
	// descriptors anew.
	ErrBounds = errors.New("table reaches beyond the memory region")
)

// Table is a peer's table, as a place to read from.
type Table struct {
	d      layout.Descriptor
	record layout.Record
	base   uint64 // address of the region
	rkey   uint32
	source uint64 // names the table in a cache
	err    error  // why it cannot be used

	mutation Mutation // 0 is none
}

// Open describes the table d of the node that offers mr. If both do not fit together, each
// look-up is an ErrBounds.
func Open(d layout.Descriptor, mr verbs.RemoteMR) *Table { return OpenPeer(0, d, mr) }

// OpenPeer is Open that tells the tables of peers apart in a cache, even if they are at the same
// address under the same key there.
func OpenPeer(peer uint16, d layout.Descriptor, mr verbs.RemoteMR) *Table {
	t := &Table{d: d, record: d.Record(), base: mr.Addr, rkey: mr.RKey,
		source: layout.Hash(layout.Hash(uint64(peer)+1)^uint64(mr.RKey)) ^
			layout.Hash(d.MainOffset)}
	if d.End > mr.Length {
		t.err = fmt.Errorf("%w: table %d ends at %d of %d", ErrBounds, d.Table, d.End, mr.Length)
	}
	return t
}

// Descriptor of the table.
func (t *Table) Descriptor() layout.Descriptor { return t.d }

// RKey opens the memory in which the table is.
func (t *Table) RKey() uint32 { return t.rkey }

// Addr is the address of an offset of the table's memory region.
func (t *Table) Addr(offset uint64) uint64 { return t.base + offset }

// Record is how the table's records lie in memory.
func (t *Table) Record() *layout.Record { return &t.record }

// EntryBytes is what to READ at an Entry: header and value.
func (t *Table) EntryBytes() int { return t.record.Bytes }

// Err is why look-ups cannot work; nil if they can.
func (t *Table) Err() error { return t.err }

// Entry is the place of a key's entry.
type Entry struct {
	Addr   uint64       // in the peer's memory; READ it with the table's RKey
	Off    uint64       // the same, in bytes from the start of the region
	Lossy  layout.Lossy // of the incarnation that the entry had when it was last ensured
	Cached bool         // a cache said so
}
