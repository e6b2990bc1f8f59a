package log

import (
	"bytes"
	"errors"
	"testing"
)

// TestPutRefuses what has no place in the log, and leaves the memory as it was; Took takes nothing that does not count.
func TestPutRefuses(t *testing.T) {
	l, w := fresh(t, 8*lineBytes, true)
	w.SetEpoch(3)
	good := func() Record {
		return Record{Position: l.Position(), Epoch: 3, Type: 1, ID: 7, Body: make([]byte, 80)}
	}
	for _, c := range []struct {
		name  string
		spoil func(r *Record)
		epoch Epoch
		want  error
	}{
		{"longer than the ring", func(r *Record) { r.Body = make([]byte, 9*lineBytes) }, 3, ErrLength},
		{"too long", func(r *Record) { r.Body = make([]byte, MaxBody+1) }, 3, ErrLength},
		{"within a line", func(r *Record) { r.Position++ }, 3, ErrPlace},
		{"beyond the ring", func(r *Record) { r.Position += 7 * lineBytes }, 3, ErrPlace},
		{"far beyond the ring", func(r *Record) { r.Position = 1<<64 - lineBytes }, 3, ErrPlace},
		{"older epoch", func(*Record) {}, 4, ErrEpoch},
	} {
		r, before := good(), bytes.Clone(l.mem)
		c.spoil(&r)
		if _, err := l.Put(c.epoch, &r); !errors.Is(err, c.want) || !bytes.Equal(before, l.mem) {
			t.Errorf("%s: %v, not %v", c.name, err, c.want)
		}
	}
	r := good()
	_, err := l.Put(3, &r)
	must(t, err)
	if !l.Took(&r) {
		t.Fatal("the next record is not taken")
	}
	if _, err := l.Put(3, &r); !errors.Is(err, ErrPlace) {
		t.Errorf("a record that was read: %v", err)
	}
	older := good()
	older.Epoch = 2
	_, err = l.Put(2, &older)
	must(t, err)
	if at := l.Position(); l.Took(&older) || l.Position() != at {
		t.Error("a record of an older epoch than the one before is taken")
	}
}
