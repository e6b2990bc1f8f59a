package workload

import "testing"

func TestLedgerExplainsWhatHappened(t *testing.T) {
	q := func(a int64) Quantities { return Quantities{a} }
	many := make([]Quantities, 200)
	for i := range many {
		many[i] = q(1 << (i % 60))
	}
	for _, c := range []struct {
		name    string
		did     Ledger
		initial int64
		final   int64
		ok      bool
	}{
		{"nothing", Ledger{}, 5, 5, true},
		{"lost", Ledger{}, 5, 4, false},
		{"committed", Ledger{Committed: q(-3)}, 5, 2, true},
		{"committed twice", Ledger{Committed: q(-3)}, 5, -1, false},
		{"unknown happened", Ledger{Unknown: []Quantities{q(7), q(2)}}, 5, 12, true},
		{"unknown did not", Ledger{Unknown: []Quantities{q(7), q(2)}}, 5, 5, true},
		{"unknown both", Ledger{Unknown: []Quantities{q(7), q(2)}}, 5, 14, true},
		{"unknown in part", Ledger{Unknown: []Quantities{q(7), q(2)}}, 5, 8, false},
		{"too many to tell, within", Ledger{Unknown: many}, 0, 3, true},
		{"too many to tell, below", Ledger{Unknown: many}, 0, -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.did.Explains(q(c.initial), q(c.final), "sum")
			if (err == nil) != c.ok {
				t.Errorf("Explains: %v, want ok %v", err, c.ok)
			}
		})
	}
}
