package status

import (
	"fmt"
	"time"
)

// Logs are those that the workers of a node keep of their own transactions, together, and what came of the last
// recovery from them.
type Logs struct {
	Bytes   uint64 `json:"bytes"` // of memory
	Used    uint64 `json:"used_bytes"`
	Slots   int    `json:"slots"`       // for transactions
	Taken   int    `json:"slots_taken"` // by those under way, or that wait for another node
	Records uint64 `json:"records"`     // written since the plane was built
	Waits   uint64 `json:"waits"`       // transactions that have waited for a slot
	TooLong uint64 `json:"too_long"`    // attempts whose records did not fit into a slot
	// What the last recovery has found and done, when the plane was built.
	Found      uint64  `json:"records_found"`
	Torn       uint64  `json:"records_torn"`      // not whole, and not applied
	Completed  uint64  `json:"completed"`         // transactions that had taken place
	Undone     uint64  `json:"undone"`            // that had not
	Resumed    uint64  `json:"resumed"`           // transactions in pieces that were finished
	Recovering int     `json:"recovering"`        // of all, those of which something is left to do
	RestoredS  float64 `json:"recovery_s"`        // how long it took the slowest worker
	Attached   bool    `json:"recovery_attached"` // there was something to recover from: the plane goes on with kept tables
}

// String is for people.
func (l *Logs) String() string {
	s := fmt.Sprintf("%s MiB of %s MiB used, %d of %d slots, %d records written", MiB(l.Used), MiB(l.Bytes), l.Taken, l.Slots,
		l.Records)
	if l.Waits > 0 {
		s += fmt.Sprintf(", %d waits for a slot", l.Waits)
	}
	if l.TooLong > 0 {
		s += fmt.Sprintf(", %d attempts too long for one", l.TooLong)
	}
	if !l.Attached {
		return s
	}
	s += fmt.Sprintf("; last recovery: %d records in %v, %d transactions completed, %d undone", l.Found,
		time.Duration(l.RestoredS*1e9).Round(10*time.Microsecond), l.Completed, l.Undone)
	if l.Resumed > 0 {
		s += fmt.Sprintf(", %d in pieces finished", l.Resumed)
	}
	if l.Torn > 0 {
		s += fmt.Sprintf(", %d records torn", l.Torn)
	}
	if l.Recovering > 0 {
		s += fmt.Sprintf("; %d are not finished", l.Recovering)
	}
	return s
}

// String is for people.
func (d *Data) String() string {
	s := fmt.Sprintf("partition %d of %d of data %s (%s, %s), used by %d runs", d.Partition, d.Partitions, d.ID, d.Workload,
		d.Protocol, d.Runs)
	switch {
	case !d.Loaded:
		s += "; not loaded completely"
	case !d.InUse:
		s += "; not in use by the plane"
	}
	return s
}
