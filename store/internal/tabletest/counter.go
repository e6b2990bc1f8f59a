package tabletest

import (
	"fmt"
	"testing"

	"drtmd/htm"
	"drtmd/store/layout"
)

// Counting is a Table whose counter of incarnations other replicas may raise.
type Counting interface {
	Table
	Incarnations() uint32
	RaiseIn(r *htm.Region, n uint32) (ok bool)
}

// CountersGoOn raises the counter of a table, also while another worker gives an entry back: of two that raise it
// the higher one stays. locked calls a function while the lock of a table without line words is taken.
func CountersGoOn[C interface{ Bytes() int }, T Counting](t *testing.T, c C,
	format, attach func(C, *htm.Memory, int) (T, error), locked func(T, func())) {
	for _, worded := range []bool{true, false} {
		t.Run(fmt.Sprintf("worded=%t", worded), func(t *testing.T) {
			m := Memory(c.Bytes(), worded)
			table, err := format(c, m, 0)
			if err != nil {
				t.Fatal(err)
			}
			other, err := attach(c, htm.NewMemory(m.Bytes, m.Words, 2, nil), 0)
			if err != nil {
				t.Fatal(err)
			}
			r, raising := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
			raise := func(n, want uint32) {
				t.Helper()
				raising.Begin()
				if ok := other.RaiseIn(raising, n); !ok || !raising.Commit(nil) {
					t.Fatalf("the counter is not raised to %d", n)
				}
				if got := table.Incarnations(); got != want {
					t.Errorf("raised to %d: %d, want %d", n, got, want)
				}
			}
			raise(6, 6)
			raise(4, 6)

			r.Begin()
			off, v, ok, err := table.EnsureIn(r, 1, 0)
			if !ok || err != nil || v.Incarnation() != 6 {
				t.Fatalf("a new record has version %v: %t, %v", v, ok, err)
			}
			r.Store64(m, off+layout.VersionOffset, uint64(v.Inserted().Deleted()))
			if !r.Commit(CommitterOf(m)) {
				t.Fatal("a region that was alone did not commit")
			}
			r.Begin()
			if ok, err := table.ReclaimIn(r, 1, 0); !ok || err != nil { // its incarnation is above the counter
				t.Fatal(ok, err)
			}
			raise(100, 100)
			if committed := r.Commit(CommitterOf(m)); committed == worded {
				t.Errorf("the region that has read the old counter commits: %t", committed)
			}
			if got := table.Incarnations(); got != 100 {
				t.Errorf("then it is %d, want 100", got)
			}

			if !worded {
				locked(table, func() {
					raising.Begin()
					if other.RaiseIn(raising, 200) || table.Incarnations() != 100 {
						t.Error("the counter is raised although another worker has the lock")
					}
				})
				raise(200, 200)
			}
		})
	}
}
