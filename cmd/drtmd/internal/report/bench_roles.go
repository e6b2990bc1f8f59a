package report

import (
	"fmt"
	"time"

	"drtmd/proto/protocol"
)

// RoleRow is what the threads of a role have done while the run was measured, on all nodes together.
type RoleRow struct {
	Role      string `json:"role"`
	PerNode   int    `json:"threads_per_node"`
	Committed uint64 `json:"committed"` // for clients, or by NICs as coordinators
	// LogRecords were applied to tables, with Updates in them.
	LogRecords uint64 `json:"log_records_applied"`
	Updates    uint64 `json:"updates_applied"`
	Requests   uint64 `json:"nic_requests"` // messages between NICs, answers included
	// Busy is the share of their time, 0 to 1, for which the simulator has charged them; nil: nothing is modelled.
	Busy *float64 `json:"busy,omitempty"`
}

// FillRoles takes over what the threads of each role have done; threads is how many a node has.
func (b *Bench) FillRoles(threads [protocol.RolesEnd]int, did *[protocol.RolesEnd]protocol.RoleStats) {
	for r := range protocol.RolesEnd {
		n, x := threads[r], &did[r]
		if n == 0 {
			continue
		}
		row := RoleRow{Role: r.String(), PerNode: n, Committed: x.Committed, LogRecords: x.LogRecords, Updates: x.Updates,
			Requests: x.Requests}
		if b.Virtual && b.ElapsedNs > 0 {
			busy := float64(x.BusyPs) / 1e3 / float64(b.ElapsedNs) / float64(n*b.Nodes)
			row.Busy = &busy
		}
		b.Roles = append(b.Roles, row)
	}
}

// roles is the table of what threads did, by role.
func (b *Bench) roles() *table {
	t := newTable("threads", ">per node", ">committed/s", ">log records applied/s", ">updates applied/s",
		">requests of NICs/s", ">busy")
	for i := range b.Roles {
		r := &b.Roles[i]
		rate := func(n uint64) string { return fmt.Sprintf("%.0f", perSecond(n, time.Duration(b.ElapsedNs))) }
		busy := "-"
		if r.Busy != nil {
			busy = fmt.Sprintf("%.1f %%", 100**r.Busy)
		}
		t.row(r.Role, fmt.Sprint(r.PerNode), rate(r.Committed), rate(r.LogRecords), rate(r.Updates), rate(r.Requests), busy)
	}
	return t
}
