package rpc

import "time"

// rtt estimates the retransmission timeout from round trips, as RFC 6298 does.
type rtt struct {
	smooth, variance time.Duration // 0 = nothing measured
	rto              time.Duration
}

// sample takes a round trip. Calls that were retransmitted give none (Karn's rule).
func (r *rtt) sample(d time.Duration, c *Config) {
	d = max(d, 1)
	if r.smooth == 0 {
		r.smooth, r.variance = d, d/2
	} else {
		r.variance += ((r.smooth - d).Abs() - r.variance) / 4
		r.smooth += (d - r.smooth) / 8
	}
	r.rto = min(max(r.smooth+4*r.variance, c.RTOMin), c.RTOMax)
}

// timeout is the one after backoff earlier ones.
func (r *rtt) timeout(backoff uint, c *Config) time.Duration {
	return min(r.rto<<min(backoff, maxBackoff), c.RTOMax)
}

// maxBackoff bounds the doublings: with them any timeout has reached RTOMax.
const maxBackoff = 16
