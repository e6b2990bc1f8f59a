package hopscotch

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/store/words"
	"drtmd/verbs"
)

// recorder is access that takes down every store, in order, beside carrying it out.
type recorder struct {
	words.Plain
	log *[]stored
}

type stored struct {
	off int
	v   uint64
}

func (a recorder) Store(off int, v uint64) bool {
	*a.log = append(*a.log, stored{off, v})
	return a.Plain.Store(off, v)
}

func (a recorder) Swap(off int, expect, swap uint64) (swapped, ok bool) {
	if v, _ := a.Load(off); v != expect {
		return false, true
	}
	return true, a.Store(off, swap)
}

// past is memory as it was at each of a number of stores: what a NIC that makes no more than 8
// bytes atomic may read while a host without line words works.
type past struct {
	log     []stored
	initial []byte
	history map[int][]at // of a word: what it became at which store
	since   map[uint64]int
	table   *remote.Table
	torn    int // READs that gave what never stood there at once
}

type at struct {
	store int
	v     uint64
}

// word is what a word held after n stores.
func (p *past) word(off, n int) uint64 {
	v := binary.LittleEndian.Uint64(p.initial[off:])
	for _, x := range p.history[off] {
		if x.store > n {
			break
		}
		v = x.v
	}
	return v
}

// read is a READ that lasts from after store from to after store to: its lines are of moments in between, in
// any order, and their words of moments after one another.
func (p *past) read(random *rand.Rand, off, bytes, from, to int) []byte {
	b := make([]byte, bytes)
	low, high := to, from
	for i := 0; i < bytes; i += 8 {
		if i == 0 || (off+i)%layout.LineBytes == 0 {
			low = from + random.IntN(to-from+1)
		}
		if low += random.IntN(2); low > to {
			low = to
		}
		high = max(high, low)
		binary.LittleEndian.PutUint64(b[i:], p.word(off+i, low))
	}
	if low != high {
		p.torn++
	}
	return b
}

// valueOf is the value that a key has in these tests.
func valueOf(key uint64) uint64 { return key*1000 + 7 }

// look looks a key up; each of its READs is of some stores, one behind the other. It gives the value that the
// record says it has, if its header is the same in a READ behind the first.
func (p *past) look(random *rand.Rand, key uint64) (value uint64, whole bool, err error) {
	const span = 12
	now := random.IntN(len(p.log) + 1)
	read := func(off, bytes int) []byte {
		to := min(now+random.IntN(span), len(p.log))
		b := p.read(random, off, bytes, now, to)
		now = to
		return b
	}
	var probe remote.Probe
	var piece []byte
	for probe.Start(p.table, key); !probe.Done(); {
		off, bytes := probe.Next()
		piece = read(off, bytes)
		guard := layout.Hop(0)
		if at, ok := probe.Guard(); ok {
			guard = layout.Hop(binary.LittleEndian.Uint64(read(at, 8)))
		}
		probe.Feed(piece, guard)
	}
	e, err := probe.Result()
	if err != nil {
		return 0, false, err
	}
	image := piece[probe.Found():]
	head := layout.HeadOf(image)
	again := layout.HeadOf(read(int(e.Off), layout.HeaderBytes))
	r := p.table.Record()
	if head != again || !r.Whole(image) || !head.Version.Live() {
		return 0, false, nil
	}
	b := r.Value(image[:r.Bytes], make([]byte, r.Room))
	return binary.LittleEndian.Uint64(b), true, nil
}

