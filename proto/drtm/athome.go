package drtm

import (
	"errors"
	"fmt"

	"drtmd/proto"
)

// Tables that only their own machine accesses (proto.TableSpec.AtHome), without line words. The paper's ordered store is
// such a table: no transaction of its workloads needs that of another machine (§6), and verbs do not reach it. The state
// words of their records are the CPU's alone, so that their locks cost no request to the NIC, neither in a commit (hca.go)
// nor in the fallback handler. All other records that are written are locked by the NIC.

// ErrNotAtHome is wrapped by the error of a transaction that accesses a record of a table, kept at home, of another machine.
var ErrNotAtHome = errors.New("the table's records are accessed by transactions of their own node only")

// nearTables says of each table whether the state words of the own machine's records are the CPU's. Nobody writes to a
// table that is everywhere, and in a cluster of one there is nobody else.
func nearTables(c *Config) []bool {
	if c.Memory.Words != nil {
		return nil
	}
	near := make([]bool, len(c.Specs))
	for i := range c.Specs {
		s := &c.Specs[i]
		near[i] = s.AtHome || s.Everywhere || len(c.Peers) == 1 || c.Mutation == HCACPUAnywhere
	}
	return near
}

// notAtHome refuses a key of another machine's table that is kept at home there.
func (e *Engine) notAtHome(table proto.TableID, of proto.NodeID, what string) error {
	return fmt.Errorf("%w: node %d, table %q, %s, of node %d", ErrNotAtHome, e.Env.Node, e.Env.Specs[table-1].Name, what, of)
}
