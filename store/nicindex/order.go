package nicindex

import "slices"

// Order is the order of a table's keys in NIC memory: which keys have a record, and which have come or gone lately. The
// paper has it in B+ trees of the host (§5.2); but a host's tree misses what waits in its logs, and the NIC validates. It
// belongs to the cores of one NIC, as an Index does.
type Order struct {
	chunks  [][]uint64 // ascending, none of them empty
	count   int
	changes [orderChanges]uint64 // keys of the last changes, by their number
	stamp   uint64               // changes so far
	lacks   Mutation
}

const (
	orderChunk = 256 // keys of a chunk, at most
	// orderChanges are remembered: a range that is validated after more of them counts as changed.
	orderChanges = 4096
	// orderKeyBytes is NIC memory for a key: chunks are half full in the worst case.
	orderKeyBytes = 16
)

// OrderBytes is the NIC memory of an order with room for so many keys.
func OrderBytes(keys int) int { return orderKeyBytes*keys + 8*orderChanges }

// NewOrder makes the order of some keys. The list is the order's afterwards.
func NewOrder(keys []uint64, m Mutation) *Order {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	o := &Order{count: len(keys), lacks: m}
	for c := range slices.Chunk(keys, orderChunk/2) {
		o.chunks = append(o.chunks, append(make([]uint64, 0, orderChunk), c...))
	}
	return o
}

// Len is how many keys there are.
func (o *Order) Len() int { return o.count }

// Stamp is what Unchanged compares with: the number of changes.
func (o *Order) Stamp() uint64 { return o.stamp }

// find is the chunk that a key is in or belongs to, and its place there.
func (o *Order) find(key uint64) (chunk, place int, found bool) {
	chunk, found = slices.BinarySearchFunc(o.chunks, key, func(c []uint64, k uint64) int {
		switch {
		case c[0] < k:
			return -1
		case c[0] > k:
			return 1
		}
		return 0
	})
	if !found {
		chunk = max(chunk-1, 0)
	}
	if len(o.chunks) == 0 {
		return 0, 0, false
	}
	place, found = slices.BinarySearch(o.chunks[chunk], key)
	return chunk, place, found
}

// Has reports whether a key has a record.
func (o *Order) Has(key uint64) bool {
	_, _, found := o.find(key)
	return found
}

// Set says whether a key has a record now.
func (o *Order) Set(key uint64, live bool) {
	chunk, place, found := o.find(key)
	if found == live {
		return
	}
	if o.lacks != OrderUnstamped {
		o.changes[o.stamp%orderChanges] = key
		o.stamp++
	}
	switch {
	case found:
		o.count--
		if o.chunks[chunk] = slices.Delete(o.chunks[chunk], place, place+1); len(o.chunks[chunk]) == 0 {
			o.chunks = slices.Delete(o.chunks, chunk, chunk+1)
		}
		return
	case len(o.chunks) == 0:
		o.chunks = append(o.chunks, make([]uint64, 0, orderChunk))
	case len(o.chunks[chunk]) == orderChunk:
		half := append(make([]uint64, 0, orderChunk), o.chunks[chunk][orderChunk/2:]...)
		o.chunks[chunk] = o.chunks[chunk][:orderChunk/2]
		if o.chunks = slices.Insert(o.chunks, chunk+1, half); place > orderChunk/2 {
			chunk, place = chunk+1, place-orderChunk/2
		}
	}
	o.count++
	o.chunks[chunk] = slices.Insert(o.chunks[chunk], place, key)
}

// Keys appends the first keys from one key to another, both included, at most so many: in ascending order, or if the first
// is above the second in descending order.
func (o *Order) Keys(dst []uint64, from, to uint64, most int) []uint64 {
	if len(o.chunks) == 0 {
		return dst
	}
	chunk, place, found := o.find(from)
	step := 1
	if from > to {
		step = -1
		if !found {
			place-- // the key before
		}
	}
	for ; most > 0; place += step {
		for place < 0 || place >= len(o.chunks[chunk]) {
			if chunk += step; chunk < 0 || chunk == len(o.chunks) {
				return dst
			}
			if place = 0; step < 0 {
				place = len(o.chunks[chunk]) - 1
			}
		}
		k := o.chunks[chunk][place]
		if step > 0 && k > to || step < 0 && k < to {
			return dst
		}
		dst = append(dst, k)
		most--
	}
	return dst
}

// Unchanged reports whether no key from low to high has come or gone since a stamp.
func (o *Order) Unchanged(since, low, high uint64) bool {
	if o.stamp-since > orderChanges {
		return false
	}
	for i := since; i < o.stamp; i++ {
		if k := o.changes[i%orderChanges]; low <= k && k <= high {
			return false
		}
	}
	return true
}
