package hopscotch

import (
	"testing"
	"unsafe"

	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// TestAMovedRecordTakesItsSealAlong: at its new place a record is sealed, and at the old one there is no seal, by which a
// peer that has READ the record there could take it for unlocked.
func TestAMovedRecordTakesItsSealAlong(t *testing.T) {
	for _, m := range []Mutation{0, MoveSealed} {
		c := Config{ID: 1, Name: "sealed", Homes: 16, Blocks: 1, ValueBytes: 40, CPULocks: true, Layout: layout.KindSealed,
			Mutation: m}
		memory := tabletest.Memory(c.Bytes(), false)
		table, err := Format(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		const key = 7
		if err := table.Load(key, tabletest.Value(c.ValueBytes, key)); err != nil {
			t.Fatal(err)
		}
		from, _ := table.Find(key)
		home := table.p.Home(key)
		a := words.Plain{Base: unsafe.Pointer(unsafe.SliceData(memory.Bytes))}
		if moved, ok := move(table, a, step{home, home, home + 1}); !moved || !ok {
			t.Fatal("the record does not move")
		}
		to, there := table.Find(key)
		if !there || to == from || !table.record.Whole(memory.Bytes[to:]) {
			t.Errorf("%v: the record at %d, moved from %d, is not sealed", m, to, from)
		}
		left := layout.SealIn(memory.Bytes[from : from+table.record.Bytes])
		if (left != 0) != (m == MoveSealed) {
			t.Errorf("%v: the record has left seal %x", m, left)
		}
	}
}
