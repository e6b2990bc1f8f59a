// Package drtmocc is DrTM-OCC (DrTM §8.6): FaRM's optimistic concurrency control over DrTM's store, against
// which DrTM is measured there. EXECUTE and VALIDATE are READs, LOG is WRITEs, and the records of LOCK and
// COMMIT are messages. It is a declaration; package occ does the work.
//
// Phases, messages, trips and bytes are those of DrTM+H (package drtmh), whose table TestMessages holds: what
// tells the two apart is the channel.
//
// # Differs
//
// The channel: DrTM-OCC writes messages by RDMA WRITE into memory that the other node polls, here they go by
// RPC over datagrams until package occ has a carrier for that. Records of the own node are reached by the CPU.
package drtmocc

import (
	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/protocol"
)

// Protocol describes DrTM-OCC.
func Protocol() protocol.Protocol {
	return occ.Instance{Name: "drtm-occ", Family: "drtmh", Late: true,
		Doc:      "DrTM-OCC: FaRM's commit over DrTM's store, its messages by RPC (DrTM §8.6)",
		Strategy: occ.ByRPC().With(occ.OneSided, proto.PhaseExecute, proto.PhaseValidate, proto.PhaseLog),
	}.Protocol()
}
