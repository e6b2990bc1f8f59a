package htm

import (
	"slices"
	"testing"

	"drtmd/verbs/lineword"
)

// hooked is a Committer whose hooks are functions; nil agrees.
type hooked struct {
	calls                   []string
	lock, confirm, validate func() bool
}

func (h *hooked) call(name string, f func() bool) bool {
	h.calls = append(h.calls, name)
	return f == nil || f()
}

func (h *hooked) Confirm() bool { return h.call("confirm", h.confirm) }

// records is the same with the hooks for memory without line words.
type records struct{ hooked }

func (h *records) Lock() bool     { return h.call("lock", h.lock) }
func (h *records) Validate() bool { return h.call("validate", h.validate) }
func (h *records) Unlock(published bool) {
	name := "unlock"
	if published {
		name = "unlock published"
	}
	h.call(name, nil)
}

func no() bool { return false }

func TestAbortCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(r *Region, m, other *Memory, flag *uint32)
		code Code
		arg  uint8
	}{
		{"a line read is written by another", func(r *Region, m, other *Memory, _ *uint32) {
			r.Load64(m, 0)
			write(other, 8, 1)
			r.Commit(nil)
		}, Conflict, 0},
		{"a line written is written by another", func(r *Region, m, other *Memory, _ *uint32) {
			r.Store64(m, 0, 1)
			write(other, 8, 1)
			r.Commit(nil)
		}, Conflict, 0},
		{"a line is locked at the first touch", func(r *Region, m, _ *Memory, _ *uint32) {
			hold(m, 0)
			r.Load64(m, 0)
			r.Commit(nil)
		}, Conflict, 0},
		{"a line read is locked at the commit", func(r *Region, m, _ *Memory, _ *uint32) {
			r.Load64(m, 0)
			r.Store64(m, 64, 1)
			hold(m, 0)
			r.Commit(nil)
		}, Conflict, 0},
		{"an earlier line changed when a new one is read", func(r *Region, m, o *Memory, _ *uint32) {
			r.Load64(m, 0)
			write(o, 0, 1)
			r.Load64(m, 64)
		}, Conflict, 0},
		{"abort with a number", func(r *Region, m, _ *Memory, _ *uint32) {
			r.Store64(m, 0, 1)
			r.Abort(42)
			r.Commit(nil)
		}, Explicit, 42},
		{"not confirmed", func(r *Region, m, _ *Memory, _ *uint32) {
			r.Store64(m, 0, 1)
			r.Commit(&hooked{confirm: no})
		}, Explicit, Unconfirmed},
		{"begin inside", func(r *Region, m, _ *Memory, _ *uint32) {
			r.Store64(m, 0, 1)
			if r.Begin() {
				panic("nested")
			}
			r.Commit(nil)
		}, Nested, 0},
		{"a verb was posted, seen by the commit", func(r *Region, m, _ *Memory, flag *uint32) {
			r.Store64(m, 0, 1)
			*flag = FlagPosted
			r.Commit(nil)
		}, System, 0},
		{"a verb was posted, seen by the next line", func(r *Region, m, _ *Memory, flag *uint32) {
			*flag = FlagPosted
			r.Load64(m, 0)
		}, System, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bed := newBed(4, 2)
			var flag uint32
			r := NewRegion(Config{Flag: &flag, Spins: -1})
			if !r.Begin() || flag != FlagActive || !r.Active() {
				t.Fatal("no region")
			}
			c.run(r, bed.memories[0], bed.memories[1], &flag)
			if code, arg := r.Aborted(); code != c.code || arg != c.arg {
				t.Errorf("aborted by %s(%d), want %s(%d)", code, arg, c.code, c.arg)
			}
			if _, ok := r.Load64(bed.memories[0], 128); ok || r.Active() || flag != FlagIdle {
				t.Errorf("the region goes on after its abort, flag %d", flag)
			}
			if r.Stats.Aborts[c.code] != 1 || r.Stats.Begun != 1 || r.Stats.Committed != 0 {
				t.Errorf("stats %+v", r.Stats)
			}
			if got := load(bed.bytes, 0); got != 0 && c.code != Conflict {
				t.Errorf("an aborted region stored %d", got)
			}
			if s, _ := bed.memories[0].journal.State(); s != lineword.JournalIdle {
				t.Errorf("the journal is %s", s)
			}
			if r.Begin(); !r.Commit(nil) {
				t.Error("no region commits after an abort")
			}
		})
	}
}

// write commits a word by a region of its own.
func write(m *Memory, off int, v uint64) {
	r := NewRegion(Config{})
	r.Begin()
	r.Store64(m, off, v)
	if !r.Commit(nil) {
		panic("the only region did not commit")
	}
}

// hold locks a line as somebody else.
func hold(m *Memory, line int) {
	p := m.word(line)
	if !lineword.TryLock(p, lineword.Load(p), 9) {
		panic("already held")
	}
}

