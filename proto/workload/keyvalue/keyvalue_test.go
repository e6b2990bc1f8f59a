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
	for name, s := range map[string][5]float64{
		"no node": {0, 1, 0, 8, 0}, "no key": {1, 0, 0, 8, 0}, "negative room": {1, 1, -1, 8, 0},
		"short value": {1, 1, 0, 7, 0}, "theta": {1, 10, 0, 8, 1.5},
	} {
		if _, err := NewSpace(int(s[0]), int(s[1]), int(s[2]), int(s[3]), s[4]); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
