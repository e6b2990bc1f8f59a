package load

import (
	"context"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/verbs"
)

// looks is a site whose looks are given: each sleep is a second.
type looks struct {
	site
	at    time.Duration
	given []Snapshot
}

func (s *looks) start() error                  { return nil }
func (s *looks) now() time.Duration            { return s.at }
func (s *looks) failure(context.Context) error { return nil }
func (s *looks) device() verbs.DeviceAttr      { return verbs.DeviceAttr{} }
func (s *looks) sleep(context.Context, time.Duration) error {
	s.at += time.Second
	return nil
}

func (s *looks) glance(_ context.Context, sum *Snapshot) (time.Duration, error) {
	sum.add(&s.given[min(int(s.at/time.Second), len(s.given))-1])
	return s.at, nil
}

// counted is what an engine has counted: attempts begun, committed, rolled back, unknown, aborted for
// two reasons.
func counted(begun, committed, rolledBack, unknown, locked, leased uint64) Snapshot {
	s := Snapshot{Engine: proto.Stats{Begun: begun, Committed: committed, RolledBack: rolledBack,
		Unknown: unknown}}
	s.Engine.Aborts[proto.ReasonLocked], s.Engine.Aborts[proto.ReasonLeased] = locked, leased
	return s
}

// TestProgressNeverTellsOfMoreAbortsThanAttempts although long transactions are aborted in another
// interval than the one in which they began.
func TestProgressNeverTellsOfMoreAbortsThanAttempts(t *testing.T) {
	s := &looks{given: []Snapshot{
		counted(10, 0, 0, 0, 0, 0),  // ten begin and none ends
		counted(12, 2, 0, 0, 3, 3),  // two begin, eight end
		counted(12, 2, 0, 0, 3, 4),  // none begins, one is aborted
		counted(20, 6, 1, 1, 4, 8),  // the rest
		counted(20, 6, 1, 1, 4, 8),  // nothing
		counted(30, 16, 1, 1, 4, 8), // ten are committed
	}}
	want := []float64{0, 6.0 / 8, 1, 5.0 / 11, 0, 0}
	var got []float64
	r := &run{site: s, o: &Options{Duration: time.Duration(len(want)) * time.Second,
		Interval: time.Nanosecond, Progress: func(p Progress) { got = append(got, p.AbortRate) }}}
	if err := r.pass(t.Context(), Measuring, r.o.Duration); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("progress %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("second %d: %v of the attempts aborted, want %v", i+1, got[i], want[i])
		}
	}
	for i, p := range r.series {
		if p.Aborted > p.Attempts {
			t.Errorf("point %d: %d of %d attempts aborted", i, p.Aborted, p.Attempts)
		}
	}
}
