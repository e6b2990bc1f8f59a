package drtm

import (
	"encoding/binary"
	"time"

	"drtmd/proto"
	"drtmd/store/layout"
)

// hold is what a transaction has of a record by verbs.
type hold uint8

const (
	nothing hold = iota + 1
	asked        // a CAS was posted; what became of it is not known
	locked       // write lock
	leased       // read lease, its own or one that it joined
)

// item is a record of the transaction's declaration.
type item struct {
	key   proto.Key
	table proto.TableID
	mode  proto.Mode
	hold  hold
	node  proto.NodeID

	verbs  bool // reached by verbs: at another machine, or on a path that locks everything
	found  bool // off is known
	loaded bool // image and version are the record's
	was    bool // there was a value when it was loaded
	is     bool // there is one as the transaction sees it
	dirty  bool // written, inserted or deleted
	shown  bool // the program has seen it: it is in the history

	off     int            // of the entry in its machine's memory
	version layout.Version // as loaded
	word    State          // of the state word: what the next CAS expects, then what it holds
	op      int            // index of the CAS in the batch
	image   []byte         // of the entry: header and value, in registered memory
	at      int            // of the image in that memory
	size    int            // bytes of the value
}

func (it *item) value() []byte { return it.image[layout.ValueOffset:] }

// decode reads the header of the image.
func (it *item) decode() (key uint64, v layout.Version, s State) {
	return binary.LittleEndian.Uint64(it.image),
		layout.Version(binary.LittleEndian.Uint64(it.image[layout.VersionOffset:])),
		State(binary.LittleEndian.Uint64(it.image[layout.StateOffset:]))
}

// accept takes the image for the record's.
func (it *item) accept(v layout.Version, live bool) {
	it.loaded, it.version, it.was, it.is = true, v, live, live
}

// absent takes the record for one that has no entry.
func (it *item) absent() { it.accept(0, false) }

// next is the version that the transaction gives the record: of a write, an insertion, or a
// deletion.
func (it *item) next() layout.Version {
	switch {
	case !it.was:
		return it.version.Inserted()
	case !it.is:
		return it.version.Deleted()
	}
	return it.version.Written()
}

// changes reports whether the transaction changes the record: one that it inserts and deletes
// again it does not.
func (it *item) changes() bool { return it.dirty && (it.was || it.is) }

// encode puts version and state into the image.
func (it *item) encode(v layout.Version, s State) {
	binary.LittleEndian.PutUint64(it.image[layout.KeyOffset:], uint64(it.key))
	binary.LittleEndian.PutUint64(it.image[layout.VersionOffset:], uint64(v))
	binary.LittleEndian.PutUint64(it.image[layout.StateOffset:], uint64(s))
}

// writes reports whether the mode needs the write lock.
func writes(m proto.Mode) bool { return m != proto.ModeRead }

// find is the item of a record; nil if it was not declared. Programs mostly follow their
// declaration, so the search begins behind the item found last.
func (t *tx) find(table proto.TableID, k proto.Key) *item {
	n := len(t.items)
	for i := t.cursor; i < n; i++ {
		if it := &t.items[i]; it.key == k && it.table == table {
			t.cursor = i + 1
			return it
		}
	}
	for i := range min(t.cursor, n) {
		if it := &t.items[i]; it.key == k && it.table == table {
			t.cursor = i + 1
			return it
		}
	}
	return nil
}

// order sorts the items by <table, key>: the global order of the fallback handler (§7.2).
func (t *tx) order() {
	a := t.items
	for i := 1; i < len(a); i++ {
		for j := i; j > 0 && less(&a[j], &a[j-1]); j-- {
			a[j], a[j-1] = a[j-1], a[j]
		}
	}
}

func less(a, b *item) bool {
	return a.table < b.table || a.table == b.table && a.key < b.key
}

// lower moves the common end of the leases to the earlier one.
func (t *tx) lower(end time.Duration) {
	if t.end == 0 || end < t.end || t.e.lacks(LastEnd) {
		t.end = end
	}
}
