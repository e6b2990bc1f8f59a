package lookup

import (
	"errors"
	"math/rand/v2"
)

// errFull: a structure has no place for a key.
var errFull = errors.New("no place for the key")

// cuckoo is a cuckoo table of three hashes and one slot per bucket. A key is inserted in the first
// empty of its three slots, and looked up in the same order, a READ each.
type cuckoo struct {
	slots  []uint32 // key + 1, 0: empty
	random *rand.Rand
	moved  []move // of the walk under way
}

// move is what a step of a walk has overwritten.
type move struct {
	slot uint64
	was  uint32
}

// walkLimit bounds the keys that one insertion moves.
const walkLimit = 5000

func newCuckoo(slots int, random *rand.Rand) *cuckoo {
	return &cuckoo{slots: make([]uint32, slots), random: random}
}

// place is the slot that hash i gives a key. The third is the key itself: with dense keys it is a
// permutation, which the paper's 1.956 at 90 % comes from.
func (c *cuckoo) place(key uint64, i int) uint64 {
	n := uint64(len(c.slots))
	switch i {
	case 0:
		return mix(key+0x9e3779b97f4a7c15) % n
	case 1:
		return mix(key^0xd1b54a32d192ed03) % n
	}
	return key % n
}

// mix spreads a number over 64 bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// insert adds a key that is not there. The walk that makes room moves one key at a time, to the
// first empty one of its slots or else to one of its other two at random, and is undone if it
// comes to nothing: no key is ever lost.
func (c *cuckoo) insert(key uint64) error {
	if p, ok := c.empty(key); ok {
		c.slots[p] = uint32(key) + 1
		return nil
	}
	c.moved = c.moved[:0]
	hand, p := key, c.place(key, c.random.IntN(3))
	for range walkLimit {
		was := c.slots[p]
		c.moved = append(c.moved, move{p, was})
		c.slots[p] = uint32(hand) + 1
		if was == 0 {
			return nil
		}
		hand = uint64(was) - 1
		if q, ok := c.empty(hand); ok {
			p = q
		} else {
			p = c.other(hand, p)
		}
	}
	for i := len(c.moved) - 1; i >= 0; i-- {
		c.slots[c.moved[i].slot] = c.moved[i].was
	}
	return errFull
}

// empty is the first empty slot of a key.
func (c *cuckoo) empty(key uint64) (uint64, bool) {
	for i := range 3 {
		if p := c.place(key, i); c.slots[p] == 0 {
			return p, true
		}
	}
	return 0, false
}

// other is one of the key's slots that are not p; p itself if its hashes all give that one.
func (c *cuckoo) other(key, p uint64) uint64 {
	others := [3]uint64{p}
	n := 0
	for i := range 3 {
		if q := c.place(key, i); q != p {
			others[n] = q
			n++
		}
	}
	return others[c.random.IntN(max(n, 1))]
}

// reads is how many READs a look-up of the key takes; 0 if it is not there.
func (c *cuckoo) reads(key uint64) int {
	for i := range 3 {
		if c.slots[c.place(key, i)] == uint32(key)+1 {
			return i + 1
		}
	}
	return 0
}
