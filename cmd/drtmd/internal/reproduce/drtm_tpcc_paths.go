package reproduce

import (
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
	"drtmd/proto/workload/tpcc"
)

// fallenShare is how many of the committed transactions of a kind, each of one piece, have committed on the fallback path,
// in percent.
func fallenShare(k tpcc.Kind) func(*load.Result) float64 {
	return func(r *load.Result) float64 {
		return 100 * float64(r.Sum.Engine.FallbackKinds[k].Committed) /
			float64(max(1, r.Sum.Counts.Kinds[k].Outcomes[proto.Committed]))
	}
}

// fallbackShare is how many attempts of a kind took the fallback path, in percent of those that were committed.
func fallbackShare(k tpcc.Kind) func(*load.Result) float64 {
	return func(r *load.Result) float64 {
		return 100 * float64(r.Sum.Engine.FallbackKinds[k].All) /
			float64(max(1, r.Sum.Counts.Kinds[k].Outcomes[proto.Committed]))
	}
}

// capacityShare is how many of them did so for want of capacity, in percent.
func capacityShare(k tpcc.Kind) func(*load.Result) float64 {
	return func(r *load.Result) float64 {
		x := &r.Sum.Engine.FallbackKinds[k]
		return 100 * float64(x.Capacity) / float64(max(1, x.All))
	}
}
