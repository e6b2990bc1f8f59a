package drtm_test

import (
	"errors"
	"testing"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs"
)

// TestStateWordHasThePapersBits: Figure 9(b). Bit 0 is the lock, bits 1 to 8 the owner, the rest
// the lease's end in microseconds.
func TestStateWordHasThePapersBits(t *testing.T) {
	tests := []struct {
		name string
		s    drtm.State
		want uint64
	}{
		{"INIT", drtm.Init, 0},
		{"LOCKED(0)", drtm.LockedBy(0, 0), 1},
		{"LOCKED(255)", drtm.LockedBy(255, 0), 255<<1 | 1},
		{"a ticket where a lease would end", drtm.LockedBy(3, 5), 5<<9 | 3<<1 | 1},
		{"R_LEASED(1 us)", drtm.LeasedUntil(time.Microsecond), 1 << 9},
		{"R_LEASED of a fraction", drtm.LeasedUntil(1999 * time.Nanosecond), 1 << 9},
	}
	for _, x := range tests {
		if uint64(x.s) != x.want {
			t.Errorf("%s is %#x, want %#x", x.name, uint64(x.s), x.want)
		}
	}
	if s := drtm.LockedBy(200, 7); !s.Locked() || s.Owner() != 200 {
		t.Errorf("%v is not locked by 200", s)
	}
	end := 100 * 365 * 24 * time.Hour // time.Duration ends before the 55 bits do
	if s := drtm.LeasedUntil(end); s.Locked() || s.End() != end {
		t.Errorf("%v does not end at %v", s, end)
	}
}

// TestLeaseIsNeitherValidNorExpiredAroundItsEnd: VALID and EXPIRED of Figure 9(b) leave DELTA on
// both sides of a lease's end, in which it is neither.
func TestLeaseIsNeitherValidNorExpiredAroundItsEnd(t *testing.T) {
	const end, delta = 1000 * us, 30 * us
	tests := []struct {
		name           string
		now            time.Duration
		valid, expired bool
	}{
		{"long before", 0, true, false},
		{"just before end - DELTA", end - delta - 1, true, false},
		{"at end - DELTA", end - delta, false, false},
		{"at the end", end, false, false},
		{"at end + DELTA", end + delta, false, false},
		{"just after end + DELTA", end + delta + 1, false, true},
	}
	for _, x := range tests {
		if v, e := drtm.Valid(end, x.now, delta), drtm.Expired(end, x.now, delta); v != x.valid ||
			e != x.expired {
			t.Errorf("%s: valid %v and expired %v, want %v and %v", x.name, v, e, x.valid, x.expired)
		}
	}
	if !drtm.Expired(0, 0, delta) {
		t.Error("no lease is not expired at time 0")
	}
	// Two clocks that are 2 DELTA apart never disagree to harm: whenever the slow one takes the
	// lease for valid, the fast one does not take it for expired.
	for now := end - 3*delta; now < end+3*delta; now += us {
		if drtm.Valid(end, now-delta, delta) && drtm.Expired(end, now+delta, delta) {
			t.Errorf("at %v the lease is valid on one clock and expired on another", now)
		}
	}
}

func TestLeasesFollowTheRoundTripAndTheClocks(t *testing.T) {
	tests := []struct {
		name         string
		trip, delta  time.Duration
		lease, rolls time.Duration
	}{
		{"the paper's network", 3 * us, 0, 400 * us, time.Millisecond},
		{"Soft-RoCE", 300 * us, 0, 9600 * us, 24 * time.Millisecond},
		{"a fast network, clocks of two machines", 3 * us, 1360 * us, 4480 * us, 5080 * us},
	}
	for _, x := range tests {
		if l, ro := drtm.Leases(x.trip, x.delta); l != x.lease || ro != x.rolls {
			t.Errorf("%s: %v and %v, want %v and %v", x.name, l, ro, x.lease, x.rolls)
		}
	}
}

func TestConfigurationsThatCannotWorkAreRefused(t *testing.T) {
	words := htm.NewMemory(make([]byte, 64), nil, 0, nil)
	good := func() drtm.Config {
		return drtm.Config{Env: node.Env{Peers: make([]proto.Peer, 3), Memory: words,
			Scope: verbs.AtomicHCA, Clock: verbs.NewMonotonicClock()}}
	}
	tests := []struct {
		name   string
		change func(*drtm.Config)
	}{
		{"257 machines", func(c *drtm.Config) { c.Peers = make([]proto.Peer, 257) }},
		{"a node that is not there", func(c *drtm.Config) { c.Node = 3 }},
		{"too many workers", func(c *drtm.Config) { c.Index = drtm.MaxWorkers }},
		{"leases within the clock error", func(c *drtm.Config) { c.ClockError, c.Lease = 10*us, 20*us }},
		{"leases within another's clock error", func(c *drtm.Config) {
			c.WorstClockError, c.LeaseReadOnly = 10*us, 20*us
		}},
		{"no atomics", func(c *drtm.Config) { c.Scope = verbs.AtomicNone }},
	}
	for _, x := range tests {
		c := good()
		x.change(&c)
		if _, err := drtm.New(c); !errors.Is(err, drtm.ErrConfig) {
			t.Errorf("%s: %v, want %v", x.name, err, drtm.ErrConfig)
		}
	}
}
