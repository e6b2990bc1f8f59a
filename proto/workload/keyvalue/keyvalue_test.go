package keyvalue

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"drtmd/proto"
)

// A value says which key it is of, and how often it was put; any other byte is noticed.
func TestValuesTellTheirKeyAndCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := proto.Key(rapid.Uint64().Draw(t, "key"))
		n := rapid.Uint64().Draw(t, "count")
		v := make([]byte, rapid.IntRange(MinValueBytes, 100).Draw(t, "bytes"))
		Set(v, k, n)
		if got, err := Get(v, k); got != n || err != nil {
			t.Fatalf("%d, %v, want %d", got, err, n)
		}
		if len(v) == MinValueBytes {
			return
		}
		i := rapid.IntRange(MinValueBytes, len(v)-1).Draw(t, "byte")
		v[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if _, err := Get(v, k); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a changed byte %d gave %v", i, err)
		}
	})
}

func TestSpacesThatCannotBeAreRefused(t *testing.T) {
	for name, change := range map[string]func(s *Space, theta *float64){
		"no node": func(s *Space, _ *float64) { s.Nodes = 0 }, "no key": func(s *Space, _ *float64) { s.Keys = 0 },
		"negative room": func(s *Space, _ *float64) { s.Room = -1 },
		"short value":   func(s *Space, _ *float64) { s.ValueBytes = 7 },
		"short key":     func(s *Space, _ *float64) { s.KeyBytes = 7 },
		"theta":         func(_ *Space, theta *float64) { *theta = 1.5 },
	} {
		s, theta := Space{Nodes: 1, Keys: 10, ValueBytes: 8}, 0.0
		if _, err := NewSpace(s, theta); err != nil {
			t.Fatal(err)
		}
		change(&s, &theta)
		if _, err := NewSpace(s, theta); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The rest of a longer key stands behind the value: a record of another key is noticed.
func TestLongKeysTravelWithTheirRecords(t *testing.T) {
	s, err := NewSpace(Space{Nodes: 2, Keys: 10, ValueBytes: 16, KeyBytes: 24}, 0)
	if err != nil {
		t.Fatal(err)
	}
	bytes := s.Tables()[0].ValueBytes
	if bytes != 16+24-8 {
		t.Errorf("records of %d bytes behind the first 8 of a key, want 32", bytes)
	}
	v := make([]byte, bytes)
	s.set(v, 3, 7)
	if n, err := s.get(v, 3); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	v[bytes-1]++
	if _, err := s.get(v, 3); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a changed byte of the key gave %v", err)
	}
}
