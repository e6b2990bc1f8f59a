package workload

import (
	"fmt"
	"math/rand/v2"
)

// Mix draws kinds of transactions by their shares in percent. It is immutable.
type Mix struct{ kinds [100]uint8 }

// NewMix makes a mix of at most MaxKinds shares, which have to add up to 100.
func NewMix(shares []int) (m Mix, err error) {
	n := 0
	for k, share := range shares {
		if share < 0 || n+share > len(m.kinds) {
			return m, fmt.Errorf("the mix %v does not add up to 100 %%", shares)
		}
		for range share {
			m.kinds[n] = uint8(k)
			n++
		}
	}
	if n != len(m.kinds) || len(shares) > MaxKinds {
		return m, fmt.Errorf("the mix %v adds up to %d %%", shares, n)
	}
	return m, nil
}

// Draw draws a kind, from 0.
func (m *Mix) Draw(r *rand.Rand) int { return int(m.kinds[r.IntN(len(m.kinds))]) }
