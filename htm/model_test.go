package htm

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// committed is what memory holds by the commits so far, with the number of the commit that
// changed each line last.
type committed struct {
	bytes   []byte
	changed []int
	commits int
}

// runner is a region with what it should know.
type runner struct {
	r      *Region
	m      *Memory
	own    []byte // memory as the region has to see it
	stored []bool // bytes that it has stored
	since  map[int]int
	peeked bool // a line was added and not compared with the others since
	room   []byte
	c      *committed
}

func (x *runner) begin(t *rapid.T) {
	if ok := x.r.Begin(); !ok {
		t.Fatal("begin failed outside of a region")
	}
	x.own = bytes.Clone(x.c.bytes)
	x.stored = make([]bool, len(x.own))
	x.since, x.peeked = map[int]int{}, false
}

// fresh reports whether no line that the region has touched, nor those of an access to come, was
// changed by another since it was touched.
func (x *runner) fresh() bool {
	for line, n := range x.since {
		if x.c.changed[line] > n {
			return false
		}
	}
	return true
}

// touch notes lines at the moment of an access and brings the view of new ones up to date.
func (x *runner) touch(off, n int) {
	for line := off / LineBytes; line <= (off+n-1)/LineBytes; line++ {
		if _, ok := x.since[line]; ok {
			continue
		}
		x.since[line] = x.c.commits
		copy(x.own[line*LineBytes:(line+1)*LineBytes], x.c.bytes[line*LineBytes:])
	}
}

// known reports whether the access needs no new line.
func (x *runner) known(off, n int) bool {
	for line := off / LineBytes; line <= (off+n-1)/LineBytes; line++ {
		if _, ok := x.since[line]; !ok {
			return false
		}
	}
	return true
}

// access checks the outcome of one: an access may fail exactly if a line was changed by another
// and the region had to look at memory, or has done so for Peek64 before.
func (x *runner) access(t *rapid.T, what string, off, n int, ok bool) bool {
	fresh, known := x.fresh(), x.known(off, n) && !x.peeked
	x.touch(off, n)
	x.peeked = false
	if want := fresh || known; ok != want {
		t.Fatalf("%s of %d bytes at %d: %v, want %v", what, n, off, ok, want)
	}
	if !ok {
		if c, _ := x.r.Aborted(); c != Conflict {
			t.Fatalf("%s: aborted by %s", what, c)
		}
	}
	return ok
}

func (x *runner) load(t *rapid.T) {
	off := rapid.IntRange(0, len(x.own)-1).Draw(t, "offset")
	n := rapid.IntRange(1, min(150, len(x.own)-off)).Draw(t, "bytes")
	got := make([]byte, n)
	if x.access(t, "load", off, n, x.r.Load(x.m, off, got)) &&
		!bytes.Equal(got, x.own[off:off+n]) {
		t.Fatalf("load of %d bytes at %d: %v, want %v", n, off, got, x.own[off:off+n])
	}
}

func (x *runner) store(t *rapid.T) {
	off := rapid.IntRange(0, len(x.own)-1).Draw(t, "offset")
	n := rapid.IntRange(1, min(150, len(x.own)-off)).Draw(t, "bytes")
	src := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "value")
	if x.access(t, "store", off, n, x.r.Store(x.m, off, src)) {
		copy(x.own[off:], src)
		for i := range n {
			x.stored[off+i] = true
		}
	}
}

func (x *runner) load64(t *rapid.T) {
	off := 8 * rapid.IntRange(0, len(x.own)/8-1).Draw(t, "word")
	v, ok := x.r.Load64(x.m, off)
	if b := bytesOf(v); x.access(t, "load64", off, 8, ok) && !bytes.Equal(b[:], x.own[off:off+8]) {
		t.Fatalf("load64 at %d: %v, want %v", off, b, x.own[off:off+8])
	}
}

// peek64 never fails, and shows what is in the line now, or was when the region saw it first.
func (x *runner) peek64(t *rapid.T) {
	off := 8 * rapid.IntRange(0, len(x.own)/8-1).Draw(t, "word")
	x.peeked = x.peeked || !x.known(off, 8) && len(x.since) > 0
	x.touch(off, 8)
	v, ok := x.r.Peek64(x.m, off)
	if b := bytesOf(v); !ok || !bytes.Equal(b[:], x.own[off:off+8]) {
		t.Fatalf("peek64 at %d: %v, want %v", off, b, x.own[off:off+8])
	}
}

// validate fails exactly if lines were peeked and one of the region has changed.
func (x *runner) validate(t *rapid.T) {
	if ok, want := x.r.Validate(), x.fresh() || !x.peeked; ok != want {
		t.Fatalf("validate: %v, want %v", ok, want)
	}
	x.peeked = false
}

func (x *runner) store64(t *rapid.T) {
	off := 8 * rapid.IntRange(0, len(x.own)/8-1).Draw(t, "word")
	v := rapid.Uint64().Draw(t, "value")
	if x.access(t, "store64", off, 8, x.r.Store64(x.m, off, v)) {
		b := bytesOf(v)
		copy(x.own[off:], b[:])
		for i := range 8 {
			x.stored[off+i] = true
		}
	}
}

func (x *runner) commit(t *rapid.T) {
	fresh := x.fresh()
	if ok := x.r.Commit(nil); ok != fresh {
		t.Fatalf("commit: %v, want %v", ok, fresh)
	}
	if !fresh {
		return
	}
	wrote := false
	for i, s := range x.stored {
		if s {
			x.c.bytes[i] = x.own[i]
			x.c.changed[i/LineBytes] = x.c.commits + 1
			wrote = true
		}
	}
	if wrote {
		x.c.commits++
	}
}

