package store

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
)

// recorder is access that takes down every store, in order, beside carrying it out.
type recorder struct {
	plain
	log *[]stored
}

type stored struct {
	off int
	v   uint64
}

func (a recorder) Store(off int, v uint64) bool {
	*a.log = append(*a.log, stored{off, v})
	return a.plain.Store(off, v)
}

func (a recorder) Complete(off int, v uint64) bool { return a.Store(off, v) }

// past is memory as it was at each of a number of stores: what a NIC that makes no more than 8
// bytes atomic may read while a host without line words works.
type past struct {
	log     []stored
	initial []byte
	history map[int][]version // of a word: what it became at which store
	links   []int             // stores that made a link
	since   map[uint64]int    // keys that stay: after which store they are there
	table   *remote.Table
	torn    int // READs that gave what never stood there at once
}

type version struct {
	at int
	v  uint64
}

// word is what a word held after n stores.
func (p *past) word(off, n int) uint64 {
	v := wordOf(p.initial, off)
	for _, x := range p.history[off] {
		if x.at > n {
			break
		}
		v = x.v
	}
	return v
}

// read is a READ of a bucket that lasts from after store from to after store to: each word is of
// any moment in between.
func (p *past) read(random *rand.Rand, off, from, to int) (b layout.Bucket) {
	for i := range b {
		b[i] = p.word(off+8*i, from+random.IntN(to-from+1))
	}
	for n := from; n <= to; n++ {
		same := true
		for i := range b {
			same = same && b[i] == p.word(off+8*i, n)
		}
		if same {
			return b
		}
	}
	p.torn++
	return b
}

func wordOf(b []byte, off int) uint64 {
	return *(*uint64)(bytesAt(b, off))
}

// TestTornReadsLeadNobodyAstray looks keys up by READs that are torn at random, word by word, while
// the host inserts and gives back keys, with the stores of memory without line words. A key that
// is there all the while is found, by its entry or after being told that the place is stale; one
// that never was there is not.
func TestTornReadsLeadNobodyAstray(t *testing.T) {
	const stay, move = 2, 40
	seeds := 300
	if raceEnabled {
		seeds /= 10
	}
	c := Config{ID: 1, Name: "torn", ValueBytes: 8, MainBuckets: 1, IndirectBuckets: 10,
		Entries: 80}
	stale, torn := 0, 0
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		past := changed(t, c, random, stay, move)
		for _, cache := range []*remote.Cache{nil, remote.NewCache(1000, 1)} {
			for key := range uint64(stay + move + 1) {
				since, stays := past.since[key]
				if cache != nil { // what the cache knows is of before
					look(past, random, cache, key, 0, 0)
				}
				for range 4 {
					n, err := follow(past, random, cache, key, since)
					stale += n
					absent := errors.Is(err, remote.ErrNotFound)
					if err != nil && (stays || !absent) || key == stay+move && !absent {
						t.Fatalf("seed %d, key %d, there since %d, %v: %v", seed, key, since,
							stays, err)
					}
				}
			}
		}
		torn += past.torn
	}
	if torn < seeds || stale < seeds {
		t.Errorf("only %d READs were torn, and %d places out of date", torn, stale)
	}
}

