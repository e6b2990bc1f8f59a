package log

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"drtmd/verbs/lines"
)

func TestWhatWasReadCanBeReadAgainUntilItIsTruncated(t *testing.T) {
	for _, marks := range []bool{false, true} {
		l, w := fresh(t, 16*lineBytes, marks)
		var r Record
		for id := range uint64(40) { // it wraps
			add(t, l, w, id, body(id, 70))
			if _, err := l.ReadAt(l.Position(), &r); !errors.Is(err, ErrPlace) {
				t.Fatalf("a record that was not read yet is read again: %v", err)
			}
			at := l.Position()
			must(t, l.Next(&r))
			behind, err := l.ReadAt(at, &r)
			must(t, err)
			if behind != l.Position() || r.ID != id || !bytes.Equal(r.Body, body(id, 70)) {
				t.Fatalf("record %d at %d is read again as %d, behind it is %d", id, at, r.ID, behind)
			}
			must(t, l.Truncate(behind))
			must(t, w.Released(l.Head()))
			if _, err := l.ReadAt(at, &r); !errors.Is(err, ErrPlace) {
				t.Fatalf("a record that was truncated is read again: %v", err)
			}
		}
	}
}

// Records that arrive line by line, in ascending order, make Next succeed only by a change of the line that
// AwaitedLine names.
func TestAwaitedLineIsTheOneThatCompletesTheRecord(t *testing.T) {
	for _, marks := range []bool{false, true} {
		for _, n := range []int{0, 10, 56, 150, 300} {
			l, w := fresh(t, 8*lineBytes, marks)
			var r Record
			for id := range uint64(20) {
				var room Reservation
				if ok, err := w.TryReserve(&room, n); !ok || err != nil {
					t.Fatalf("no room: %v", err)
				}
				encoded := make([]byte, w.Span(n))
				p, err := w.Encode(&room, &Record{ID: id, Type: 3, Body: body(id, n)}, encoded)
				must(t, err)
				for _, piece := range p.Pieces {
					for i := piece.From; i < piece.To; i += lineBytes {
						awaited := l.AwaitedLine() * lineBytes
						to := piece.Offset + i - piece.From
						copy(l.mem[to:to+lineBytes], encoded[i:i+lineBytes])
						came := l.Next(&r) == nil
						if came != (i == len(encoded)-lineBytes) || came && to != awaited {
							t.Fatalf("record %d of %d bytes: line at %d, awaited was %d, it has come: %t", id, n,
								to, awaited, came)
						}
					}
				}
				must(t, l.Truncate(l.Position()))
				must(t, w.Released(l.Head()))
			}
		}
	}
}

func TestAViewSeesWhatThereIsAtAMoment(t *testing.T) {
	l, w := fresh(t, 16*lineBytes, false)
	v, err := NewView(lines.Plain(l.mem))
	must(t, err)
	seen := func() (ids []uint64) {
		if !v.Each(func(r *Record) { ids = append(ids, r.ID) }) {
			t.Fatal("nothing changes, and it could not look")
		}
		return ids
	}
	var r Record
	for id := range uint64(50) {
		add(t, l, w, id, body(id, 20))
		want := []uint64{id}
		if id > 0 {
			want = []uint64{id - 1, id} // the host has read the first
		}
		if got := seen(); !slices.Equal(got, want) {
			t.Fatalf("records %v, want %v", got, want)
		}
		must(t, l.Next(&r))
		if id > 0 {
			at, err := l.ReadAt(l.Head(), &r)
			must(t, err)
			must(t, l.Truncate(at))
			must(t, w.Released(l.Head()))
		}
	}
}

// A view that is overtaken by truncations looks again, and gives up when it is overtaken each time.
func TestAViewThatIsOvertakenLooksAgain(t *testing.T) {
	l, w := fresh(t, 16*lineBytes, false)
	v, err := NewView(lines.Plain(l.mem))
	must(t, err)
	var r Record
	overtake := func(id uint64) {
		must(t, l.Next(&r))
		must(t, l.Truncate(l.Position()))
		must(t, w.Released(l.Head()))
		add(t, l, w, id, body(id, 20))
	}
	add(t, l, w, 0, body(0, 20))
	id, last := uint64(0), uint64(0)
	ok := v.Each(func(r *Record) {
		if last = r.ID; id < 3 && r.ID == id {
			id++
			overtake(id)
		}
	})
	if !ok || last != 3 {
		t.Fatalf("it looked to record %d, %t, want 3", last, ok)
	}
	if v.Each(func(r *Record) {
		if r.ID == id {
			id++
			overtake(id)
		}
	}) {
		t.Fatal("it was overtaken each time, and says that it has seen everything")
	}
}

func TestAViewOfWhatIsNoLogIsRefused(t *testing.T) {
	if _, err := NewView(lines.Plain(make([]byte, 1024))); err == nil {
		t.Fatal("a view of zeroed memory")
	}
}
