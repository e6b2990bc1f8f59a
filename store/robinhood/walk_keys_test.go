package robinhood

import (
	"slices"
	"testing"
	"unsafe"

	"drtmd/htm"
	"drtmd/verbs/lineword"
)

// TestKeysAreAllOrNothing: they are those of all records, and none while somebody has a line of the table locked.
func TestKeysAreAllOrNothing(t *testing.T) {
	c := For(1, "keys", 8, 20)
	words := make([]uint64, (c.Bytes()+63)/64)
	b := make([]byte, c.Bytes()+64)
	b = b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%64:][:c.Bytes()]
	m := htm.NewMemory(b, words, 1, nil)
	table, err := Format(c, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []uint64
	for k := range uint64(20) {
		want = append(want, k)
		if err := table.Load(k, make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	keys, ok := table.Keys()
	slices.Sort(keys)
	if !ok || !slices.Equal(keys, want) {
		t.Errorf("%v, %v", keys, ok)
	}
	was := words[0]
	words[0] = uint64(lineword.Word(was).LockedBy(1))
	if _, ok := table.Keys(); ok {
		t.Error("the keys are given while a line is locked")
	}
	words[0] = was
	r := htm.NewRegion(htm.Config{})
	for _, n := range []uint32{6, 4} {
		r.Begin()
		if !table.RaiseIn(r, n) || !r.Commit(nil) || table.Incarnations() != 6 {
			t.Errorf("after RaiseIn(%d) it is %d", n, table.Incarnations())
		}
	}
}
