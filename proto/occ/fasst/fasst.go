package fasst

import (
	"drtmd/proto/occ"
	"drtmd/proto/protocol"
)

// Protocol describes FaSST.
func Protocol() protocol.Protocol {
	return occ.Instance{Name: "fasst",
		Doc:      "optimistic concurrency control by RPC alone, reads and locks in one request (Xenic §2.2.2)",
		Strategy: occ.ByRPC()}.Protocol()
}
