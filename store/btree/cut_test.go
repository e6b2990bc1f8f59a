package btree

import (
	"testing"

	"drtmd/store/internal/tabletest"
	"drtmd/store/words"
)

// TestAChangeThatIsCutOffIsPutBack: a process that ends between any two stores of a change, nodes split and made one
// included, leaves the tree as it was before.
func TestAChangeThatIsCutOffIsPutBack(t *testing.T) {
	if err := cutsArePutBack(t, For(1, "t", 8, 100)); err != nil {
		t.Error(err)
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
		Direct: func() words.Direct { return table.direct(nil) },
		Ensure: func(a tabletest.Cut, key uint64) bool {
			_, _, ok, err := ensure(table, a, key, 0)
			return ok && err == nil
		},
		Reclaim: func(a tabletest.Cut, key uint64) bool {
			ok, err := reclaim(table, a, key, 0)
			return ok && err == nil
		},
		Check: func() error { return checkTable(table) }}
	return cuts.ArePutBack(150, 400)
}
