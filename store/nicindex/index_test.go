package nicindex

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"drtmd/store/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// check looks at every page and value: each is in one chain or free, a key has one object, counts are right.
func check(x *Index) error {
	seen := make([]string, len(x.pages))
	valued := make([]bool, len(x.owners))
	keys := map[uint64]bool{}
	objects, pinned, locked, held := 0, 0, 0, 0
	for s := range x.config.Segments {
		for i := int32(s); ; {
			p := &x.pages[i]
			if seen[i] != "" || p.segment != int32(s) {
				return fmt.Errorf("page %d of segment %d is also %s, and says %d", i, s, seen[i], p.segment)
			}
			seen[i] = "in a chain"
			taken := 0
			for j := range p.at {
				o := &p.at[j]
				if o.key == layout.NoKey {
					if *o != (position{key: layout.NoKey}) {
						return fmt.Errorf("a free position has %+v", *o)
					}
					continue
				}
				taken++
				if keys[o.key] || int(o.key)%x.config.Segments != s {
					return fmt.Errorf("key %d stands twice, or in segment %d", o.key, s)
				}
				keys[o.key] = true
				objects++
				if o.pins > 0 {
					pinned++
				}
				if o.owner != 0 {
					locked++
				}
				if o.value != 0 {
					held++
					if slot := o.value - 1; valued[slot] || x.owners[slot] != i*pagePositions+int32(j)+1 {
						return fmt.Errorf("value %d of key %d is of position %d", slot, o.key, x.owners[slot]-1)
					}
					valued[o.value-1] = true
				}
			}
			if taken == 0 && int(i) >= x.config.Segments {
				return fmt.Errorf("page %d of a chain is empty", i)
			}
			if p.next == 0 {
				break
			}
			i = p.next - 1
		}
	}
	for i := x.free; i != 0; i = x.pages[i-1].next {
		if seen[i-1] != "" {
			return fmt.Errorf("free page %d is also %s", i-1, seen[i-1])
		}
		seen[i-1] = "free"
	}
	for i, s := range seen {
		if s == "" {
			return fmt.Errorf("page %d is lost", i)
		}
	}
	for i := x.freeVal; i != 0; i = -x.owners[i-1] {
		if valued[i-1] {
			return fmt.Errorf("value %d is free and in use", i-1)
		}
		valued[i-1] = true
	}
	for i, v := range valued {
		if !v {
			return fmt.Errorf("value %d is lost", i)
		}
	}
	st := &x.Stats
	if st.Objects != objects || st.Pinned != pinned || st.Locked != locked || st.ValuesHeld != held {
		return fmt.Errorf("%d objects, %d pinned, %d locked, %d values, counted as %+v", objects, pinned, locked, held, *st)
	}
	if x.Bytes() > x.config.Budget {
		return fmt.Errorf("%d bytes of %d", x.Bytes(), x.config.Budget)
	}
	return nil
}

// committed is a version of a key with its value, which repeats a byte.
type committed struct {
	v layout.Version
	b byte
}

// world is the host and the transactions that an index serves.
type world struct {
	x       *Index
	random  *rand.Rand
	now     map[uint64]committed // as committed
	host    map[uint64]committed // as the host's table has it
	log     []uint64             // keys of commits that the host has still to apply
	logged  []committed
	owner   map[uint64]Owner
	written map[uint64]bool // committed, and locked still
	reads   []reading
	full    int
	steps   int
}

// reading is a DMA under way.
type reading struct {
	key    uint64
	cached bool // BeginRead has room
	brought
}

type brought struct {
	done bool
	committed
}

const (
	worldKeys  = 260
	worldValue = 20
)

func newWorld(t *testing.T, seed uint64, m Mutation) *world {
	t.Helper()
	c := Config{Name: "t", Segments: 5, ValueBytes: worldValue, Mutation: m}
	c.Budget = c.Least() + 300
	x, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{x: x, random: rand.New(rand.NewPCG(seed, 1)), now: map[uint64]committed{},
		host: map[uint64]committed{}, owner: map[uint64]Owner{}, written: map[uint64]bool{}}
	for k := range uint64(worldKeys) {
		w.now[k] = committed{layout.FirstVersion, byte(k)}
		w.host[k] = w.now[k]
	}
	return w
}

func (w *world) segment(key uint64) int { return int(key) % w.x.config.Segments }

// step does something at random and says what is wrong.
func (w *world) step() error {
	key := w.random.Uint64N(worldKeys)
	if n := len(w.log); n > 0 && w.random.IntN(3) == 0 {
		key = w.log[w.random.IntN(n)]
	}
	w.steps++
	many := w.steps/800%2 == 1 // locks pile up
	switch op := w.random.IntN(13); op {
	case 0, 1, 2, 3:
		return w.read(key)
	case 4, 5:
		return w.lock(key)
	case 12:
		if !many {
			if err := w.unlock(); err != nil {
				return err
			}
			return w.unlock()
		}
	case 6, 7:
		return w.commit()
	case 8:
		return w.unlock()
	case 9:
		if w.steps%300 < 100 { // the host is late at other times
			w.apply()
		}
	case 10:
		for i := range w.reads {
			r := &w.reads[i]
			if !r.done && w.random.IntN(2) == 0 {
				r.brought = brought{true, w.host[r.key]}
			}
		}
	default:
		for range 6 {
			w.endRead()
		}
	}
	return nil
}

