package store

import (
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
)

// cutting is access that is cut off.
type cutting struct{ tabletest.Cut }

func (a cutting) region() *htm.Region { return a.R }

// TestAChangeThatIsCutOffIsPutBack: a process that ends between any two stores of a change, buckets linked and unlinked
// included, leaves the table as it was before. Without notes it does not.
func TestAChangeThatIsCutOffIsPutBack(t *testing.T) {
	c := Config{ID: 1, Name: "t", ValueBytes: 8, MainBuckets: 2, IndirectBuckets: 20, Entries: 120}
	if err := cutsArePutBack(c); err != nil {
		t.Error(err)
	}
	if c.Mutation = Unnoted; cutsArePutBack(c) == nil {
		t.Errorf("the mutation %v is not found", c.Mutation)
	}
}

func cutsArePutBack(c Config) error {
	cuts := tabletest.Cuts[*Table, cutting]{Bytes: c.Bytes(),
		Format: func(m *htm.Memory) (*Table, error) { return Format(c, m, 0) },
		Access: func(t *Table, left *int) cutting {
			return cutting{tabletest.Cut{Direct: directOf(nil, t).Direct, Left: left}}
		},
		Ensure: ensure[cutting], Reclaim: reclaim[cutting], Check: checkTable}
	return cuts.ArePutBack(100, 300)
}
