package dlht

import (
	"fmt"
	"math/bits"
	"sync/atomic"

	"drtmd/internal/hostmem"
	"drtmd/store"
)

// ErrCrowded: a bin is full though the table is nearly empty. It is a store.ErrFull.
var ErrCrowded error = fmt.Errorf("%w: 15 values share a bin of a table that is nearly empty, so more bins do not "+
	"help; store fewer values of one key", store.ErrFull)

// ErrBound: the table is at Config.MaxBytes. It is a store.ErrFull.
var ErrBound error = fmt.Errorf("%w: to grow it takes more than MaxBytes for the old bins and the new", store.ErrFull)

// ErrMemory: the host has not the memory to grow. It is a store.ErrFull.
var ErrMemory error = fmt.Errorf("%w: to grow it takes more memory than the host has available", store.ErrFull)

// Limits of Config.
const (
	MaxKeys  = 1 << 34
	minBins  = 8
	perBin   = 2 // records that New makes room for in each bin
	moveSome = 16
	askBytes = 16 << 20 // for bins that take less the host is not asked what it has
)

// Config of a table.
type Config struct {
	// Keys is how many records the table has room for without growing: 0 to MaxKeys.
	Keys int
	// MaxBytes bounds the memory of the bins, of the old and the new ones together while the table grows.
	// 0: no bound.
	MaxBytes int64
	// Duplicates lets a key have several values, up to 15.
	Duplicates bool
	// Seed of the hash. With a secret one nobody can choose keys that share a bin.
	Seed uint64
	// Mutation is a deliberate bug, for tests.
	Mutation Mutation

	step      func()                // called before each look at shared memory, by tests that order threads
	available func() (uint64, bool) // in the place of hostmem.Available, by tests
}

// Check names what is wrong with a configuration.
func (c Config) Check() error {
	switch {
	case c.Keys < 0 || c.Keys > MaxKeys:
		return fmt.Errorf("dlht: room for %d keys: give 0 to %d", c.Keys, MaxKeys)
	case c.MaxBytes < 0:
		return fmt.Errorf("dlht: a bound of %d bytes: give 0 for none, or more", c.MaxBytes)
	case c.MaxBytes > 0 && indexBytes(c.bins()) > c.MaxBytes:
		return fmt.Errorf("dlht: room for %d keys takes %d bytes, more than the bound of %d: raise it, or give fewer keys",
			c.Keys, indexBytes(c.bins()), c.MaxBytes)
	}
	return nil
}

// bins is a power of two.
func (c Config) bins() int {
	return 1 << bits.Len(uint(max((c.Keys+perBin-1)/perBin, minBins)-1))
}

// Bytes is what the bins take before the table grows.
func (c Config) Bytes() int64 { return indexBytes(c.bins()) }

// core is what Table and Map share: records with a word as key.
type core struct {
	config  Config
	classes bool // values tell the class of their key
	index   atomic.Pointer[index]
}

func (c *core) init(config Config) error {
	if err := config.Check(); err != nil {
		return err
	}
	c.config = config
	if c.config.available == nil {
		c.config.available = hostmem.Available
	}
	size := indexBytes(config.bins())
	if most, ok := c.hostHas(size); !ok {
		return fmt.Errorf("dlht: room for %d keys takes %d bytes, and the host has %d available: give fewer keys",
			config.Keys, size, most)
	}
	c.index.Store(makeIndex(config.bins()))
	return nil
}

// hostHas reports whether the host has memory for bins of so many bytes, and how many bytes it has if not. Without
// the question Go's runtime would end the process.
func (c *core) hostHas(size int64) (most uint64, ok bool) {
	if size < askBytes {
		return 0, true
	}
	most, known := c.config.available()
	return most, !known || uint64(size) <= most
}

// step lets tests order threads.
func (c *core) step() {
	if c.config.step != nil {
		c.config.step()
	}
}