func (w *world) read(key uint64) error {
	s, now := w.segment(key), w.now[key]
	if v, known, owner := w.x.Version(s, key); known && v != now.v || owner != w.owner[key] {
		return fmt.Errorf("key %d has version %v known %v, owner %d; want %v, %d", key, v, known, owner, now.v, w.owner[key])
	}
	v, value, o := w.x.Read(s, key, 0)
	switch {
	case (o == Locked) != (w.owner[key] != 0):
		return fmt.Errorf("key %d is %v, its owner is %d", key, o, w.owner[key])
	case o == Done && (v != now.v || v.Live() && (len(value) != worldValue || value[0] != now.b || value[worldValue-1] != now.b)):
		return fmt.Errorf("key %d has %v %v, want %+v", key, v, value, now)
	case o == Miss && w.host[key] != now:
		return fmt.Errorf("key %d is not in the cache, and the host has %+v, not %+v", key, w.host[key], now)
	}
	if o == Miss {
		w.reads = append(w.reads, reading{key: key, cached: w.x.BeginRead(s, key) == Done})
	}
	return nil
}

func (w *world) lock(key uint64) error {
	by := Owner(1 + w.random.Uint64N(3))
	had := w.owner[key]
	switch o := w.x.Lock(w.segment(key), key, by); {
	case o == Full:
		w.full++
	case (o == Done) != (had == 0 || had == by):
		return fmt.Errorf("key %d is locked by %d, and %v to %d", key, had, o, by)
	case o == Done:
		w.owner[key] = by
	}
	return nil
}

// some is a key that is locked: the first from a random one on.
func (w *world) some() (key uint64, ok bool) {
	from := w.random.Uint64N(worldKeys)
	for i := range uint64(worldKeys) {
		if key = (from + i) % worldKeys; w.owner[key] != 0 {
			return key, true
		}
	}
	return 0, false
}

func (w *world) commit() error {
	key, ok := w.some()
	if !ok || w.written[key] {
		return nil
	}
	was := w.now[key].v
	c := committed{was.Written(), byte(w.random.Uint64())}
	switch {
	case !was.Live():
		c.v = was.Inserted()
	case w.random.IntN(4) == 0:
		c = committed{v: was.Deleted()}
	}
	value := make([]byte, worldValue)
	for i := range value {
		value[i] = c.b
	}
	w.x.Commit(w.segment(key), key, w.owner[key], c.v, value)
	w.now[key], w.written[key] = c, true
	w.log, w.logged = append(w.log, key), append(w.logged, c)
	return nil
}

func (w *world) unlock() error {
	key, ok := w.some()
	if !ok {
		return nil
	}
	if w.x.Unlock(w.segment(key), key, w.owner[key]+1) || !w.x.Unlock(w.segment(key), key, w.owner[key]) {
		return fmt.Errorf("key %d is unlocked by another, or not by its owner", key)
	}
	delete(w.owner, key)
	delete(w.written, key)
	return nil
}

func (w *world) apply() {
	for range min(len(w.log), 12) {
		key := w.log[0]
		w.host[key] = w.logged[0]
		w.log, w.logged = w.log[1:], w.logged[1:]
		w.x.Unpin(w.segment(key), key)
	}
}

func (w *world) endRead() {
	if len(w.reads) == 0 {
		return
	}
	i := w.random.IntN(len(w.reads))
	r := w.reads[i]
	w.reads = append(w.reads[:i], w.reads[i+1:]...)
	if !r.cached {
		return
	}
	value := make([]byte, worldValue)
	for j := range value {
		value[j] = r.b
	}
	w.x.EndRead(w.segment(r.key), r.key, r.v, value, r.done)
}

