package status

import (
	"fmt"
	"time"
)

// Clock is how well a node knows the time of its data plane, which is its leader's, and how long
// the read leases last that are taken by it.
type Clock struct {
	// Follows is the node whose clock is followed over the network; nil: it is this machine's own.
	Follows *int `json:"follows,omitempty"`
	// Error bounds how wrong the clock is now; Bound is what that should be at most.
	Error float64 `json:"error_s"`
	Bound float64 `json:"bound_s"`
	Age   float64 `json:"sample_age_s,omitempty"` // of the last sample of the other clock
	// Drift is how much faster the other clock is, as measured, and DriftError the error of that.
	Drift      float64 `json:"drift_ppm,omitempty"`
	DriftError float64 `json:"drift_error_ppm,omitempty"`
	// Lease and LeaseReadOnly are how long read leases of the plane last, those of read-only
	// transactions apart; 0: its protocol has none.
	Lease         float64 `json:"lease_s"`
	LeaseReadOnly float64 `json:"lease_read_only_s"`
}

func (c *Clock) String() string {
	s := fmt.Sprintf("the machine's, within %v", seconds(c.Error))
	if c.Follows != nil {
		s = fmt.Sprintf("within %v of node %d's (expected: %v)", seconds(c.Error), *c.Follows,
			seconds(c.Bound))
		if c.DriftError > 0 {
			s += fmt.Sprintf(", drift %.0f±%.0f ppm", c.Drift, c.DriftError)
		}
	}
	if c.Lease > 0 {
		s += fmt.Sprintf("; read leases of %v, read-only %v", seconds(c.Lease), seconds(c.LeaseReadOnly))
	}
	return s
}

// seconds is a number of seconds as people read it.
func seconds(s float64) time.Duration {
	d := time.Duration(s * float64(time.Second))
	if d < time.Millisecond {
		return d.Round(10 * time.Nanosecond)
	}
	return d.Round(10 * time.Microsecond)
}
