package inplace

import (
	"encoding/binary"
	"errors"
	"testing"

	"drtmd/proto/rtx"
)

// TestMemoryThatMakesNoSenseIsRefused, and pointers that memory may have into nowhere.
func TestMemoryThatMakesNoSenseIsRefused(t *testing.T) {
	k := &Kind{Protocol: "test", Magic: 77, Version: 1, PerOwner: 8}
	s, err := k.ShapeFor(1<<20, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, 1<<20)
	if err := s.Format(memory); err != nil {
		t.Fatal(err)
	}
	if was, err := k.decode(memory, len(memory)); err != nil || was != s {
		t.Fatal(was, err)
	}
	set := func(word int, v uint64) { binary.LittleEndian.PutUint64(memory[8*word:], v) }
	for _, words := range []map[int]uint64{
		{0: 78}, {1: 2}, {2: 1 << 21}, {3: 0}, {3: 1 << 21}, {4: 1 << 63}, {5: 1 << 40},
		// The sums of their sizes overflow to what was there before.
		{2: uint64((&Shape{Owners: 2, kind: k}).Bytes()), 4: 1 << 62, 5: 1 << 62},
	} {
		if err := s.formatAgain(memory); err != nil {
			t.Fatal(err)
		}
		for i, v := range words {
			set(i, v)
		}
		if _, err := k.decode(memory, len(memory)); !errors.Is(err, rtx.ErrLayout) {
			t.Errorf("%v: %v", words, err)
		}
	}
	for _, p := range []rtx.Ptr{0, rtx.Ptr(s.Roots + s.Nodes + 1), 1 << 63, 1<<64 - 1} {
		if s.Has(p) {
			t.Errorf("it has object %d", p)
		}
	}
}

func (s Shape) formatAgain(memory []byte) error {
	clear(memory[:48])
	return s.Format(memory)
}