// run lets random steps follow each other; checked says whether every word is looked at.
func run(t *testing.T, m Mutation, seed uint64, steps int, checked bool) (w *world, err error) {
	w = newWorld(t, seed, m)
	for i := range steps {
		if err = w.step(); err == nil && checked && i%16 == 0 {
			err = check(w.x)
		}
		if err != nil {
			return w, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return w, nil
}

// TestTheIndexSaysWhatWasCommitted runs reads, locks, commits and the host's work at random, with more keys than there
// is room for: what the index says is the last commit, and what it does not know the host has. Each step that this
// rests on is left out in turn.
func TestTheIndexSaysWhatWasCommitted(t *testing.T) {
	const seeds, steps = 12, 4000
	var evicted, full, stale, chained uint64
	for seed := range uint64(seeds) {
		w, err := run(t, 0, seed, steps, true)
		if err != nil {
			t.Fatalf("seed %d, %v", seed, err)
		}
		evicted, full, stale = evicted+w.x.Stats.Evicted, full+uint64(w.full), stale+w.x.Stats.Stale
		chained += uint64(w.x.Stats.Chained)
	}
	t.Logf("%d evicted, %d times full, %d stale values, %d pages in chains", evicted, full, stale, chained)
	if evicted == 0 || stale == 0 || chained == 0 {
		t.Error("not everything has happened")
	}
	for m := Mutation(1); m < mutationEnd; m++ {
		if m == OrderUnstamped || m == HintLowered {
			continue // of Order: TestAnOrderIsASortedSet; and TestHintsAreNotLowered
		}
		found := false
		for seed := uint64(0); seed < seeds && !found; seed++ {
			_, err := run(t, m, seed, steps, false)
			found = err != nil
		}
		if !found {
			t.Errorf("nothing is wrong with %v", m)
		}
	}
}

// TestATooSmallBudgetIsRefusedInWords: the message has the bytes that it takes.
func TestATooSmallBudgetIsRefusedInWords(t *testing.T) {
	c := Config{Name: "accounts", Segments: 1000, ValueBytes: 100, Budget: 128_000}
	_, err := New(c)
	if !errors.Is(err, ErrBudget) {
		t.Fatal(err)
	}
	for _, text := range []string{`"accounts"`, "128000 bytes", "1000 segments take 128000", "64 objects",
		fmt.Sprintf("give it %d or more", c.Least())} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v does not say %q", err, text)
		}
	}
	if c.Budget = c.Least(); c.Check() != nil {
		t.Error(c.Check())
	}
	for _, c := range []Config{{Segments: 0, ValueBytes: 8}, {Segments: 1, ValueBytes: 0}, {Segments: 1, ValueBytes: 5000},
		{Segments: maxPages, ValueBytes: 8}} {
		if c.Budget = 1 << 40; !errors.Is(c.Check(), ErrConfig) {
			t.Errorf("%+v: %v", c, c.Check())
		}
	}
}

// TestABudgetIsUsed: the index takes what it is given, but for less than a page and its values.
func TestABudgetIsUsed(t *testing.T) {
	for _, budget := range []int{0, 1, 1000, 1 << 20} {
		c := Config{Name: "t", Segments: 100, ValueBytes: 40}
		c.Budget = c.Least() + budget
		x, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if left := c.Budget - x.Bytes(); left < 0 || left >= pageBytes+pagePositions*c.valueStride() {
			t.Errorf("%d bytes of %d", x.Bytes(), c.Budget)
		}
	}
}

// TestEverythingLockedIsFull: a lock without room is refused, and granted when one has gone.
func TestEverythingLockedIsFull(t *testing.T) {
	c := Config{Name: "t", Segments: 1, ValueBytes: 8}
	c.Budget = c.Least()
	x, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for key := range uint64(leastObjects) {
		if o := x.Lock(0, key, 1); o != Done {
			t.Fatalf("lock %d of %d: %v", key, leastObjects, o)
		}
	}
	if o := x.Lock(0, leastObjects, 1); o != Full {
		t.Errorf("one more: %v", o)
	}
	if err := check(x); err != nil {
		t.Error(err)
	}
	if !x.Unlock(0, 3, 1) || x.Lock(0, leastObjects, 1) != Done {
		t.Error("no lock after one has gone")
	}
}

// TestHintsAreNotLowered by a look-up that has seen an older word; a newer word of the host lowers them.
func TestHintsAreNotLowered(t *testing.T) {
	for _, m := range []Mutation{0, HintLowered} {
		c := Config{Name: "t", Segments: 2, ValueBytes: 8, Mutation: m}
		c.Budget = c.Least()
		x, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, known := x.Hint(1); known {
			t.Error("a hint of nothing")
		}
		word, lowered := layout.Segment(0).Displaced(3), false
		for _, s := range []struct {
			word     layout.Segment
			distance int
			want     int
		}{{word, -1, 3}, {word, 5, 5}, {word, 2, 5}, {word.Displaced(1), 0, 1}} {
			x.LearnHint(1, s.word, s.distance)
			got, known := x.Hint(1)
			if lowered = lowered || got.Displacement() < s.want; !known || m == 0 && got.Displacement() != s.want {
				t.Errorf("after %v at %d: %v", s.word, s.distance, got)
			}
		}
		if lowered != (m == HintLowered) {
			t.Errorf("%v: a hint is lowered: %v", m, lowered)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	w := newWorld(t, 1, 0)
	value := make([]byte, worldValue)
	key := uint64(0)
	if n := testing.AllocsPerRun(500, func() {
		key = (key + 1) % worldKeys
		s := w.segment(key)
		if _, _, o := w.x.Read(s, key, 0); o == Miss && w.x.BeginRead(s, key) == Done {
			w.x.EndRead(s, key, layout.FirstVersion, value, true)
		}
		if w.x.Lock(s, key, 1) == Done {
			w.x.Commit(s, key, 1, layout.FirstVersion.Written(), value)
			w.x.Unlock(s, key, 1)
			w.x.Unpin(s, key)
		}
	}); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
