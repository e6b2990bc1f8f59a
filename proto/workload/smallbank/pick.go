package smallbank

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// picker chooses customers of a node.
type picker struct {
	hot, cold uint32 // customers
	hotBelow  uint32 // a 32-bit draw below this is for the hot ones
}

func newPicker(o *Options) (picker, error) {
	var p picker
	switch {
	case o.Theta != 0:
		return p, fmt.Errorf("smallbank: Zipf %v is not offered", o.Theta)
	case !(o.HotAccounts > 0 && o.HotAccounts <= 1):
		return p, fmt.Errorf("smallbank: the share %v of hot accounts is not in (0, 1]",
			o.HotAccounts)
	case !(o.HotAccess >= 0 && o.HotAccess <= 1):
		return p, fmt.Errorf("smallbank: the share %v of accesses to hot accounts is not in 0..1",
			o.HotAccess)
	}
	p.hot = uint32(max(1, math.Round(float64(o.Accounts)*o.HotAccounts)))
	p.cold = uint32(o.Accounts) - p.hot
	p.hotBelow = threshold(o.HotAccess)
	if p.cold == 0 {
		p.hotBelow = math.MaxUint32
	}
	return p, nil
}

// customer draws one.
func (p *picker) customer(r *rand.Rand) int {
	u := r.Uint64()
	if uint32(u) <= p.hotBelow {
		return int(scale(uint32(u>>32), p.hot))
	}
	return int(p.hot + scale(uint32(u>>32), p.cold))
}

// threshold is what a 32-bit draw must not exceed with probability p; 0 for p = 0 as well, which
// errs by one in 2^32.
func threshold(p float64) uint32 { return uint32(math.Round(p * math.MaxUint32)) }

// scale maps a 32-bit draw to 0..n-1.
func scale(u, n uint32) uint32 { return uint32(uint64(u) * uint64(n) >> 32) }
