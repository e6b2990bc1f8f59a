package lookup

// hopscotch is hopscotch hashing as FaRM varies it: buckets of four slots; a key stands in its
// home bucket or the next one, which one READ fetches together, or in the chain of its home
// bucket, whose nodes have two slots and take a READ each.
type hopscotch struct {
	slots  []uint32   // key + 1, 0: empty; bucketSlots per bucket
	chains [][]uint32 // keys, by home bucket
}

const (
	bucketSlots = 4
	nodeSlots   = 2
)

func newHopscotch(slots int) *hopscotch {
	return &hopscotch{slots: make([]uint32, slots), chains: make([][]uint32, slots/bucketSlots)}
}

func (h *hopscotch) buckets() int { return len(h.chains) }

func (h *hopscotch) home(key uint64) int { return int(mix(key+1) % uint64(h.buckets())) }

// bucket is the slots of a bucket, which is counted around the end.
func (h *hopscotch) bucket(i int) []uint32 {
	i %= h.buckets()
	return h.slots[i*bucketSlots : (i+1)*bucketSlots]
}

// free is an empty slot of a bucket, or -1.
func (h *hopscotch) free(bucket int) int {
	for i, k := range h.bucket(bucket) {
		if k == 0 {
			return i
		}
	}
	return -1
}

// insert adds a key that is not there. If both of its buckets are full, the nearest hole behind
// them is brought back, bucket by bucket, in exchange for keys that may stand one bucket further
// on; what has been exchanged stays so, if in the end the key goes to the chain.
func (h *hopscotch) insert(key uint64) error {
	home := h.home(key)
	at := home
	for ; at < home+h.buckets() && h.free(at) < 0; at++ {
	}
	if at == home+h.buckets() {
		h.chain(home, key)
		return nil
	}
	for hole := h.free(at); ; {
		if at <= home+1 {
			h.bucket(at)[hole] = uint32(key) + 1
			return nil
		}
		from := h.movable(at - 1)
		if from < 0 {
			h.chain(home, key)
			return nil
		}
		h.bucket(at)[hole] = h.bucket(at - 1)[from]
		h.bucket(at - 1)[from] = 0
		at, hole = at-1, from
	}
}

// movable is a slot of a bucket whose key is at home there, or -1.
func (h *hopscotch) movable(bucket int) int {
	for i, k := range h.bucket(bucket) {
		if k != 0 && h.home(uint64(k)-1) == bucket%h.buckets() {
			return i
		}
	}
	return -1
}

func (h *hopscotch) chain(home int, key uint64) {
	h.chains[home] = append(h.chains[home], uint32(key))
}

// reads is how many READs a look-up of the key takes; 0 if it is not there.
func (h *hopscotch) reads(key uint64) int {
	home := h.home(key)
	for b := home; b <= home+1; b++ {
		for _, k := range h.bucket(b) {
			if k == uint32(key)+1 {
				return 1
			}
		}
	}
	for i, k := range h.chains[home] {
		if uint64(k) == key {
			return 2 + i/nodeSlots
		}
	}
	return 0
}

// HopscotchReads is the average number of READs of a look-up in such a table whose slots are taken to so many percent
// by keys from first on.
func HopscotchReads(slots, percent int, first uint64) (float64, error) {
	h := newHopscotch(slots)
	keys := slots / 100 * percent
	for k := range uint64(keys) {
		if err := h.insert(first + k); err != nil {
			return 0, err
		}
	}
	sum := 0
	for k := range uint64(keys) {
		sum += h.reads(first + k)
	}
	return float64(sum) / float64(keys), nil
}
