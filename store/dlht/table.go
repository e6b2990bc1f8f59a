package dlht

import (
	"iter"
	"math/bits"
	"sync/atomic"

	"drtmd/verbs/lineword"
)

// Table is a hash table with 64-bit keys and values. Any number of goroutines may use it at once.
type Table struct{ core }

// New makes an empty table.
func New(config Config) (*Table, error) {
	t := &Table{}
	if err := t.init(config); err != nil {
		return nil, err
	}
	return t, nil
}

// Get is the value of a key; with Duplicates, one of its values.
func (t *Table) Get(key uint64) (value uint64, found bool) { return t.lookUp(t.hash(key), key) }

// Prefetch asks for the line of memory that an operation on a key looks at first. It changes nothing.
func (t *Table) Prefetch(key uint64) { lineword.Prefetch(&t.index.Load().bin(t.hash(key))[0]) }

func (t *Table) lookUp(hash, key uint64) (value uint64, found bool) {
	if t.config.step == nil && t.config.Mutation == 0 {
		// The usual case in one line of memory: the key is in its bin.
		b := t.index.Load().bin(hash)
		h := b.header()
		for left := h.takenSlots() & (claimed(ownSlots) - 1); left != 0; left &= left - 1 {
			i := 2 + bits.TrailingZeros64(uint64(left))
			if atomic.LoadUint64(&b[i&(lineWords-1)]) == key {
				value = atomic.LoadUint64(&b[(i+1)&(lineWords-1)])
				if h&moved == 0 && b.header().sameAs(h) {
					return value, true
				}
				break
			}
		}
	}
	return t.get(hash, key, nil)
}

// Insert adds a key with a value. If the key has one, and not Duplicates are configured, it changes nothing and
// returns that. The error is a store.ErrFull.
func (t *Table) Insert(key, value uint64) (present uint64, inserted bool, err error) {
	return t.add(t.hash(key), key, value)
}

func (t *Table) add(hash, key, value uint64) (present uint64, inserted bool, err error) {
	return t.insert(hash, key, value, nil, !t.config.Duplicates)
}

// Put replaces the value of a key and returns the old one; with Duplicates, one of its values. found is false if
// the key has none. The error is a store.ErrFull: Put needs a free slot for a moment.
func (t *Table) Put(key, value uint64) (old uint64, found bool, err error) {
	return t.put(t.hash(key), key, value, nil)
}

// Delete removes a key and returns its value; with Duplicates, one of its values.
func (t *Table) Delete(key uint64) (old uint64, found bool) {
	return t.remove(t.hash(key), key, nil)
}

// DeleteValue removes a value of a key, if the key has it. Of equal ones it removes one.
func (t *Table) DeleteValue(key, value uint64) bool {
	_, found := t.remove(t.hash(key), key, &matcher{value: value})
	return found
}

// Values appends the values that a key has at one moment.
func (t *Table) Values(key uint64, to []uint64) []uint64 {
	hash := t.hash(key)
	x := t.index.Load()
	for {
		records, here := t.records(x, x.bin(hash))
		if !here {
			x = x.next.Load()
			continue
		}
		for _, r := range records.slots[:records.n] {
			if r[0] == key {
				to = append(to, r[1])
			}
		}
		return to
	}
}

// All gives every record. One that is there all the time is given once, others at most once per value that they
// had. It does not stop other operations.
func (t *Table) All() iter.Seq2[uint64, uint64] { return t.all }

// Occupancy says how full a table is.
type Occupancy struct {
	Bins, Records     int
	Links, LinksTaken int // link buckets
	Bytes             int64
	Growing           bool // the figures are those of the old bins, and of what has not moved
}

// Occupancy counts. It reads the header of every bin: exact for a table at rest, near otherwise, and not for the
// hot path.
func (c *core) Occupancy() Occupancy {
	x := c.index.Load()
	records, _ := x.contents()
	return Occupancy{Bins: len(x.bins), Records: records, Links: len(x.links), LinksTaken: int(x.linked.Load()),
		Bytes: x.bytes(), Growing: x.next.Load() != nil}
}
