package robinhood

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// lines is memory with line words as it was at each step: a step is the publication of a line. While a commit
// publishes, the lines that it still has to publish are locked, and who wants to read one waits.
type lines struct {
	initial []byte
	line    map[int][]published
	steps   int
}

// published is what a line became at a step, of a commit that began behind another one.
type published struct {
	begun, step int
	bytes       [layout.LineBytes]byte
}

// commit takes down the lines in which memory differs from what it was.
func (l *lines) commit(was, is []byte) {
	begun := l.steps
	for at := 0; at < len(is); at += layout.LineBytes {
		if string(was[at:at+layout.LineBytes]) == string(is[at:at+layout.LineBytes]) {
			continue
		}
		l.steps++
		l.line[at] = append(l.line[at], published{begun, l.steps, [layout.LineBytes]byte(is[at:])})
	}
}

// at is a line as it is read after a step, and the step at which the read ends.
func (l *lines) at(off, step int) (line []byte, ends int) {
	line = l.initial[off : off+layout.LineBytes]
	all := l.line[off]
	first, _ := slices.BinarySearchFunc(all, step, func(p published, step int) int { return cmp.Compare(p.step, step) })
	if first > 0 {
		line = all[first-1].bytes[:]
	}
	for _, p := range all[first:] {
		switch {
		case p.step <= step:
		case p.begun < step: // it is locked
			step = p.step
		default:
			return line, step
		}
		line = p.bytes[:]
	}
	return line, step
}

// read is a read of lines in ascending order, which goes on so many steps between lines.
func (l *lines) read(off, bytes, step int, pace func() int) (b []byte, ends int) {
	first := off &^ (layout.LineBytes - 1)
	for at := first; at < off+bytes; at += layout.LineBytes {
		var line []byte
		line, step = l.at(at, step)
		b = append(b, line...)
		step = min(step+pace(), l.steps)
	}
	return b[off-first : off-first+bytes], step
}

// valueOf is the value of n bytes that a key has in these tests.
func valueOf(key uint64, n int) []byte {
	b := make([]byte, 0, n+8)
	for i := uint64(0); len(b) < n; i++ {
		b = binary.LittleEndian.AppendUint64(b, key*1000+i)
	}
	return b[:n]
}

