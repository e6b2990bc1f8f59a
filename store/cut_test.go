package store

import (
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/words"
)

// cutting is access that is cut off.
type cutting struct{ tabletest.Cut }

func (a cutting) region() *htm.Region { return a.R }

// TestAChangeThatIsCutOffIsPutBack: a process that ends between any two stores of a change, buckets linked and unlinked
// included, leaves the table as it was before. Without notes it does not.
func TestAChangeThatIsCutOffIsPutBack(t *testing.T) {
	c := Config{ID: 1, Name: "t", ValueBytes: 8, MainBuckets: 2, IndirectBuckets: 20, Entries: 120}
	if err := cutsArePutBack(t, c); err != nil {
		t.Error(err)
	}
	if c.Mutation = Unnoted; cutsArePutBack(t, c) == nil {
		t.Errorf("the mutation %v is not found", c.Mutation)
	}
}

func cutsArePutBack(t *testing.T, c Config) error {
	t.Helper()
	at := tabletest.JournalAt(c.Bytes())
	m := tabletest.Memory(at+words.UndoBytes, false)
	table, err := Format(c, m, 0)
	if err != nil {
		t.Fatal(err)
	}
	table.Journal(words.FormatUndo(m.Bytes, at))
	cuts := tabletest.Cuts{Memory: m, TableBytes: c.Bytes(),
		Direct: func() words.Direct { return directOf(nil, table).Direct },
		Ensure: func(a tabletest.Cut, key uint64) bool {
			_, _, ok, err := ensure(table, cutting{a}, key, 0)
			return ok && err == nil
		},
		Reclaim: func(a tabletest.Cut, key uint64) bool {
			ok, err := reclaim(table, cutting{a}, key, 0)
			return ok && err == nil
		},
		Check: func() error { return checkTable(table) }}
	return cuts.ArePutBack(100, 300)
}
