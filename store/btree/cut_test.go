package btree

import (
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
)

// TestAChangeThatIsCutOffIsPutBack: a process that ends between any two stores of a change, nodes split and made one
// included, leaves the tree as it was before.
func TestAChangeThatIsCutOffIsPutBack(t *testing.T) {
	if err := cutsArePutBack(For(1, "t", 8, 100)); err != nil {
		t.Error(err)
	}
}

func cutsArePutBack(c Config) error {
	cuts := tabletest.Cuts[*Table, tabletest.Cut]{Bytes: c.Bytes(),
		Format: func(m *htm.Memory) (*Table, error) { return Format(c, m, 0) },
		Access: func(t *Table, left *int) tabletest.Cut { return tabletest.Cut{Direct: t.direct(nil), Left: left} },
		Ensure: ensure[tabletest.Cut], Reclaim: reclaim[tabletest.Cut], Check: checkTable}
	return cuts.ArePutBack(150, 400)
}
