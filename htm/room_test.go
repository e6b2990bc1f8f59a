package htm

import (
	"bytes"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// loadLines has the region have its copies of some lines in the runner's room.
func (x *runner) loadLines(t *rapid.T) {
	lines := len(x.own) / LineBytes
	first := rapid.IntRange(0, lines-1).Draw(t, "line")
	n := rapid.IntRange(1, min(3, lines-first)).Draw(t, "lines") * LineBytes
	off := first * LineBytes
	room := x.room[off : off+n]
	_, ok := x.r.LoadLines(x.m, off, room)
	if x.access(t, "lines", off, n, ok) && !bytes.Equal(room, x.own[off:off+n]) {
		t.Fatalf("%d bytes of lines at %d: %v, want %v", n, off, room, x.own[off:off+n])
	}
}

// storeShared changes the room, and stores that: of lines that are there, and of others. It is told any position.
func (x *runner) storeShared(t *rapid.T) {
	off := rapid.IntRange(0, len(x.own)-1).Draw(t, "offset")
	n := rapid.IntRange(1, min(150, len(x.own)-off)).Draw(t, "bytes")
	src := rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "value")
	copy(x.room[off:], src)
	position := rapid.IntRange(-1, len(x.own)/LineBytes).Draw(t, "position")
	if x.access(t, "store of shared lines", off, n, x.r.StoreShared(x.m, position, off, x.room[off:off+n])) {
		copy(x.own[off:], src)
		for i := range n {
			x.stored[off+i] = true
		}
	}
}

// storeInRoom has the region's copy of a line in the room, changes words there, and has the commit store these.
func (x *runner) storeInRoom(t *rapid.T) {
	off := rapid.IntRange(0, len(x.own)/LineBytes-1).Draw(t, "line") * LineBytes
	room := x.room[off : off+LineBytes]
	position, ok := x.r.LoadLine(x.m, off, (*[LineBytes]byte)(room))
	if !x.access(t, "line", off, LineBytes, ok) {
		return
	}
	if !bytes.Equal(room, x.own[off:off+LineBytes]) {
		t.Fatalf("line at %d: %v, want %v", off, room, x.own[off:off+LineBytes])
	}
	from := rapid.IntRange(0, LineBytes-1).Draw(t, "from")
	n := rapid.IntRange(1, LineBytes-from).Draw(t, "bytes")
	for i := from; i < from+n; i++ {
		room[i]++
		x.own[off+i]++
		x.stored[off+i] = true
	}
	if !x.r.Stored(x.m, position, off, Words(from, n)) {
		t.Fatal("a store to a line that the region has copied ended it")
	}
}

// giveBack takes the room back, and spoils it.
func (x *runner) giveBack(*rapid.T) {
	x.r.Return(x.m, 0, x.room)
	for i := range x.room {
		x.room[i]++
	}
}

// TestCopiesInRoomOutliveMoreLines: the region's own copies move when it needs room for more lines, those of the caller do
// not.
func TestCopiesInRoomOutliveMoreLines(t *testing.T) {
	const lines = 4 * firstLines
	b := newBed(lines, 1)
	m, room := b.memories[0], newBed(1, 0).bytes
	for i := range lines {
		write(m, i*LineBytes, uint64(i))
	}
	r := NewRegion(Config{})
	r.Begin()
	r.Store64(m, 5*LineBytes, 55)
	position, ok := r.LoadLines(m, 7*LineBytes, room)
	if v := load(room, 0); !ok || v != 7 {
		t.Fatalf("line 7 has %d", v)
	}
	for i := range lines {
		want := uint64(i)
		if i == 5 {
			want = 55
		}
		if v, ok := r.Load64(m, i*LineBytes); !ok || v != want {
			t.Fatalf("line %d has %d", i, v)
		}
	}
	if v, ok := r.Load64(m, 7*LineBytes); !ok || v != 7 {
		t.Fatalf("line 7 has %d among many", v)
	}
	room[8] = 77
	if !r.StoreShared(m, position, 7*LineBytes+8, room[8:16]) {
		t.Fatal("a region that is alone aborted")
	}
	if v, ok := r.Load64(m, 7*LineBytes+8); !ok || v != 77 {
		t.Errorf("the region does not see what was stored: %d", v)
	}
	if !r.Commit(nil) || load(b.bytes, 7*LineBytes+8) != 77 || load(b.bytes, 5*LineBytes) != 55 {
		t.Error("the stores did not take effect")
	}
}

// TestChangesOfSharedCopiesThatAreNotStoredHaveNoEffect.
func TestChangesOfSharedCopiesThatAreNotStoredHaveNoEffect(t *testing.T) {
	b := newBed(1, 1)
	m, room := b.memories[0], newBed(1, 0).bytes
	r := NewRegion(Config{})
	r.Begin()
	if _, ok := r.LoadLines(m, 0, room); !ok {
		t.Fatal("a region that is alone aborted")
	}
	room[0], room[8] = 1, 2
	if !r.StoreShared(m, 0, 8, room[8:16]) || !r.Commit(nil) {
		t.Fatal("a region that is alone aborted")
	}
	if load(b.bytes, 0) != 0 || load(b.bytes, 8) != 2 {
		t.Errorf("memory has %v", b.bytes[:16])
	}
}

// TestPeekPartGivesBytesOfALine with and without line words, from each of its words on.
func TestPeekPartGivesBytesOfALine(t *testing.T) {
	b := newBed(2, 1)
	m := b.memories[0]
	for i := range LineBytes {
		b.bytes[LineBytes+i] = byte(i + 1)
	}
	for _, m := range []*Memory{m, NewMemory(m.Bytes, nil, 0, nil)} {
		for at := 0; at < LineBytes; at += 8 {
			for n := 1; n <= LineBytes-at; n++ {
				got := make([]byte, n+1)
				if !m.PeekPart(LineBytes+at, got[:n]) || !bytes.Equal(got[:n], b.bytes[LineBytes+at:][:n]) || got[n] != 0 {
					t.Fatalf("%d bytes at %d are %v", n, at, got)
				}
			}
		}
	}
	b.words[1] |= 1
	if m.PeekPart(LineBytes, make([]byte, 9)) {
		t.Error("a locked line can be read")
	}
	defer func() {
		if recover() == nil {
			t.Error("bytes of two lines were of one moment")
		}
	}()
	m.PeekPart(LineBytes-8, make([]byte, 9))
}

// TestPeekPartIsOfOneMoment while another worker commits to the line.
func TestPeekPartIsOfOneMoment(t *testing.T) {
	const part = LineBytes - 8
	looks := 500_000
	if raceEnabled {
		looks /= 20
	}
	b := newBed(1, 2)
	m, other := b.memories[0], b.memories[1]
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	defer close(done)
	wg.Go(func() {
		r := NewRegion(Config{})
		for i := uint64(1); ; i++ {
			r.Begin()
			for at := 0; at < LineBytes; at += 8 {
				r.Store64(other, at, i)
			}
			r.Commit(nil)
			select {
			case <-done:
				return
			default:
			}
		}
	})
	got := make([]byte, part)
	for range looks {
		if m.PeekPart(8, got) && !bytes.Equal(got[8:], got[:part-8]) {
			t.Fatalf("bytes of several moments: %v", got)
		}
	}
}
