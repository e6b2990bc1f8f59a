package tabletest

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"drtmd/htm"
	"drtmd/store/layout"
)

// LoadedKeysAreFound loads 1000 keys into an empty table with values of 8 bytes, and finds them and no others,
// in regions and outside. check looks at every word.
func LoadedKeysAreFound[T Table](t *testing.T, table T, check func(T) error, e Errors) {
	for k := range uint64(1000) {
		if err := table.Load(k*7, Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		key   uint64
		value []byte
		want  error
	}{{7, Value(8, 0), e.Exists}, {8, Value(9, 0), e.ValueSize}, {8, Value(7, 0), e.ValueSize},
		{layout.NoKey, Value(8, 0), e.Key}} {
		if err := table.Load(c.key, c.value); !errors.Is(err, c.want) {
			t.Errorf("loading key %d: %v, want %v", c.key, err, c.want)
		}
	}
	r := htm.NewRegion(htm.Config{})
	for k := range uint64(7001) {
		if k == 7000 {
			k = layout.NoKey
		}
		off, ok := table.Find(k)
		if want := k%7 == 0 && k < 7000; ok != want {
			t.Fatalf("key %d: found %v", k, ok)
		}
		r.Begin()
		in, found, alive := table.FindIn(r, k)
		if !alive || found != ok || in != off || !r.Commit(nil) {
			t.Fatalf("key %d: %d %v %v inside, %d %v outside", k, in, found, alive, off, ok)
		}
		if !ok {
			continue
		}
		image := imageAt(table, off)
		if h := layout.HeadOf(image); h != (layout.Head{Key: k, Version: layout.FirstVersion}) {
			t.Fatalf("key %d: %+v", k, h)
		}
		if got := valueOf(table, image); !bytes.Equal(got, Value(8, k/7)) {
			t.Fatalf("key %d has value %x", k, got)
		}
	}
	if err := check(table); err != nil {
		t.Error(err)
	}
}

// imageAt is the record at a place, as it lies in memory.
func imageAt(table Table, place int) []byte {
	m, off := table.At(place)
	return m.Bytes[off : off+table.Record().Bytes]
}

func valueOf(table Table, image []byte) []byte {
	r := table.Record()
	return r.Value(image, make([]byte, r.Room))
}

// ConfigIsRefused checks that a Config is refused with an error that says each of some texts, and that no table
// is formatted with it.
func ConfigIsRefused[C interface{ Check() error }, T any](t *testing.T, c C,
	format func(C, *htm.Memory, int) (T, error), want error, texts ...string) {
	t.Helper()
	err := c.Check()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %v with %q", err, want, text)
		}
	}
	if _, err := format(c, nil, 0); !errors.Is(err, want) {
		t.Errorf("formatting gives %v", err)
	}
}

// AttachRefusesOthers attaches to memory that holds a table, and then with Configs that differ: the error is
// notTable and names what differs. It does so at offsets where no table can be, too.
func AttachRefusesOthers[C interface{ Bytes() int }, T any](t *testing.T, c C, m *htm.Memory,
	attach func(C, *htm.Memory, int) (T, error), notTable error, edits map[string]func(*C)) {
	if _, err := attach(c, m, 0); err != nil {
		t.Fatal(err)
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			x := c
			edit(&x)
			if _, err := attach(x, m, 0); !errors.Is(err, notTable) || !strings.Contains(err.Error(), name) {
				t.Errorf("another %s: %v", name, err)
			}
		})
	}
	for _, at := range []int{-128, 64, c.Bytes()} {
		if _, err := attach(c, m, at); err == nil {
			t.Errorf("a table at offset %d", at)
		}
	}
}