// TestRegionsAreAtomicAndOpaque interleaves the steps of several regions at random. Each load must
// return what the commits so far have left there, all loads of a region together too; a commit
// must succeed exactly if no line of the region has changed; an abort leaves nothing. Only Peek64 may show what
// no moment had.
func TestRegionsAreAtomicAndOpaque(t *testing.T) {
	const lines, regions = 6, 3
	rapid.Check(t, func(t *rapid.T) {
		bed := newBed(lines, regions)
		c := &committed{bytes: make([]byte, lines*LineBytes), changed: make([]int, lines)}
		var all []*runner
		for i := range regions {
			all = append(all, &runner{r: NewRegion(Config{Spins: -1}), m: bed.memories[i], c: c,
				room: newBed(lines, 0).bytes})
		}
		inside := func(do func(*runner, *rapid.T)) func(*rapid.T) {
			return func(t *rapid.T) {
				x := all[rapid.IntRange(0, regions-1).Draw(t, "region")]
				if !x.r.Active() {
					x.begin(t)
				}
				do(x, t)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"load":     inside((*runner).load),
			"store":    inside((*runner).store),
			"load64":   inside((*runner).load64),
			"store64":  inside((*runner).store64),
			"peek64":   inside((*runner).peek64),
			"lines":    inside((*runner).loadLines),
			"shared":   inside((*runner).storeShared),
			"in room":  inside((*runner).storeInRoom),
			"return":   inside((*runner).giveBack),
			"validate": inside((*runner).validate),
			"commit":   inside((*runner).commit),
			"abort": inside(func(x *runner, t *rapid.T) {
				x.r.Abort(7)
				if c, n := x.r.Aborted(); c != Explicit || n != 7 || x.r.Commit(nil) {
					t.Fatalf("aborted by %s(%d)", c, n)
				}
			}),
			"nest": inside(func(x *runner, t *rapid.T) {
				ok := x.r.Begin()
				if c, _ := x.r.Aborted(); c != Nested || ok || x.r.Commit(nil) {
					t.Fatalf("a nested begin: %v, aborted by %s", ok, c)
				}
			}),
			"": func(t *rapid.T) {
				if !bytes.Equal(bed.bytes, c.bytes) {
					t.Fatalf("memory is not what was committed")
				}
				bed.unlocked(t)
			},
		})
	})
}

// unlocked checks that no line is held and that no journal has anything to do.
func (b *bed) unlocked(t interface{ Fatal(...any) }) {
	for i, w := range b.words {
		if w&1 != 0 {
			t.Fatal(fmt.Sprintf("line %d is locked: %#x", i, w))
		}
	}
	for _, m := range b.memories {
		if s, _ := m.journal.State(); s != 0 {
			t.Fatal("a journal is ", s)
		}
	}
}

// agreeing is a RecordCommitter that agrees, and counts.
type agreeing struct{ locks, confirms, validates, unlocks int }

func (a *agreeing) Lock() bool     { a.locks++; return true }
func (a *agreeing) Confirm() bool  { a.confirms++; return true }
func (a *agreeing) Validate() bool { a.validates++; return true }
func (a *agreeing) Unlock(bool)    { a.unlocks++ }

// TestStoresAreBufferedWithoutLineWords runs one region after another on memory without line
// words against a plain array.
func TestStoresAreBufferedWithoutLineWords(t *testing.T) {
	const size = 40 * LineBytes
	rapid.Check(t, func(t *rapid.T) {
		m := plainBed(size / LineBytes)
		r := NewRegion(Config{})
		model, own := make([]byte, size), make([]byte, size)
		r.Begin()
		t.Repeat(map[string]func(*rapid.T){
			"load": func(t *rapid.T) {
				off := rapid.IntRange(0, size-1).Draw(t, "offset")
				got := make([]byte, rapid.IntRange(0, min(200, size-off)).Draw(t, "bytes"))
				if !r.Load(m, off, got) || !bytes.Equal(got, own[off:off+len(got)]) {
					t.Fatalf("load at %d: %v, want %v", off, got, own[off:off+len(got)])
				}
			},
			"store": func(t *rapid.T) {
				off := rapid.IntRange(0, size-1).Draw(t, "offset")
				src := rapid.SliceOfN(rapid.Byte(), 0, min(200, size-off)).Draw(t, "value")
				if !r.Store(m, off, src) {
					t.Fatal("store failed")
				}
				copy(own[off:], src)
			},
			"word": func(t *rapid.T) {
				off := 8 * rapid.IntRange(0, size/8-1).Draw(t, "word")
				v, ok := r.Load64(m, off)
				b := bytesOf(v)
				if !ok || !bytes.Equal(b[:], own[off:off+8]) || !r.Store64(m, off, v+1) {
					t.Fatalf("load64 at %d: %v", off, b)
				}
				b = bytesOf(v + 1)
				copy(own[off:], b[:])
			},
			"commit": func(t *rapid.T) {
				if !r.Commit(new(agreeing)) {
					t.Fatal("no commit")
				}
				copy(model, own)
				r.Begin()
			},
			"abort": func(t *rapid.T) {
				r.Abort(1)
				copy(own, model)
				r.Begin()
			},
			"": func(t *rapid.T) {
				if !bytes.Equal(m.Bytes, model) {
					t.Fatal("memory is not what was committed")
				}
			},
		})
	})
}