// hosted has a host insert and give back keys, in regions. Those below stay are there all the while.
func hosted(t *testing.T, c Config, random *rand.Rand, stay, come uint64) *lines {
	t.Helper()
	memory := tabletest.Memory(c.Bytes(), true)
	table, err := Format(c, memory, 0)
	if err != nil {
		t.Fatal(err)
	}
	for k := range stay {
		if err := table.Load(k, valueOf(k, c.ValueBytes)); err != nil {
			t.Fatal(err)
		}
	}
	l := &lines{initial: slices.Clone(memory.Bytes), line: map[int][]published{}}
	r := htm.NewRegion(htm.Config{})
	there := map[uint64]bool{}
	image := make([]byte, table.record.Bytes)
	for range 150 {
		key := stay + random.Uint64N(come)
		was := slices.Clone(memory.Bytes)
		r.Begin()
		if there[key] {
			off, found, ok := table.FindIn(r, key)
			v := layout.HeadOf(memory.Bytes[off:]).Version
			if !found || !ok || !r.Store64(memory, off+layout.VersionOffset, uint64(v.Deleted())) {
				t.Fatal(found, ok)
			}
			if ok, err := table.ReclaimIn(r, key, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
			there[key] = false
		} else {
			off, v, ok, err := table.EnsureIn(r, key, 0)
			if errors.Is(err, store.ErrFull) {
				r.Abort(1)
				continue
			}
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			binary.LittleEndian.PutUint64(image, key)
			table.record.Put(image, v.Inserted(), valueOf(key, c.ValueBytes))
			r.Store64(memory, off+layout.VersionOffset, uint64(v.Inserted()))
			r.Store(memory, off+layout.ValueOffset, image[layout.ValueOffset:])
			there[key] = true
		}
		if !r.Commit(nil) {
			t.Fatal("a region that was alone aborted")
		}
		l.commit(was, memory.Bytes)
	}
	if err := checkTable(table); err != nil && c.Mutation == 0 {
		t.Fatal(err)
	}
	return l
}

// seen is what look-ups came to.
type seen struct{ astray, unstable, pieces, looks int }

// judge counts a look-up that ends with the piece b.
func (s *seen) judge(p *Probe, b []byte, key, stay, come uint64) {
	pieces, _ := p.Cost()
	s.pieces, s.looks = s.pieces+pieces, s.looks+1
	at, _ := p.Found()
	switch err := p.Err(); {
	case errors.Is(err, ErrUnstable):
		s.unstable++
	case err != nil:
		if key < stay {
			s.astray++
		}
	case key >= stay+come:
		s.astray++
	default:
		r := p.view.Record()
		h := layout.HeadOf(b[at:])
		value := r.Value(b[at:at+r.Bytes], make([]byte, r.Room))
		if h.Version.Live() && (h.Key != key || !bytes.Equal(value, valueOf(key, r.ValueBytes))) ||
			!h.Version.Live() && key < stay {
			s.astray++
		}
	}
}

// astray looks keys up while the host swaps, from every step on, with a hint of the beginning, one of the moment, and
// none, and at several paces.
func astray(t *testing.T, m Mutation, valueBytes int, seeds uint64) (s seen) {
	const stay, come = 10, 24
	for seed := range seeds {
		if m != 0 && s.astray > 0 {
			break
		}
		random := rand.New(rand.NewPCG(seed, 1))
		c := Config{ID: 1, Name: "torn", ValueBytes: valueBytes, Homes: 8 + int(seed%16), Limit: 2 + int(seed%7), Blocks: 16,
			Mutation: m}
		if c.outside() {
			c.Outside = stay + come + 2
		}
		l := hosted(t, c, random, stay, come)
		v := MakeView(c, 0)
		for step := range l.steps + 1 {
			for _, most := range []int{0, 1, 4} {
				key := random.Uint64N(stay + come + 4)
				word := v.Word(v.Segment(key))
				pace := func() int { return random.IntN(most + 1) }
				now := step
				hint := layout.Segment(binary.LittleEndian.Uint64(l.initial[word:]))
				if random.IntN(2) == 0 {
					var b []byte
					b, now = l.read(word, 8, now, pace)
					hint = layout.Segment(binary.LittleEndian.Uint64(b))
				}
				var p Probe
				var b []byte
				for p.Start(&v, key, hint, random.IntN(3) > 0); !p.Done(); {
					off, n := p.Next()
					b, now = l.read(off, n, now, pace)
					p.Feed(b)
				}
				s.judge(&p, b, key, stay, come)
			}
		}
	}
	return s
}

// TestSwapsLeadNoDMAAstray looks keys up by DMA, line by line, from every step of the host's commits on. A key that is
// there all the while is found, with its value; one that never was there is not. Each step that this rests on is left
// out in turn.
func TestSwapsLeadNoDMAAstray(t *testing.T) {
	for _, x := range []struct {
		name       string
		valueBytes int
		seeds      uint64
		found      []Mutation // that lead astray
	}{
		{"one line", 16, 6, []Mutation{ShiftUncounted, BlockSkipped, AbsenceUnproved}},
		{"several lines", 120, 3, []Mutation{TornTaken, AbsenceUnproved}},
		{"outside", 300, 3, []Mutation{KeyUnmatched, TornTaken, AbsenceUnproved}},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := astray(t, 0, x.valueBytes, x.seeds)
			t.Logf("%+v", s)
			if s.astray != 0 || s.unstable > s.looks/100 {
				t.Errorf("%+v", s)
			}
			for _, m := range x.found {
				if s := astray(t, m, x.valueBytes, 20); s.astray == 0 {
					t.Errorf("no look-up goes astray with %v: %+v", m, s)
				}
			}
		})
	}
}

// past is what a NIC may read of a table while its host works without line words.
type past struct {
	tabletest.Past
	view View
}

