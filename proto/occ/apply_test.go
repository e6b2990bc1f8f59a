package occ

import (
	"bytes"
	"errors"
	"testing"

	"drtmd/proto/protocol"
	"drtmd/store/log"
)

// TestALogRecordThatIsNotWholeIsNamedAndNeverApplied: of messages of LOG with a bit that is wrong, a cut end, or
// an epoch that is over, nothing gets into the log.
func TestALogRecordThatIsNotWholeIsNamedAndNeverApplied(t *testing.T) {
	const capacity = 4 << 10
	for _, marks := range []bool{false, true} {
		l, err := log.Format(make([]byte, log.Bytes(capacity)), log.Config{Generation: 7, Marks: marks})
		if err != nil {
			t.Fatal(err)
		}
		w, err := log.NewWriter(log.WriterConfig{Capacity: capacity, Generation: 7, Marks: marks})
		if err != nil {
			t.Fatal(err)
		}
		w.SetEpoch(3)
		h := &hosted{Log: &protocol.Log{Log: l}, e: &Engine{}}
		encode := func() []byte {
			body := bytes.Repeat([]byte{1}, 100)
			clear(body[:decidedBytes]) // nothing is decided
			var room log.Reservation
			if ok, err := w.TryReserve(&room, len(body)); !ok || err != nil {
				t.Fatalf("no room: %v", err)
			}
			encoded := make([]byte, w.Span(len(body)))
			if _, err := w.Encode(&room, &log.Record{Type: recordUpdate, ID: 1, Body: body}, encoded); err != nil {
				t.Fatal(err)
			}
			return encoded
		}
		refused := func(what string, epoch uint32, record []byte) {
			t.Helper()
			was := h.Position()
			if answer, err := h.place(epoch, record); err == nil || answer == done || h.Position() != was {
				t.Errorf("marks %t: %s: answer %v, error %v, read up to %d, was %d", marks, what, answer, err,
					h.Position(), was)
			}
		}
		first, second := encode(), encode()
		broken := func(record []byte) {
			for i := range record {
				if b := bytes.Clone(record); !padding(i, marks) {
					b[i] ^= 4
					refused("a wrong bit", 3, b)
				}
			}
		}
		broken(first)
		for n := range first {
			refused("a cut end", 3, first[:n])
		}
		refused("an epoch that is over", 4, first)
		if answer, err := h.place(3, second); answer != busy || err != nil {
			t.Errorf("a record before its predecessor: %v, %v", answer, err)
		}
		for range 2 { // it may come twice
			if answer, err := h.place(3, first); answer != done || err != nil {
				t.Errorf("a whole record: %v, %v", answer, err)
			}
		}
		broken(first) // again: one that was read
		if answer, err := h.place(3, second); answer != done || err != nil {
			t.Errorf("the second record: %v, %v", answer, err)
		}
		if _, err := h.place(4, encode()); !errors.Is(err, log.ErrEpoch) {
			t.Errorf("an epoch that is over: %v", err)
		}
	}
}

// padding reports whether a byte of a record with a body of 100 bytes is behind its end: it counts for nothing.
func padding(i int, marks bool) bool {
	const line, header = 64, 32
	content := line
	if marks {
		content = line - 8
	}
	return i%line < content && i/line*content+i%line >= header+100
}
