package records

import (
	"math/rand/v2"
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
)

// TestAFullTableIsReplacedForEver: keys come and go in a table that is nearly full, and links of the index are used up
// again and again.
func TestAFullTableIsReplacedForEver(t *testing.T) {
	for _, c := range []struct{ entries, used, replacements int }{{32, 31, 20_000}, {512, 507, 40_000}, {4096, 3800, 120_000}} {
		table, err := Format(Config{ID: 1, Name: "t", ValueBytes: 8, Entries: c.entries},
			tabletest.Memory(Config{ID: 1, Name: "t", ValueBytes: 8, Entries: c.entries}.Bytes(), true), 0)
		if err != nil {
			t.Fatal(err)
		}
		r, random := htm.NewRegion(htm.Config{}), rand.New(rand.NewPCG(1, 2))
		keys := make([]uint64, c.used)
		for i := range c.used + c.replacements {
			k := &keys[i%c.used]
			if i >= c.used {
				k = &keys[random.IntN(c.used)]
				if !r.Begin() {
					t.Fatal("no region")
				}
				if ok, err := table.ReclaimIn(r, *k, 0); !ok || err != nil || !r.Commit(nil) {
					t.Fatal(ok, err)
				}
			}
			*k = random.Uint64()
			if _, _, _, err := table.make(*k, 0); err != nil {
				t.Fatalf("%d entries, %d used, after %d replacements: %v; %+v", c.entries, c.used, i-c.used, err, table.Occupancy())
			}
		}
	}
}