// hash spreads a key (the finalizer of SplitMix64).
func (c *core) hash(key uint64) uint64 {
	h := key ^ c.config.Seed
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// hashOf is the hash of a record.
func (c *core) hashOf(key, value uint64) uint64 {
	if c.classes {
		key ^= classOf(value).spread()
	}
	return c.hash(key)
}

// matcher tells records with the same key word apart. nil: the word decides.
type matcher struct {
	blocks *blocks // of a Map: nil matches one value
	value  uint64
	class  class
	key    []byte // longer than a word
}

func (m *matcher) matches(value uint64) bool {
	if m.blocks == nil {
		return value == m.value
	}
	return classOf(value) == m.class && (m.class != longKey || m.blocks.hasKey(value, m.key))
}

// find looks for a key in the slots that are taken. It proves something only if the header is the same afterwards.
func (c *core) find(x *index, b *line, h header, key uint64, m *matcher) (at int, value uint64, found bool) {
	for left := h.takenSlots(); left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(uint64(left)) / 2
		c.step()
		k, v := x.slot(b, i).load()
		if k == key && (m == nil || m.matches(v)) {
			return i, v, true
		}
	}
	return 0, 0, false
}

// get looks a key up. It never waits: not for a change either, as every repetition means that another operation
// has succeeded.
func (c *core) get(hash, key uint64, m *matcher) (value uint64, found bool) {
	x := c.index.Load()
	b := x.bin(hash)
	for {
		c.step()
		h := b.header()
		if h&moved != 0 {
			x = x.next.Load()
			b = x.bin(hash)
			continue
		}
		_, value, found = c.find(x, b, h, key, m)
		c.step()
		if b.header().sameAs(h) || found && c.lacks(SlotReusedUnderReader) ||
			!found && c.lacks(ChainReadWithoutRecheck) {
			return value, found
		}
	}
}

// bin is the bin of a hash that may be changed, with its header. If the table grows, it moves bins first.
func (c *core) bin(hash uint64) (x *index, b *line, h header) {
	x = c.index.Load()
	for {
		if next := x.next.Load(); next != nil {
			c.moveBin(x, int(hash&uint64(len(x.bins)-1)))
			c.moveOthers(x)
			x = next
			continue
		}
		c.step()
		b = x.bin(hash)
		if h = b.header(); h&(frozen|moved) == 0 {
			return x, b, h
		}
		// The table has begun to grow in between.
	}
}

// seen is a record that was found at a moment when the header was h.
type seen struct {
	x     *index
	b     *line
	h     header
	at    int
	value uint64
}

// look finds a key in a bin that may be changed, at a moment.
func (c *core) look(hash, key uint64, m *matcher) (s seen, found bool) {
	for {
		s.x, s.b, s.h = c.bin(hash)
		s.at, s.value, found = c.find(s.x, s.b, s.h, key, m)
		c.step()
		if now := s.b.header(); now.sameAs(s.h) {
			s.h = now
			return s, found
		}
	}
}

// claim claims a free slot and fills it. ok is false, without an error, if the bin has changed.
func (c *core) claim(s seen, key, value uint64) (slot int, ok bool, err error) {
	i := s.h.free()
	if i == binSlots || i >= ownSlots && !s.x.linkFor(s.b, i, true) {
		c.step()
		return 0, false, c.grow(s.x, i == binSlots)
	}
	c.step()
	if !s.b.change(s.h, s.h|claimed(i)) {
		return 0, false, nil
	}
	c.step()
	s.x.slot(s.b, i).store(key, value)
	return i, true, nil
}

// unclaim gives a claimed slot back. In a bin that is being moved nobody cares.
func (c *core) unclaim(b *line, i int) {
	for {
		c.step()
		h := b.header()
		if h&(frozen|moved) != 0 || b.change(h, h&^claimed(i)) {
			return
		}
	}
}

