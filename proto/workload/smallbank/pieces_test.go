package smallbank

import (
	"testing"

	"drtmd/proto/chop"
)

// TestSmallBankStaysUnchopped (DrTM §8.1).
func TestSmallBankStaysUnchopped(t *testing.T) {
	for _, optimised := range []bool{false, true} {
		r, err := chop.Analyse(pieces(), chop.Options{Optimised: optimised})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Transactions {
			if c := &r.Transactions[i]; len(c.Pieces) != 1 {
				t.Errorf("%s has %d pieces", c.Name, len(c.Pieces))
			}
		}
	}
}
