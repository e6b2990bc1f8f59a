package nocc

import (
	"drtmd/proto"
	"drtmd/proto/protocol"
)

// CPU costs in picoseconds that the simulator charges: assumed, those of package twopl without its locks. A
// transaction is charged for its records when it ends: nothing else may run in between.
const (
	beginCostPs  = 60_000 // of a transaction
	recordCostPs = 40_000 // of a record, with its look-up; of an entry that is made or given back; of a peek
	copyCostPs   = 10_000 // of a record that the program reads, and of one that it changes
)

// Protocol describes the limit to compare with.
func Protocol() protocol.Protocol {
	return protocol.Protocol{Name: "nocc",
		Doc:       "no concurrency control, on one thread: the limit to compare with",
		Needs:     protocol.Needs{OneThread: true, Scans: true},
		Unmutated: "it has no concurrency control: it runs on one thread",
		New: func(e *protocol.Env) (proto.Engine, error) {
			c := Config{Specs: e.Specs, Placement: e.Placement, Region: e.Region,
				Recorder: e.Recorder, Clock: e.RecorderClock}
			for _, all := range e.All {
				tables, err := protocol.EntriesOf(all)
				if err != nil {
					return nil, err
				}
				c.Tables = append(c.Tables, tables)
			}
			return New(c), nil
		}}
}
