package store

import (
	"testing"

	"pgregory.net/rapid"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// tableErrors are what the shared tests of tables expect.
var tableErrors = tabletest.Errors{Full: ErrFull, Bound: ErrBound, Key: ErrKey, Exists: ErrExists,
	ValueSize: ErrValueSize, NoEntry: ErrNoEntry, Live: ErrLive, State: ErrState}

// TestTableIsAMapWithVersionsThatGrow runs random insertions, writes, deletions and reclaims of a
// few keys, some of them in regions that are aborted, against a map. The tables are so small that
// all limits are met.
func TestTableIsAMapWithVersionsThatGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{ID: 1, Name: "model", ValueBytes: rapid.IntRange(1, 100).Draw(t, "value"),
			Layout: rapid.SampledFrom([]layout.Kind{0, layout.KindOneVersion,
				layout.KindLineVersions, layout.KindSealed}).Draw(t, "layout"),
			MainBuckets:     rapid.IntRange(1, 3).Draw(t, "main"),
			IndirectBuckets: rapid.IntRange(0, 4).Draw(t, "indirect"),
			Entries:         rapid.IntRange(1, 60).Draw(t, "entries")}
		memory := htm.NewMemory(tabletest.Aligned(c.Bytes()), make([]uint64, c.Bytes()/layout.LineBytes),
			uint16(rapid.IntRange(1, 20).Draw(t, "slot")), nil)
		table, err := Format(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := &tabletest.Model[*Table]{Table: table, Keys: 64, Whole: checkTable, Errors: tableErrors,
			Attach: func() (*Table, error) { return Attach(c, memory, 0) }}
		m.Start()
		m.Load(t, rapid.Uint64Range(0, m.Keys).Draw(t, "loaded"), func(i uint64) uint64 { return i })
		t.Repeat(m.Actions())
	})
}