// changed has a host insert keys and give them back, with the stores of memory without line words, and records moving.
func changed(t *testing.T, c Config, random *rand.Rand, stay, come uint64) *past {
	t.Helper()
	memory := tabletest.Memory(c.Bytes(), false)
	table, err := Format(c, memory, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &past{view: MakeView(c, 0)}
	for k := range stay {
		if err := table.Load(k, valueOf(k, c.ValueBytes)); err != nil {
			t.Fatal(err)
		}
	}
	p.Initial = slices.Clone(memory.Bytes)
	a := tabletest.Recorder{Plain: words.Plain{Base: unsafe.Pointer(unsafe.SliceData(memory.Bytes))}, Log: &p.Log}
	there := map[uint64]bool{}
	image := make([]byte, table.record.Bytes+8)
	for range 150 {
		key := stay + random.Uint64N(come)
		if there[key] {
			off, _ := table.Find(key)
			a.Store(off+layout.StateOffset, 3)
			a.Store(off+layout.VersionOffset, uint64(layout.HeadOf(memory.Bytes[off:]).Version.Deleted()))
			if ok, err := reclaim(table, a, key, 3, false); !ok || err != nil {
				t.Fatal(ok, err)
			}
			a.Store(off+layout.StateOffset, 0)
			there[key] = false
			continue
		}
		off, v, ok, err := ensure(table, a, key, 0, len(table.path))
		if errors.Is(err, store.ErrFull) {
			continue
		}
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		there[key] = true
		a.Store(off+layout.StateOffset, 3)
		binary.LittleEndian.PutUint64(image, key)
		table.record.Put(image[:table.record.Bytes], v.Inserted(), valueOf(key, c.ValueBytes))
		a.Store(off+layout.VersionOffset, uint64(v.Inserted()))
		for i := layout.ValueOffset; i < table.record.Bytes; i += 8 {
			a.Store(off+i, binary.LittleEndian.Uint64(image[i:]))
		}
		a.Store(off+layout.StateOffset, 0)
	}
	if err := checkTable(table); err != nil {
		t.Fatal(err)
	}
	p.Index()
	return p
}

// torn looks keys up by reads that are torn word by word, in ascending order. What is found counts if its header is
// the same in a read behind the first.
func torn(t *testing.T, m Mutation, seeds uint64) (s seen, tears int) {
	const stay, come = 10, 24
	for seed := range seeds {
		if m != 0 && s.astray > 0 {
			break
		}
		random := rand.New(rand.NewPCG(seed, 2))
		c := Config{ID: 1, Name: "torn", ValueBytes: 8 + int(seed%3)*60, Homes: 8 + int(seed%16), Limit: 2 + int(seed%7),
			Blocks: 16, CPULocks: true, Mutation: m}
		h := changed(t, c, random, stay, come)
		for range 300 {
			key := random.Uint64N(stay + come + 4)
			now := random.IntN(len(h.Log) + 1)
			read := func(off, bytes int) []byte {
				end := min(now+random.IntN(12), len(h.Log))
				b := h.Read(random, off, bytes, now, end, true)
				now = end
				return b
			}
			var p Probe
			var b []byte
			for p.Start(&h.view, key, 0, false); !p.Done(); p.Feed(b) {
				b = read(p.Next())
			}
			if at, off := p.Found(); p.Err() == nil {
				if layout.HeadOf(b[at:]) != layout.HeadOf(read(off, layout.HeaderBytes)) {
					continue
				}
			}
			s.judge(&p, b, key, stay, come)
		}
		tears += h.Torn
	}
	return s, tears
}

// TestReadsTornByWordsLeadNobodyAstray: on a host without line words, whose records move away from their homes only.
// If records leave their slots before they are in new ones, they are missed.
func TestReadsTornByWordsLeadNobodyAstray(t *testing.T) {
	s, tears := torn(t, 0, 40)
	t.Logf("%+v, %d reads were torn", s, tears)
	if s.astray != 0 || s.unstable > s.looks/100 || tears < 40 {
		t.Errorf("%+v, %d reads were torn", s, tears)
	}
	for _, m := range []Mutation{SwapFromFront, AbsenceUnproved} {
		if s, _ := torn(t, m, 60); s.astray == 0 {
			t.Errorf("no look-up goes astray with %v: %+v", m, s)
		}
	}
}
