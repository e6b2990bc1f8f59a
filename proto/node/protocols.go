package node

import (
	"drtmd/proto"
	"drtmd/proto/nocc"
)

// noccChargePs is the CPU time of a transaction without concurrency control in the simulator:
// assumed, five cache misses of 50 ns.
const noccChargePs = 250_000

// Protocols lists what transactions can run on.
func Protocols() []Protocol {
	return []Protocol{
		{Name: "nocc", OneThread: true, New: newNoCC,
			Doc: "no concurrency control, on one thread: the limit to compare with"},
	}
}

func newNoCC(e *Env) (proto.Engine, error) {
	return nocc.New(nocc.Config{Tables: e.All, Placement: e.Placement, Geometry: e.Geometry,
		Recorder: e.Recorder, Clock: e.RecorderClock, ChargePs: noccChargePs}), nil
}
