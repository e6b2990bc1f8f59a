package drtmr

import (
	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/protocol"
)

// Protocol describes DrTM+R as Xenic describes it.
func Protocol() protocol.Protocol {
	s := occ.ByRPC().With(occ.OneSided, proto.PhaseExecute, proto.PhaseLock, proto.PhaseLog, proto.PhaseCommit)
	s.Steps[proto.PhaseLock].Records = occ.ReadSet | occ.WriteSet
	s.Steps[proto.PhaseValidate] = occ.Step{}
	s.Regions = true
	return occ.Instance{Name: "drtmr", Strategy: s,
		Doc: "DrTM+R as described: locks on all records of other nodes by CAS, local ones in a region (Xenic §2.2.2)",
	}.Protocol()
}

// Evaluated describes DrTM+R as Xenic evaluates it.
func Evaluated() protocol.Protocol {
	return occ.Instance{Name: "drtmr-verbs", Late: true,
		Doc: "DrTM+R as evaluated: DrTM+H's commit with every phase one-sided (Xenic §5.1)",
		Strategy: occ.ByRPC().With(occ.OneSided, proto.PhaseExecute, proto.PhaseLock, proto.PhaseValidate,
			proto.PhaseLog, proto.PhaseCommit)}.Protocol()
}
