package smallbank

import (
	"fmt"
	"math"
	"math/rand/v2"

	"drtmd/proto/workload/zipf"
)

// picker chooses customers of a node.
type picker struct {
	hot, cold uint32 // customers
	hotBelow  uint32 // a 32-bit draw below this is for the hot ones
	// zipf, if not nil, takes the place of the hot set; customer i has rank i.
	zipf *zipf.Zipf
}

func newPicker(o *Options) (picker, error) {
	var p picker
	if o.Theta != 0 {
		var err error
		if p.zipf, err = zipf.New(uint64(o.Accounts), o.Theta); err != nil {
			return p, fmt.Errorf("smallbank: %w", err)
		}
		return p, nil
	}
	switch {
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
	if p.zipf != nil {
		return int(p.zipf.Rank(r))
	}
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
