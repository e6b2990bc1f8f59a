package log

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const testGeneration = 0x1234567890abcdef

// memory is zeroed memory of a log of a capacity, as new kept memory is.
func memory(capacity int) []byte { return make([]byte, Bytes(capacity)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fresh makes a log and its writer.
func fresh(t testing.TB, capacity int, marks bool) (*Log, *Writer) {
	t.Helper()
	l, err := Format(memory(capacity), Config{Generation: testGeneration, Marks: marks})
	must(t, err)
	return l, writerOf(t, l, 0, 0)
}

func writerOf(t testing.TB, l *Log, head, tail uint64) *Writer {
	t.Helper()
	w, err := NewWriter(WriterConfig{Capacity: l.Capacity(), Generation: l.Generation(), Marks: l.Marks(),
		Head: head, Tail: tail})
	must(t, err)
	return w
}

// add appends a record by the CPU.
func add(t testing.TB, l *Log, w *Writer, id uint64, body []byte) {
	t.Helper()
	var r Reservation
	if ok, err := w.TryReserve(&r, len(body)); !ok || err != nil {
		t.Fatalf("no room for %d bytes: %v", len(body), err)
	}
	must(t, l.Append(w, &r, &Record{ID: id, Type: 3, Body: body}))
}

// body is what the record with an ID has.
func body(id uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(id) + byte(i*7) + 1
	}
	return b
}

// ids are those of the records that a scan of memory gives; each must have its body.
func ids(t testing.TB, mem []byte) (list []uint64, s Scan) {
	t.Helper()
	l, err := Open(mem)
	must(t, err)
	s, err = l.Scan(func(r *Record) error {
		if !bytes.Equal(r.Body, body(r.ID, len(r.Body))) || r.Type != 3 {
			return fmt.Errorf("record %d is damaged", r.ID)
		}
		list = append(list, r.ID)
		return nil
	})
	must(t, err)
	return list, s
}

// TestLogIsAQueue runs random appends by the three carriers, reads, truncations and restarts against a
// slice, in rings so small that they wrap all the time.
func TestLogIsAQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := lineBytes * rapid.IntRange(2, 12).Draw(t, "lines")
		mem := memory(capacity)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "noise"), 1))
		for i := range mem { // what was there before
			mem[i] = byte(rng.Uint32())
		}
		l, err := Format(mem, Config{Generation: testGeneration, Marks: rapid.Bool().Draw(t, "marks")})
		must2(t, err)
		newWriter := func(head, tail uint64) *Writer {
			w, err := NewWriter(WriterConfig{Capacity: capacity, Generation: testGeneration,
				Marks: l.marks, Head: head, Tail: tail})
			must2(t, err)
			return w
		}
		w := newWriter(0, 0)
		type rec struct {
			id    uint64
			epoch Epoch
			end   uint64
			n     int
		}
		var kept []rec // not truncated
		read := 0      // of kept, by l
		id, epoch := uint64(0), Epoch(0)
		verify := func(r *Record, want rec) {
			if r.ID != want.id || r.Epoch != want.epoch || !bytes.Equal(r.Body, body(want.id, want.n)) {
				t.Fatalf("read %+v, not %+v", r, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				n := rapid.IntRange(0, 300).Draw(t, "bytes")
				var r Reservation
				ok, err := w.TryReserve(&r, n)
				room := capacity - int(w.tail-l.head)
				if w.span(n) > capacity {
					if !errors.Is(err, ErrTooLong) {
						t.Fatalf("%d bytes in a ring of %d: %v", n, capacity, err)
					}
					return
				}
				if err != nil || ok != (w.span(n) <= room) {
					t.Fatalf("%d bytes with room for %d: %t, %v", w.span(n), room, ok, err)
				}
				if !ok {
					return
				}
				id++
				x := &Record{ID: id, Type: 3, Body: body(id, n)}
				switch rapid.IntRange(0, 3).Draw(t, "carrier") {
				case 0:
					must2(t, l.Append(w, &r, x))
				case 1: // WRITE
					buf := make([]byte, w.span(n))
					p, err := w.Encode(&r, x, buf)
					must2(t, err)
					for _, piece := range p.Pieces {
						copy(mem[piece.Offset:], buf[piece.From:piece.To])
					}
				case 2: // RPC in another form, twice
					p, err := w.Take(&r, n)
					must2(t, err)
					x.Position, x.Epoch = p.Position, w.Epoch()
					for range 2 {
						n, err := l.Put(epoch, x)
						must2(t, err)
						if n != p.Bytes {
							t.Fatalf("%d bytes, not %d", n, p.Bytes)
						}
					}
					if took := l.Took(x); took != (read == len(kept)) {
						t.Fatalf("%d of %d records were read, and one is taken: %t", read, len(kept), took)
					} else if took {
						read++
					}
				default: // RPC, twice
					buf := make([]byte, w.span(n))
					_, err := w.Encode(&r, x, buf)
					must2(t, err)
					must2(t, l.Place(epoch, buf))
					must2(t, l.Place(epoch, buf))
				}
				if r.bytes != 0 {
					t.Fatalf("%d bytes are left of the reservation", r.bytes)
				}
				kept = append(kept, rec{id, epoch, w.tail, n})
			},
			"read": func(t *rapid.T) {
				var r Record
				err := l.Next(&r)
				if read == len(kept) {
					if !errors.Is(err, ErrEnd) {
						t.Fatalf("at the end: %v", err)
					}
					return
				}
				must2(t, err)
				verify(&r, kept[read])
				read++
			},
			"truncate": func(t *rapid.T) {
				if n := rapid.IntRange(0, len(kept)).Draw(t, "records"); n > read {
					if err := l.Truncate(kept[n-1].end); !errors.Is(err, ErrTruncate) {
						t.Fatalf("what was not read: %v", err)
					}
				} else if n > 0 {
					must2(t, l.Truncate(kept[n-1].end))
					must2(t, w.Released(l.Head()))
					kept, read = kept[n:], read-n
				}
			},
			"epoch": func(*rapid.T) {
				epoch++
				w.SetEpoch(epoch)
			},
			"crash": func(t *rapid.T) {
				var err error
				l, err = Open(mem)
				must2(t, err)
				i := 0
				s, err := l.Recover(func(r *Record) error {
					verify(r, kept[i])
					i++
					return nil
				})
				must2(t, err)
				if i != len(kept) || !errors.Is(s.Why, ErrEnd) || s.End != w.tail {
					t.Fatalf("%d of %d records, %+v, tail %d", i, len(kept), s, w.tail)
				}
				w = newWriter(l.Head(), s.End)
				w.SetEpoch(epoch)
				read = len(kept)
			},
		})
	})
}

