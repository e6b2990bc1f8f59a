package protocol

import (
	"math"
	"time"

	"drtmd/proto"
	"drtmd/proto/option"
)

// OptOrphanAfter is an option of every protocol that calls locks orphaned (proto.Orphan).
const OptOrphanAfter = "orphan-after"

// OrphanAfter is that option.
func OrphanAfter() option.Option {
	return option.Duration(OptOrphanAfter, proto.DefaultOrphanAfter, time.Microsecond, math.MaxInt64,
		"`TIME` for which a transaction must have met one lock until the lock counts as orphaned, if its "+
			"holder does not live")
}
