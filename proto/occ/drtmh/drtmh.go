package drtmh

import (
	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/protocol"
)

// strategy of all.
func strategy() occ.Strategy {
	return occ.ByRPC().With(occ.OneSided, proto.PhaseExecute, proto.PhaseValidate, proto.PhaseLog)
}

// Protocol describes DrTM+H.
func Protocol() protocol.Protocol {
	return occ.Instance{Name: "drtmh", Late: true, Strategy: strategy(),
		Doc: "DrTM+H: reads and validation by READ through cached addresses, locks and commit by RPC (Xenic §5.1)",
	}.Protocol()
}

// Uncached describes DrTM+H NC.
func Uncached() protocol.Protocol {
	s := strategy()
	s.Uncached = true
	return occ.Instance{Name: "drtmh-nc", Family: "drtmh", Late: true, Strategy: s,
		Doc: "DrTM+H without its cache: each look-up goes through the buckets by READs (Xenic §5.1)",
	}.Protocol()
}