func must2(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// storyBytes makes three records in a ring whose second lap they begin, and gives the memory before and the
// bytes of the third, with its places.
func thirdRecord(t *testing.T, marks bool, n int) (before []byte, encoded []byte, p Place) {
	l, w := fresh(t, 8*lineBytes, marks)
	var r Record
	for id := range uint64(5) { // of before: 5 lines of the ring
		add(t, l, w, id+100, body(id+100, 10))
		must(t, l.Next(&r))
	}
	must(t, l.Truncate(l.Position()))
	must(t, w.Released(l.Head()))
	add(t, l, w, 1, body(1, 20))
	add(t, l, w, 2, body(2, 3))
	var res Reservation
	if ok, err := w.TryReserve(&res, n); !ok {
		t.Fatal(err)
	}
	encoded = make([]byte, w.Span(n))
	p, err := w.Encode(&res, &Record{ID: 3, Type: 3, Body: body(3, n)}, encoded)
	must(t, err)
	return l.mem, encoded, p
}

// A crash after any number of bytes of a record, in the order of addresses, leaves the records before it; and
// after Recover the log can be appended to, whatever is left of it.
func TestCrashAtEveryByteLeavesTheCompleteRecords(t *testing.T) {
	for _, marks := range []bool{false, true} {
		for _, n := range []int{0, 20, 32, 100, 200} { // 32: no padding without marks
			before, encoded, p := thirdRecord(t, marks, n)
			for cut := 0; cut <= len(encoded); cut++ {
				mem := bytes.Clone(before)
				at := func(i int) int {
					for _, piece := range p.Pieces {
						if i >= piece.From && i < piece.To {
							return piece.Offset + i - piece.From
						}
					}
					panic("no place")
				}
				for i := range cut {
					mem[at(i)] = encoded[i]
				}
				whole := true // but for padding, which is no part of the record
				l, err := Open(mem)
				must(t, err)
				per := l.perLine()
				for i := range encoded {
					padding := i%lineBytes < per && i/lineBytes*per+i%lineBytes >= recordBytes+n
					whole = whole && (padding || mem[at(i)] == encoded[i])
				}
				want := "[1 2]"
				if whole {
					want = "[1 2 3]"
				}
				got, s := ids(t, mem)
				if fmt.Sprint(got) != want || s.Damaged() && whole {
					t.Fatalf("marks %t, %d of %d bytes of a body of %d: %v, not %s: %v", marks, cut, len(encoded),
						n, got, want, s.Why)
				}
				s, err = l.Recover(func(*Record) error { return nil })
				must(t, err)
				w := writerOf(t, l, l.Head(), s.End)
				add(t, l, w, 9, body(9, 0))
				if got, s := ids(t, mem); !strings.HasSuffix(fmt.Sprint(got), "9]") ||
					!errors.Is(s.Why, ErrEnd) {
					t.Fatalf("after recovery from %d bytes: %v, %v", cut, got, s.Why)
				}
			}
		}
	}
}

// Where nothing orders the lines of a WRITE, any subset of its 8-byte words may be there.
func TestRecordThatArrivesInAnyOrderCountsWhenItIsWhole(t *testing.T) {
	before, encoded, p := thirdRecord(t, true, 150)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		mem := bytes.Clone(before)
		var words [][2]int // place, source
		for _, piece := range p.Pieces {
			for i := piece.From; i < piece.To; i += 8 {
				words = append(words, [2]int{piece.Offset + i - piece.From, i})
			}
		}
		rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		for k, x := range words {
			got, _ := ids(t, mem)
			left := words[k:]
			missing := false
			for _, y := range left {
				missing = missing || !bytes.Equal(mem[y[0]:y[0]+8], encoded[y[1]:y[1]+8])
			}
			if len(got) == 3 && missing {
				padding := true // is all that is missing padding?
				for _, y := range left {
					i := y[1]
					padding = padding && (bytes.Equal(mem[y[0]:y[0]+8], encoded[i:i+8]) ||
						i%lineBytes < 56 && i/lineBytes*56+i%lineBytes >= recordBytes+150)
				}
				if !padding {
					t.Fatalf("the record counts while %d words are missing", len(left))
				}
			}
			copy(mem[x[0]:], encoded[x[1]:x[1]+8])
		}
		if got, _ := ids(t, mem); len(got) != 3 {
			t.Fatalf("all is there: %v", got)
		}
	}
}