// changed has a host insert and give back keys, with the stores of memory without line words. Those below
// stay are there all the while.
func changed(t *testing.T, c Config, random *rand.Rand, stay, come uint64) *past {
	t.Helper()
	memory := tabletest.Memory(c.Bytes(), false)
	table, err := Format(c, memory, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &past{history: map[int][]at{}, since: map[uint64]int{}}
	for k := range stay {
		if err := table.Load(k, tabletest.Value(c.ValueBytes, valueOf(k))); err != nil {
			t.Fatal(err)
		}
	}
	p.initial = slices.Clone(memory.Bytes)
	p.table = remote.Open(table.Describe(), verbs.RemoteMR{Addr: 0, Length: uint64(c.Bytes()), RKey: 1})
	a := recorder{words.Plain{Base: unsafe.Pointer(unsafe.SliceData(memory.Bytes))}, &p.log}
	there := map[uint64]bool{}
	for range 200 {
		key := stay + random.Uint64N(come)
		if there[key] {
			off, _ := table.Find(key)
			v := layout.HeadOf(memory.Bytes[off:]).Version
			a.Store(off+layout.StateOffset, 3)
			a.Store(off+layout.VersionOffset, uint64(v.Deleted()))
			if ok, err := reclaim(table, a, key, 3); !ok || err != nil {
				t.Fatal(ok, err)
			}
			a.Store(off+layout.StateOffset, 0)
			there[key] = false
			continue
		}
		off, v, ok, err := ensure(table, a, key, 0, true)
		if errors.Is(err, ErrFull) {
			continue
		}
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		there[key] = true
		a.Store(off+layout.StateOffset, 3)
		image := make([]byte, table.record.Bytes+8)
		binary.LittleEndian.PutUint64(image, key)
		table.record.Put(image, v.Inserted(), tabletest.Value(c.ValueBytes, valueOf(key)))
		a.Store(off+layout.VersionOffset, uint64(v.Inserted()))
		for line := 0; line < table.record.Bytes; line += layout.LineBytes {
			end := min(line+layout.LineBytes, (table.record.Bytes+7)&^7)
			for i := max(line+8, layout.ValueOffset); i < end; i += 8 {
				a.Store(off+i, binary.LittleEndian.Uint64(image[i:]))
			}
			if line > 0 { // the version of a further line
				a.Store(off+line, binary.LittleEndian.Uint64(image[line:]))
			}
		}
		a.Store(off+layout.StateOffset, 0)
	}
	if err := checkTable(table); err != nil {
		t.Fatal(err)
	}
	for i, s := range p.log {
		p.history[s.off] = append(p.history[s.off], at{i + 1, s.v})
	}
	return p
}

// TestTornReadsLeadNobodyAstray looks keys up by READs that are torn at random, word by word, while the host
// inserts keys, moves records and gives them back. A key that is there all the while is found, with its value;
// one that never was there is not.
func TestTornReadsLeadNobodyAstray(t *testing.T) {
	if n := astray(t, 0); n != 0 {
		t.Errorf("%d look-ups went astray", n)
	}
	// And with steps left out, which shows that these schedules are no easy ones.
	for _, m := range []remote.Mutation{remote.NoVerify, remote.OverflowUnread} {
		if n := astray(t, m); n == 0 {
			t.Errorf("no look-up goes astray with %v", m)
		}
	}
}

func astray(t *testing.T, m remote.Mutation) (wrong int) {
	const stay, come = 12, 30
	c := Config{ID: 1, Name: "torn", Blocks: 12, CPULocks: true}
	seeds := uint64(100)
	torn, unstable := 0, 0
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		c.ValueBytes, c.Homes = 8+int(seed%3)*60, 4+int(seed%20)
		p := changed(t, c, random, stay, come)
		p.table.Mutate(m)
		for range 300 {
			key := random.Uint64N(stay + come + 10)
			v, whole, err := p.look(random, key)
			absent := errors.Is(err, remote.ErrNotFound)
			switch {
			case errors.Is(err, remote.ErrUnstable):
				unstable++
			case err != nil && !absent:
				t.Fatal(err)
			case absent && key < stay, err == nil && key >= stay+come, whole && v != valueOf(key):
				wrong++
			}
		}
		torn += p.torn
	}
	if torn < int(seeds) || unstable > 10 {
		t.Errorf("%d READs were torn; %d look-ups found no end", torn, unstable)
	}
	return wrong
}
