package hopscotch

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"drtmd/internal/testkit/raceskip"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/store/words"
	"drtmd/verbs"
)

// past is what a NIC may read of a table while its host works.
type past struct {
	tabletest.Past
	table *remote.Table
}

// valueOf is the value that a key has in these tests.
func valueOf(key uint64) uint64 { return key*1000 + 7 }

// look looks a key up; each of its READs is of some stores, one behind the other. It gives the value that the
// record says it has, if its header is the same in a READ behind the first.
func (p *past) look(random *rand.Rand, key uint64) (value uint64, whole bool, err error) {
	const span = 12
	now := random.IntN(len(p.Log) + 1)
	read := func(off, bytes int) []byte {
		to := min(now+random.IntN(span), len(p.Log))
		b := p.Read(random, off, bytes, now, to, false)
		now = to
		return b
	}
	var probe remote.Probe
	var piece []byte
	absence := remote.Proved
	if random.IntN(2) == 0 {
		absence = remote.ProvedAtOnce
	}
	for probe.StartFor(p.table, key, absence); !probe.Done(); {
		if at, ok := probe.Before(); ok {
			probe.Began(layout.Hop(binary.LittleEndian.Uint64(read(at, 8))))
		}
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
	p := &past{}
	for k := range stay {
		if err := table.Load(k, tabletest.Value(c.ValueBytes, valueOf(k))); err != nil {
			t.Fatal(err)
		}
	}
	p.Initial = slices.Clone(memory.Bytes)
	p.table = remote.Open(table.Describe(), verbs.RemoteMR{Addr: 0, Length: uint64(c.Bytes()), RKey: 1})
	a := tabletest.Recorder{Plain: words.Plain{Base: unsafe.Pointer(unsafe.SliceData(memory.Bytes))},
		Log: &p.Log}
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
	p.Index()
	return p
}

// TestTornReadsLeadNobodyAstray looks keys up by READs that are torn at random, word by word, while the host
// inserts keys, moves records and gives them back. A key that is there all the while is found, with its value;
// one that never was there is not.
func TestTornReadsLeadNobodyAstray(t *testing.T) {
	raceskip.OneGoroutine(t)
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
		torn += p.Torn
	}
	if torn < int(seeds) || unstable > 10 {
		t.Errorf("%d READs were torn; %d look-ups found no end", torn, unstable)
	}
	return wrong
}
