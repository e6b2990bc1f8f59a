package nocc

import (
	"drtmd/proto"
	"drtmd/proto/protocol"
)

// chargePs is the CPU time of a transaction in the simulator: assumed, five cache misses of 50 ns.
const chargePs = 250_000

// Protocol describes the limit to compare with.
func Protocol() protocol.Protocol {
	return protocol.Protocol{Name: "nocc",
		Doc:       "no concurrency control, on one thread: the limit to compare with",
		Needs:     protocol.Needs{OneThread: true, Scans: true},
		Unmutated: "it has no concurrency control: it runs on one thread",
		New: func(e *protocol.Env) (proto.Engine, error) {
			c := Config{Specs: e.Specs, Placement: e.Placement, Region: e.Region,
				Recorder: e.Recorder, Clock: e.RecorderClock, ChargePs: chargePs}
			for _, all := range e.All {
				tables := make([]Table, len(all))
				for i, x := range all {
					var err error
					if tables[i], err = TableOf(x); err != nil {
						return nil, err
					}
				}
				c.Tables = append(c.Tables, tables)
			}
			return New(c), nil
		}}
}