func load(b []byte, off int) uint64 {
	m := NewMemory(b, nil, 0, nil)
	r := NewRegion(Config{})
	r.Begin()
	v, _ := r.Load64(m, off)
	return v
}

// TestManyLines makes the set of lines grow and use its index.
func TestManyLines(t *testing.T) {
	const lines, wrote = 700, 300
	bed := newBed(lines, 1)
	m := bed.memories[0]
	r := NewRegion(Config{})
	for round := range 3 {
		r.Begin()
		for i := range lines {
			at := i * 769 % lines
			v, ok := r.Load64(m, at*LineBytes)
			want := uint64(round)
			if at >= wrote {
				want = 0
			}
			if !ok || v != want {
				t.Fatalf("line %d holds %d, want %d", at, v, want)
			}
		}
		for at := range wrote {
			v, _ := r.Load64(m, at*LineBytes)
			r.Store64(m, at*LineBytes, v+1)
		}
		for at := range wrote {
			if v, ok := r.Load64(m, at*LineBytes); !ok || v != uint64(round+1) {
				t.Fatalf("line %d holds %d after the store", at, v)
			}
		}
		if r.lines.n != lines || !r.Commit(nil) {
			t.Fatal(r.Aborted())
		}
	}
	bed.unlocked(t)
}

// TestLinesAreTakenInAscendingOrder looks at the order of publication, which is that of the locks:
// it must not depend on the order of the stores.
func TestLinesAreTakenInAscendingOrder(t *testing.T) {
	bed := newBed(8, 1)
	var got []int
	r := NewRegion(Config{Published: func(_ *Memory, line int) { got = append(got, line) }})
	r.Begin()
	for _, line := range []int{5, 1, 7, 0, 3} {
		r.Store64(bed.memories[0], line*LineBytes, 1)
	}
	if !r.Commit(nil) || !slices.Equal(got, []int{0, 1, 3, 5, 7}) {
		t.Errorf("published %v", got)
	}
}

// TestConfirmRunsBetweenLockAndValidation is the order of design decision 6: at the confirmation
// nobody can read or write what is to be published, and what changes until then is found.
func TestConfirmRunsBetweenLockAndValidation(t *testing.T) {
	bed := newBed(4, 2)
	m, other := bed.memories[0], bed.memories[1]
	r := NewRegion(Config{})
	r.Begin()
	r.Load64(m, 0)
	r.Store64(m, 64, 5)
	var line [LineBytes]byte
	h := &hooked{confirm: func() bool {
		if w := lineword.Load(&bed.words[1]); !w.Locked() || w.Owner() != m.Slot {
			t.Errorf("the written line is at %s", w)
		}
		var words [3]uint64
		if other.Peek(1, &line) || other.PeekWords(LineBytes+8, &words) {
			t.Error("the written line can be read")
		}
		if !other.Peek(0, &line) || !other.PeekWords(8, &words) {
			t.Error("a line that was only read cannot be read")
		}
		write(other, 0, 1)
		return true
	}}
	if r.Commit(h) {
		t.Error("committed on a line that changed during the confirmation")
	}
	if got := load(bed.bytes, 64); got != 0 {
		t.Errorf("stored %d", got)
	}
	bed.unlocked(t)
	if len(h.calls) != 1 {
		t.Errorf("calls %v", h.calls)
	}
}

// TestPeekWordsGivesWordsOfALine with and without line words.
func TestPeekWordsGivesWordsOfALine(t *testing.T) {
	bed := newBed(2, 1)
	m := bed.memories[0]
	for i := range lineWords {
		write(m, LineBytes+8*i, uint64(10+i))
	}
	for _, m := range []*Memory{m, NewMemory(m.Bytes, nil, 0, nil)} {
		for _, at := range []int{0, 2, lineWords - 3} {
			var got [3]uint64
			want := [3]uint64{uint64(10 + at), uint64(11 + at), uint64(12 + at)}
			if !m.PeekWords(LineBytes+8*at, &got) || got != want {
				t.Errorf("words %d to %d are %v, not %v", at, at+2, got, want)
			}
		}
	}
}

