package protocol

import (
	"strings"

	"drtmd/proto/option"
)

// Roles is a set of what a thread of a member does: a worker, or a core of its NIC. Xenic §4.2 (Figure 6) and §5.6 divide
// the threads of a host into application threads and Robinhood workers.
type Roles uint8

// Roles.
const (
	// Application threads run the transactions of clients.
	Application Roles = 1 << iota
	// Robinhood workers apply what NICs have put into logs to the tables of their host.
	Robinhood
	// NICCore is a core of a NIC that runs the protocol; it is no worker.
	NICCore
	// RolesEnd is one more than every set of roles.
	RolesEnd
)

func (r Roles) String() string {
	var names []string
	for i, name := range []string{"application thread", "Robinhood worker", "NIC core"} {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " and ")
}

// RoleStats is what the threads of a role have done.
type RoleStats struct {
	Committed  uint64 // transactions: for clients, or by NICs as coordinators
	LogRecords uint64 // applied to tables
	Updates    uint64 // that were in these
	Requests   uint64 // messages to other NICs, answers included
	BusyPs     uint64 // CPU time in the simulator, in picoseconds; 0 elsewhere
}

// RolesOf are the roles of a worker: what the protocol's chips say, or else that it runs transactions.
func (p *Protocol) RolesOf(s Sizes, o option.Values, worker int) Roles {
	if p.Chips == nil || p.Chips.Roles == nil {
		return Application
	}
	workers, _ := p.Chips.Roles(s, o)
	return workers[worker]
}

// Threads is how many threads of a member have which roles; all 0 if the protocol does not divide them.
func (p *Protocol) Threads(s Sizes, o option.Values) (n [RolesEnd]int) {
	if p.Chips == nil || p.Chips.Roles == nil {
		return n
	}
	workers, cores := p.Chips.Roles(s, o)
	for _, r := range workers {
		n[r]++
	}
	n[NICCore] = cores
	return n
}