// changed makes a table with keys that stay, and the record of some changes to others.
func changed(t *testing.T, c Config, random *rand.Rand, stay, move uint64) *past {
	t.Helper()
	table, err := Format(c, htm.NewMemory(tabletest.Aligned(c.Bytes()), nil, 0, nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	var log []stored
	a := recorder{plainOf(table.base), &log}
	since := map[uint64]int{} // after which store a key is there, if it stays so
	toggle := func(remove bool) {
		key := stay + random.Uint64N(move)
		_, live := since[key]
		if live != remove {
			return
		}
		if live {
			delete(since, key)
			if _, err := reclaim(table, a, key, 0); err != nil {
				t.Fatal(err)
			}
			return
		}
		if _, _, _, err := ensure(table, a, key, 0); err != nil {
			t.Fatal(err)
		}
		since[key] = len(log)
	}
	for key := range stay { // among others, so that those that stay stand anywhere in the chains
		for range 10 {
			toggle(false)
		}
		if err := table.Load(key, tabletest.Value(8, key)); err != nil {
			t.Fatal(err)
		}
	}
	log = log[:0]
	for key := range since {
		since[key] = 0
	}
	before := append([]byte(nil), table.m.Bytes...)
	for range 6 { // chains shrink to little, and grow
		for range 200 {
			toggle(true)
		}
		for range 60 {
			toggle(false)
		}
	}
	for key := range stay {
		since[key] = 0
	}
	p := &past{log: log, initial: before, history: map[int][]version{}, since: since,
		table: remote.Open(table.Describe(), verbs.RemoteMR{Length: uint64(len(before))})}
	for i, s := range log {
		p.history[s.off] = append(p.history[s.off], version{i + 1, s.v})
		if layout.Slot(s.v).Type() == layout.Header {
			p.links = append(p.links, i)
		}
	}
	return p
}

// follow looks a key up from some moment after since on, again after each place that turns out to
// be out of date, and counts those. Time passes while it reads.
func follow(p *past, random *rand.Rand, cache *remote.Cache, key uint64, since int) (stale int,
	err error) {
	now := since + random.IntN(len(p.log)-since+1)
	if i, _ := slices.BinarySearch(p.links, since); i < len(p.links) && random.IntN(4) > 0 {
		link := p.links[i+random.IntN(len(p.links)-i)] // just before a chain changes
		now = max(since, link-random.IntN(12))
	}
	for range len(p.log) + 2 {
		var e remote.Entry
		if e, now, err = look(p, random, cache, key, now, len(p.log)); err != nil {
			return stale, err
		}
		off := int(e.Off)
		v := layout.Version(p.word(off+layout.VersionOffset, now))
		if layout.Match(key, p.word(off+layout.KeyOffset, now), v) != layout.Stale {
			return stale, nil
		}
		stale++
		cache.Invalidate(p.table, key)
	}
	return stale, errors.New("every place was out of date")
}

// look runs one look-up from a moment on, and gives the moment at which it ended.
func look(p *past, random *rand.Rand, cache *remote.Cache, key uint64,
	now, end int) (remote.Entry, int, error) {
	var s remote.Search
	for s.Start(p.table, cache, key); !s.Done(); {
		next := now + random.IntN(min(end-now, 8)+1)
		if random.IntN(8) == 0 {
			next = now + random.IntN(min(end-now, 200)+1)
		}
		b := p.read(random, int(s.Next()), now, next)
		now = next
		s.Feed(&b)
	}
	e, err := s.Result()
	return e, now, err
}

// TestOldAddressOfAnEntryProvesNothing: somebody with an out-of-date address locks an entry that is
// free, and READs it, each word at a moment of its own after the lock, the header in its order. A
// locked entry is given to nobody, but who looked before the lock came may give it to another key
// under it. Whatever is read, it is not the absence of the key that the entry was bound to once.
func TestOldAddressOfAnEntryProvesNothing(t *testing.T) {
	const old, other = 5, 6
	c := Config{ID: 1, Name: "old", ValueBytes: 8, MainBuckets: 1, Entries: 1}
	table, err := Format(c, htm.NewMemory(tabletest.Aligned(c.Bytes()), nil, 0, nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	var log []stored
	a := recorder{plainOf(table.base), &log}
	off, _, _, err := ensure(table, a, old, 0)
	if err != nil {
		t.Fatal(err)
	}
	// From here on the lock can be taken: before, who gives the entry back holds it.
	if _, err := reclaim(table, a, old, 0); err != nil {
		t.Fatal(err)
	}
	before := append([]byte(nil), table.m.Bytes...)
	log = log[:0]
	if again, _, _, err := ensure(table, a, other, 0); err != nil || again != off {
		t.Fatalf("the entry at %d, not %d: %v", again, off, err)
	}
	p := &past{log: log, initial: before, history: map[int][]version{}}
	for i, s := range log {
		p.history[s.off] = append(p.history[s.off], version{i + 1, s.v})
	}
	for lock := range len(log) + 1 {
		for atKey := lock; atKey <= len(log); atKey++ {
			for atVersion := atKey; atVersion <= len(log); atVersion++ {
				key := p.word(off+layout.KeyOffset, atKey)
				v := layout.Version(p.word(off+layout.VersionOffset, atVersion))
				if got := layout.Match(old, key, v); got != layout.Stale {
					t.Errorf("locked after %d stores, key read after %d, version %s after %d: %s", lock,
						atKey, v, atVersion, got)
				}
			}
		}
	}
}

// TestNoTableHasTheKeyOfNoKey.
func TestNoTableHasTheKeyOfNoKey(t *testing.T) {
	c := Config{ID: 1, Name: "none", ValueBytes: 8, MainBuckets: 1, Entries: 1}
	table, err := Format(c, htm.NewMemory(tabletest.Aligned(c.Bytes()), nil, 0, nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Load(layout.NoKey, make([]byte, 8)); !errors.Is(err, ErrKey) {
		t.Errorf("it was loaded: %v", err)
	}
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	if _, _, ok, err := table.EnsureIn(r, layout.NoKey, 0); !ok || !errors.Is(err, ErrKey) {
		t.Errorf("it has an entry: %v, %v", ok, err)
	}
}