// TestRecordsAreCommittedInDecisionThreesOrder covers memory without line words.
func TestRecordsAreCommittedInDecisionThreesOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		h     records
		calls []string
		code  Code
		value uint64
	}{
		{"all agree", records{}, []string{"lock", "confirm", "validate", "unlock published"}, 0, 7},
		{"not locked", records{hooked{lock: no}}, []string{"lock", "unlock"}, Conflict, 0},
		{"not confirmed", records{hooked{confirm: no}},
			[]string{"lock", "confirm", "unlock"}, Explicit, 0},
		{"not valid", records{hooked{validate: no}},
			[]string{"lock", "confirm", "validate", "unlock"}, Conflict, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := plainBed(2)
			var flag uint32
			r := NewRegion(Config{Flag: &flag})
			r.Begin()
			r.Store64(m, 8, 7)
			if v, _ := r.Load64(m, 8); v != 7 {
				t.Errorf("the region reads %d", v)
			}
			inner := c.h.validate
			c.h.validate = func() bool {
				if flag != FlagIdle || r.Active() {
					t.Error("the hooks run inside the region: they could not post")
				}
				if got := load(m.Bytes, 8); got != 0 {
					t.Errorf("published before the validation: %d", got)
				}
				return inner == nil || inner()
			}
			if ok := r.Commit(&c.h); ok != (c.code == 0) {
				t.Errorf("commit: %v", ok)
			}
			if !slices.Equal(c.h.calls, c.calls) {
				t.Errorf("calls %v, want %v", c.h.calls, c.calls)
			}
			if code, _ := r.Aborted(); code != c.code || r.Stats.Aborts[code] != min(1, uint64(code)) {
				t.Errorf("aborted by %s, want %s", code, c.code)
			}
			if got := load(m.Bytes, 8); got != c.value {
				t.Errorf("memory holds %d, want %d", got, c.value)
			}
		})
	}
}

func TestSpuriousAbortsAreSystemAborts(t *testing.T) {
	bed := newBed(4, 1)
	n := 0
	r := NewRegion(Config{Spurious: func() bool { n++; return n%3 == 0 }})
	aborted := uint64(0)
	for range 30 {
		r.Begin()
		r.Store64(bed.memories[0], 0, 1)
		if !r.Commit(nil) {
			aborted++
		}
	}
	if aborted == 0 || r.Stats.Aborts[System] != aborted || r.Stats.Committed != 30-aborted {
		t.Errorf("%d aborted; %+v", aborted, r.Stats)
	}
	bed.unlocked(t)
}

func TestUnknownLinesAreRescued(t *testing.T) {
	bed := newBed(4, 1)
	m := bed.memories[0]
	var asked []int
	m.Rescue = func(line int) { asked = append(asked, line) }
	r := NewRegion(Config{Spins: 3})
	hold(m, 2)
	r.Begin()
	if _, ok := r.Load64(m, 2*LineBytes); ok || !slices.Equal(asked, []int{2}) {
		t.Errorf("rescue was asked for %v", asked)
	}
	lineword.Restore(m.word(2), lineword.Load(m.word(2)))
	r.Begin()
	r.Store64(m, LineBytes, 1)
	hold(m, 1)
	if r.Commit(nil) || !slices.Equal(asked, []int{2, 1}) || r.Stats.Rescues != 2 {
		t.Errorf("rescue was asked for %v", asked)
	}
}

func TestRegionsDoNotAllocate(t *testing.T) {
	bed := newBed(64, 1)
	m := bed.memories[0]
	r := NewRegion(Config{})
	c := new(agree)
	var buf [100]byte
	n := testing.AllocsPerRun(100, func() {
		r.Begin()
		for i := range 30 {
			v, _ := r.Load64(m, i*LineBytes)
			r.Store64(m, i*LineBytes+8, v)
			r.Load(m, i*LineBytes, buf[:])
			r.Store(m, i*LineBytes, buf[:])
		}
		if !r.Commit(c) {
			t.Fatal(r.Aborted())
		}
		r.Begin()
		r.Abort(1)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestUpdateWritesOnlyTheLinesThatDiffer: the others count as read, so that who changes them is a conflict.
func TestUpdateWritesOnlyTheLinesThatDiffer(t *testing.T) {
	bed := newBed(8, 2)
	m, other := bed.memories[0], bed.memories[1]
	g := Geometry{LineBytes: 64, Sets: 1, Ways: 2, ReadLines: 8}
	r := NewRegion(Config{Geometry: g})
	src := make([]byte, 4*LineBytes-8)
	src[LineBytes] = 7 // in the second line of those from 8 on
	r.Begin()
	if !r.Update(m, 8, src) || !r.Commit(nil) {
		code, _ := r.Aborted()
		t.Fatalf("%s: more than one line was written", code)
	}
	if b := m.Bytes[8+LineBytes]; b != 7 {
		t.Errorf("%d was stored", b)
	}
	r.Begin()
	src[LineBytes] = 8
	if !r.Update(m, 8, src) {
		t.Fatal("aborted")
	}
	w := NewRegion(Config{Geometry: g})
	w.Begin()
	if !w.Store64(other, 3*LineBytes, 1) || !w.Commit(nil) {
		t.Fatal("the other region aborted")
	}
	if r.Commit(nil) {
		t.Error("committed over a change of a line that it has compared")
	}
	if b := m.Bytes[8+LineBytes]; b != 7 {
		t.Errorf("%d was stored", b)
	}
	r.Begin()
	if !r.Store64(m, 8, 9) || !r.Update(m, 8, make([]byte, 8)) || !r.Commit(nil) || m.Bytes[8] != 0 {
		t.Error("what the region itself has written is compared with what was there before")
	}
}
