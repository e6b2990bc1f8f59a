package drtmr

import (
	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/protocol"
)

// Evaluated describes DrTM+R as Xenic evaluates it.
func Evaluated() protocol.Protocol {
	return occ.Instance{Name: "drtmr-verbs", Late: true,
		Doc: "DrTM+R as evaluated: DrTM+H's commit with every phase one-sided (Xenic §5.1)",
		Strategy: occ.ByRPC().With(occ.OneSided, proto.PhaseExecute, proto.PhaseLock, proto.PhaseValidate,
			proto.PhaseCommit)}.Protocol()
}