// insert adds a record, unless there is one of the key and unique is set.
func (c *core) insert(hash, key, value uint64, m *matcher, unique bool) (present uint64, done bool, err error) {
	for {
		s, found := c.look(hash, key, m)
		if found && unique {
			return s.value, false, nil
		}
		i, ok, err := c.claim(s, key, value)
		if err != nil {
			return 0, false, err
		}
		if !ok {
			continue
		}
		if present, done, again := c.take(s, i, -1, key, m, unique); !again {
			return present, done, nil
		}
	}
}

// take makes a claimed slot taken and frees another one (-1: none), if that is still what the key has. again: the
// bin is being moved.
func (c *core) take(s seen, i, old int, key uint64, m *matcher, unique bool) (present uint64, done, again bool) {
	for {
		c.step()
		h := s.b.header()
		if h&(frozen|moved) != 0 && !c.lacks(ResizeLosesInsert) {
			return 0, false, true
		}
		if !h.sameAs(s.h) && (unique || old >= 0) && !c.lacks(InsertWithoutSecondLook) {
			at, value, found := c.find(s.x, s.b, h, key, m)
			c.step()
			if !s.b.header().sameAs(h) {
				continue
			}
			if old < 0 && found || old >= 0 && !found {
				c.unclaim(s.b, i)
				return value, false, false
			}
			if old >= 0 {
				old, s.value = at, value
			}
			s.h = h
		}
		to := (h&^claimed(i) | taken(i)) + version
		if old >= 0 {
			to &^= taken(old)
		}
		c.step()
		if s.b.change(h, to) {
			return s.value, true, false
		}
	}
}

// put replaces a record's value and returns the old one.
func (c *core) put(hash, key, value uint64, m *matcher) (old uint64, found bool, err error) {
	for {
		s, found := c.look(hash, key, m)
		if !found {
			return 0, false, nil
		}
		i, ok, err := c.claim(s, key, value)
		if err != nil {
			return 0, false, err
		}
		if !ok {
			continue
		}
		if old, found, again := c.take(s, i, s.at, key, m, true); !again {
			return old, found, nil
		}
	}
}

// remove removes a record and returns its value.
func (c *core) remove(hash, key uint64, m *matcher) (old uint64, found bool) {
	for {
		s, found := c.look(hash, key, m)
		if !found {
			return 0, false
		}
		for {
			c.step()
			if s.b.change(s.h, s.h&^taken(s.at)+version) {
				return s.value, true
			}
			if !c.lacks(LostDelete) {
				break
			}
			s.h = s.b.header()
		}
	}
}

// all calls f with every record. A record that is there all the time is given once, others at most once.
func (c *core) all(f func(key, value uint64) bool) {
	x := c.index.Load()
	for i := range x.bins {
		if !c.allOf(x, i, f) {
			return
		}
	}
}

func (c *core) allOf(x *index, i int, f func(key, value uint64) bool) bool {
	records, here := c.records(x, &x.bins[i])
	if !here {
		next := x.next.Load()
		return c.allOf(next, i, f) && (len(next.bins) == len(x.bins) || c.allOf(next, i+len(x.bins), f))
	}
	for _, r := range records.slots[:records.n] {
		if !f(r[0], r[1]) {
			return false
		}
	}
	return true
}

// binRecords are what a bin has at one moment.
type binRecords struct {
	slots [binSlots]slot
	n     int
}

// records reads a bin; here is false if it has moved.
func (c *core) records(x *index, b *line) (r binRecords, here bool) {
	for {
		c.step()
		h := b.header()
		if h&moved != 0 {
			return r, false
		}
		r.n = 0
		for left := h.takenSlots(); left != 0; left &= left - 1 {
			c.step()
			r.slots[r.n][0], r.slots[r.n][1] = x.slot(b, bits.TrailingZeros64(uint64(left))/2).load()
			r.n++
		}
		c.step()
		if b.header().sameAs(h) {
			return r, true
		}
	}
}