// Records that a crash made unreachable do not come back behind a record that is appended later.
func TestRecoveryDoesNotBringBackWhatWasBehindACutRecord(t *testing.T) {
	l, w := fresh(t, 8*lineBytes, true)
	for id := range uint64(3) {
		add(t, l, w, id+1, body(id+1, 20))
	}
	l.mem[headBytes+lineBytes+40] ^= 1 // in the second
	l, err := Open(l.mem)
	must(t, err)
	s, err := l.Recover(func(*Record) error { return nil })
	must(t, err)
	if s.Records != 1 || !errors.Is(s.Why, ErrChecksum) || !s.Damaged() {
		t.Fatalf("%+v", s)
	}
	add(t, l, writerOf(t, l, 0, s.End), 9, body(9, 20))
	if got, _ := ids(t, l.mem); fmt.Sprint(got) != "[1 9]" {
		t.Errorf("records %v", got)
	}
}

func TestWhatDoesNotCountIsNamed(t *testing.T) {
	le := binary.LittleEndian
	second := headBytes + lineBytes // the second record, of two lines
	resum := func(l *Log) {         // as one who knows the format would write it
		b := l.mem[second:]
		copy(l.header[:], b)
		body := append(append([]byte(nil), b[recordBytes:56]...), b[64:64+30-24]...)
		le.PutUint32(b, l.checksum(&l.header, body))
	}
	for _, c := range []struct {
		name  string
		spoil func(*Log)
		want  error
	}{
		{"body", func(l *Log) { l.mem[second+40] ^= 1 }, ErrChecksum},
		{"checksum", func(l *Log) { l.mem[second] ^= 1 }, ErrChecksum},
		{"ID", func(l *Log) { l.mem[second+24] ^= 1 }, ErrChecksum},
		{"format", func(l *Log) { l.mem[second+22]++ }, ErrVersion},
		{"position", func(l *Log) { l.mem[second+9] ^= 1 }, ErrEnd},
		{"length", func(l *Log) { le.PutUint32(l.mem[second+4:], 5000) }, ErrLength},
		{"absurd length", func(l *Log) { le.PutUint32(l.mem[second+4:], 1<<31) }, ErrLength},
		{"first mark", func(l *Log) { l.mem[second+63] ^= 1 }, ErrCut},
		{"last mark", func(l *Log) { l.mem[second+127] ^= 1 }, ErrCut},
		{"mark of a lap before", func(l *Log) {
			le.PutUint64(l.mem[second+120:], l.mark(lineBytes*2+l.capacity))
		}, ErrCut},
		{"lower epoch", func(l *Log) { le.PutUint32(l.mem[second+16:], 4); resum(l) }, ErrEpoch},
		{"higher epoch", func(l *Log) { le.PutUint32(l.mem[second+16:], 8); resum(l) }, ErrEpoch},
		{"nothing", func(l *Log) { resum(l) }, nil},
	} {
		l, w := fresh(t, 8*lineBytes, true)
		w.SetEpoch(5)
		add(t, l, w, 1, body(1, 20))
		w.SetEpoch(6)
		add(t, l, w, 2, body(2, 30))
		w.SetEpoch(7)
		add(t, l, w, 3, body(3, 1))
		c.spoil(l)
		l.SetEpoch(7)
		applied := 0
		s, err := l.Scan(func(*Record) error { applied++; return nil })
		must(t, err)
		if c.want == nil {
			if applied != 3 || !errors.Is(s.Why, ErrEnd) {
				t.Errorf("%s: %d applied, %v", c.name, applied, s.Why)
			}
			continue
		}
		if applied != 1 || !errors.Is(s.Why, c.want) {
			t.Errorf("%s: %d records were applied, and %v, not %v", c.name, applied, s.Why, c.want)
		}
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	good := func() []byte {
		l, w := fresh(t, 4*lineBytes, false)
		add(t, l, w, 1, body(1, 20))
		return l.mem
	}
	for _, c := range []struct {
		name string
		mem  func() []byte
		want error
	}{
		{"zeroes", func() []byte { return memory(4 * lineBytes) }, ErrNoLog},
		{"too short", func() []byte { return good()[:100] }, ErrNoLog},
		{"version", func() []byte { b := good(); b[6]++; return b }, ErrVersion},
		{"header", func() []byte { b := good(); b[17] ^= 1; return b }, ErrNoLog},
		{"another size", func() []byte { return append(good(), make([]byte, 64)...) }, ErrNoLog},
		{"both heads", func() []byte { b := good(); b[64] ^= 64; b[80] ^= 64; return b }, ErrHead},
	} {
		if _, err := Open(c.mem()); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, not %v", c.name, err, c.want)
		}
	}
	for _, n := range []int{0, 100, headBytes + 64, headBytes + 200} {
		if _, err := Format(make([]byte, n), Config{Generation: 1}); err == nil {
			t.Errorf("%d bytes were formatted", n)
		}
	}
	if _, err := Format(memory(256), Config{}); err == nil {
		t.Error("a generation of zero was taken")
	}
	for _, c := range []WriterConfig{{}, {Capacity: 128}, {Capacity: 100, Generation: 1},
		{Capacity: 128, Generation: 1, Head: 64}, {Capacity: 128, Generation: 1, Tail: 192},
		{Capacity: 128, Generation: 1, Tail: 8}} {
		if _, err := NewWriter(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// A crash in the middle of a truncation leaves the head of before or the new one.
func TestCrashInATruncationLeavesOneOfTheHeads(t *testing.T) {
	l, w := fresh(t, 8*lineBytes, false)
	for id := range uint64(4) {
		add(t, l, w, id, body(id, 20))
	}
	var r Record
	for i := range 4 {
		must(t, l.Next(&r))
		before := bytes.Clone(l.mem[:headBytes])
		must(t, l.Truncate(l.Position()))
		after := l.mem[:headBytes]
		for cut := range headBytes + 1 {
			mem := bytes.Clone(l.mem)
			copy(mem[cut:headBytes], before[cut:])
			again, err := Open(mem)
			must(t, err)
			if h := again.Head(); h != l.Head() && h != l.Head()-lineBytes {
				t.Fatalf("truncation %d, %d bytes: head %d", i, cut, h)
			}
		}
		if bytes.Equal(before, after) {
			t.Fatal("nothing was written")
		}
	}
}

// Memory that held another log shows none of its records.
func TestFormatForgetsWhatWasThere(t *testing.T) {
	l, w := fresh(t, 8*lineBytes, false)
	for id := range uint64(8) {
		add(t, l, w, id, body(id, 20))
	}
	again, err := Format(l.mem, Config{Generation: testGeneration + 1})
	must(t, err)
	s, err := again.Scan(func(*Record) error { return errors.New("a record of before") })
	must(t, err)
	if s.Records != 0 || !errors.Is(s.Why, ErrChecksum) {
		t.Errorf("%+v", s) // it has the position of a record that could be, and not its checksum
	}
	s, err = again.Recover(func(*Record) error { return nil })
	must(t, err)
	add(t, again, writerOf(t, again, 0, s.End), 7, body(7, 5))
	if got, s := ids(t, l.mem); fmt.Sprint(got) != "[7]" || !errors.Is(s.Why, ErrEnd) {
		t.Errorf("%v, %v", got, s.Why)
	}
}

func TestPlaceRefusesWhatDoesNotBelong(t *testing.T) {
	encode := func(w *Writer, n int) []byte {
		var r Reservation
		if ok, err := w.TryReserve(&r, n); !ok {
			t.Fatal(err)
		}
		b := make([]byte, w.Span(n))
		_, err := w.Encode(&r, &Record{ID: 1, Type: 3, Body: body(1, n)}, b)
		must(t, err)
		return b
	}
	for _, c := range []struct {
		name  string
		spoil func(b []byte) []byte
		want  error
	}{
		{"empty", func([]byte) []byte { return nil }, ErrPlace},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, ErrPlace},
		{"a line missing", func(b []byte) []byte { return b[:len(b)-64] }, ErrLength},
		{"format", func(b []byte) []byte { b[22] = 9; return b }, ErrVersion},
		{"mark", func(b []byte) []byte { b[63]++; return b }, ErrCut},
		{"body", func(b []byte) []byte { b[33]++; return b }, ErrChecksum},
		{"position", func(b []byte) []byte { b[10]++; return b }, ErrPlace},
		{"older epoch", func(b []byte) []byte { return b }, ErrEpoch},
	} {
		l, w := fresh(t, 8*lineBytes, true)
		w.SetEpoch(3)
		e := Epoch(3)
		if c.name == "older epoch" {
			e = 4
		}
		before := bytes.Clone(l.mem)
		if err := l.Place(e, c.spoil(encode(w, 80))); !errors.Is(err, c.want) ||
			!bytes.Equal(before, l.mem) {
			t.Errorf("%s: %v, not %v", c.name, err, c.want)
		}
	}
	l, w := fresh(t, 4*lineBytes, true)
	b := encode(w, 10)
	must(t, l.Place(0, b))
	must(t, l.Next(&Record{}))
	if err := l.Place(0, b); !errors.Is(err, ErrPlace) {
		t.Errorf("a record that was read: %v", err)
	}
}

func TestAppendWithoutRoomIsRefused(t *testing.T) {
	l, w := fresh(t, 4*lineBytes, false)
	var r Reservation
	if err := l.Append(w, &r, &Record{Body: body(1, 5)}); !errors.Is(err, ErrReserved) {
		t.Errorf("without a reservation: %v", err)
	}
	if ok, err := w.TryReserve(&r, 5); !ok || err != nil {
		t.Fatal(err)
	}
	if err := l.Append(w, &r, &Record{Body: body(1, 50)}); !errors.Is(err, ErrReserved) {
		t.Errorf("longer than was reserved: %v", err)
	}
	if w.Tail() != 0 {
		t.Error("something was appended")
	}
	_, other := fresh(t, 8*lineBytes, false)
	if err := l.Append(other, &r, &Record{}); !errors.Is(err, ErrPlace) {
		t.Errorf("by another log's writer: %v", err)
	}
	if err := w.Released(64); !errors.Is(err, ErrTruncate) {
		t.Errorf("a head beyond the tail: %v", err)
	}
	w.Release(&r)
	if w.Room() != l.Capacity() {
		t.Errorf("room for %d of %d bytes", w.Room(), l.Capacity())
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	l, w := fresh(t, 64*lineBytes, true)
	b := body(1, 300)
	buf := make([]byte, w.Span(len(b)))
	var r Record
	var res Reservation
	round := func() {
		_, e1 := w.TryReserve(&res, len(b), len(b))
		e2 := l.Append(w, &res, &Record{ID: 1, Body: b})
		_, e3 := w.Encode(&res, &Record{ID: 2, Body: b}, buf)
		e4 := l.Place(0, buf)
		e5, e6 := l.Next(&r), l.Next(&r)
		e7 := l.Truncate(l.Position())
		if err := errors.Join(e1, e2, e3, e4, e5, e6, e7, w.Released(l.Head())); err != nil {
			t.Fatal(err)
		}
	}
	round()
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("a round allocates %v times", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{16, 200} {
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			l, w := fresh(b, 1024*lineBytes, true)
			x := body(1, n)
			var res Reservation
			var r Record
			b.ReportAllocs()
			for b.Loop() {
				if ok, _ := w.TryReserve(&res, n); !ok {
					for l.Next(&r) == nil {
					}
					must(b, l.Truncate(l.Position()))
					must(b, w.Released(l.Head()))
					continue
				}
				must(b, l.Append(w, &res, &Record{ID: 1, Body: x}))
			}
		})
	}
}

// FuzzScan scans anything: it ends, gives only what has its checksum, and leaves a log that can be used.
func FuzzScan(f *testing.F) {
	for _, marks := range []bool{false, true} {
		l, err := Format(memory(6*lineBytes), Config{Generation: testGeneration, Marks: marks})
		if err != nil {
			f.Fatal(err)
		}
		w := writerOf(f, l, 0, 0)
		for id := range uint64(3) {
			add(f, l, w, id, body(id, 20*int(id)))
		}
		f.Add(bytes.Clone(l.mem))
	}
	f.Fuzz(func(t *testing.T, mem []byte) {
		if len(mem) > 1<<16 {
			return
		}
		mem = bytes.Clone(mem)
		if len(mem) >= headBytes { // else almost everything ends at the header
			copy(mem[32:], binary.LittleEndian.AppendUint64(nil, sumOf(mem[:32])))
		}
		l, err := Open(mem)
		if err != nil {
			return
		}
		s, err := l.Recover(func(r *Record) error {
			if len(r.Body) > MaxBody {
				t.Fatal("a body over the limit")
			}
			return nil
		})
		if err != nil || s.Why == nil || s.End-l.Head() > uint64(l.Capacity()) {
			t.Fatalf("%+v, %v", s, err)
		}
		if l.Generation() == 0 || l.Head()%lineBytes != 0 || l.Capacity()%lineBytes != 0 {
			return
		}
		must(t, l.Truncate(s.End))
		w := writerOf(t, l, s.End, s.End)
		add(t, l, w, 1, body(1, 3))
	})
}
