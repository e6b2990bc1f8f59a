package load

import (
	"context"
	"fmt"
	"strings"
	"time"

	"drtmd/proto"
)

// endTimeout bounds the wait for the transactions under way at the end of a run, and settleTimeout,
// after that, for what they owe to nodes that were out of reach: updates of committed transactions,
// and locks. Both are over at once where the network is well.
const (
	endTimeout    = 10 * time.Second
	settleTimeout = 15 * time.Second
)

// Unsettled is what was not in order when a run ended. The zero value: all was.
type Unsettled struct {
	UnderWay   bool `json:"under_way,omitempty"`  // transactions had not ended
	Recovering bool `json:"recovering,omitempty"` // what lost nodes have left was not recovered
	Owed       int  `json:"owed,omitempty"`       // updates and locks, to nodes that live
	Unapplied  int  `json:"unapplied,omitempty"`  // log records that backups are not known to have applied
	// Waited is for how long all but UnderWay was waited for.
	Waited time.Duration `json:"waited_ns,omitempty"`
}

// plus adds another part's.
func (u Unsettled) plus(o Unsettled) Unsettled {
	return Unsettled{UnderWay: u.UnderWay || o.UnderWay, Recovering: u.Recovering || o.Recovering,
		Owed: u.Owed + o.Owed, Unapplied: u.Unapplied + o.Unapplied, Waited: max(u.Waited, o.Waited)}
}

// err is nil, or an *UnsettledError.
func (u Unsettled) err() error {
	if u == (Unsettled{}) {
		return nil
	}
	return &UnsettledError{u}
}

// UnsettledError says why nothing can be said of the sums of a run: some of what it did had not reached
// every node when it was ended. What was measured stands, and its history can be checked.
type UnsettledError struct{ Unsettled }

func (e *UnsettledError) Error() string {
	var why []string
	if e.UnderWay {
		why = append(why, "transactions were still under way long after the end")
	}
	if e.Recovering {
		why = append(why, fmt.Sprintf("what lost nodes have left was not recovered within %v", e.Waited))
	}
	if e.Owed > 0 {
		why = append(why, fmt.Sprintf("%d updates or locks are owed to nodes that could not be reached for %v",
			e.Owed, e.Waited))
	}
	if e.Unapplied > 0 {
		why = append(why, fmt.Sprintf("backups have not applied %d log records within %v", e.Unapplied, e.Waited))
	}
	return strings.Join(why, "; ") + ": the sums cannot be judged; " + e.next()
}

// next is what to do about it.
func (e *UnsettledError) next() string {
	const network = "look for the network's fault (drtmd status, ip link); RoCE v2 needs UDP port 4791 open between all " +
		"nodes, in both directions"
	switch {
	case e.Owed > 0:
		return network
	case e.Unapplied > 0:
		return "look at the load of the backups' machines (drtmd status, top) and run again with fewer --fibers; " +
			"if they are idle, " + network
	case e.Recovering:
		return "see what the recovery waits for (drtmd status), and whether all nodes reach each other; " + network
	}
	return "look at the load of all machines (drtmd status, top) and run again with fewer --fibers; if they are idle, " +
		network
}

// virtualPatience is how many times longer waits in real time may be where time is virtual: a busy machine takes long for the
// events of what is a few microseconds there, and only what never ends is to be found.
const virtualPatience = 60

// bound of a wait in real time.
func (o *Options) bound(d time.Duration) time.Duration {
	if o.Virtual {
		return virtualPatience * d
	}
	return d
}

// end ends the transactions under way, and waits until nothing is owed and backups are equal to primaries.
func (s *local) end(ctx context.Context) (Unsettled, error) { return s.endWithout(ctx, nil) }

// endWithout is end when some nodes are gone. It may be called again when more are.
func (s *local) endWithout(ctx context.Context, gone []proto.NodeID) (u Unsettled, err error) {
	s.over.Store(true)
	late, cancel := context.WithTimeout(ctx, s.o.bound(endTimeout))
	defer cancel()
	switch err := s.tasks.Wait(late); {
	case err != nil && late.Err() != nil && ctx.Err() == nil:
		u.UnderWay = true
	case err != nil:
		return u, fmt.Errorf("ending the transactions under way: %w", err)
	}
	patience := s.o.Settle
	if patience == 0 {
		patience = s.o.bound(settleTimeout)
	}
	late, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	begin := time.Now()
	left, err := s.settle(late, gone)
	if err != nil && late.Err() == nil {
		return u, err
	}
	if left != (Unsettled{}) {
		left.Waited = min(patience, time.Since(begin).Round(10*time.Millisecond))
		err = nil // what is left says it
	}
	u = u.plus(left)
	if s.cluster.Recovers() {
		r, err := s.recovery(ctx)
		if err != nil {
			return u, err
		}
		s.recovered = r.totals()
	}
	s.owing = u != Unsettled{} // what an end before found is no more true than what it said
	s.underWay = u.UnderWay
	return u, err
}

// settle waits until nothing is left to do at other nodes. Where records have replicas, what nodes that are gone have
// left is recovered then, and all replicas are complete.
func (s *local) settle(ctx context.Context, gone []proto.NodeID) (Unsettled, error) {
	s.changes.Lock()
	managed := s.adopted > 0
	s.changes.Unlock()
	managed = managed && s.cluster.Recovers()
	epoch := func() uint64 { // clients of memory nodes have no map
		if !managed {
			return 0
		}
		return s.cluster.Members[0].Map().Epoch
	}
	for { // what was waited for takes time in which more may go
		before, running := epoch(), false
		if managed {
			var err error
			if running, err = s.awaitWhole(ctx, gone); err != nil {
				return Unsettled{}, err
			}
		}
		left, err := s.cluster.Settle(ctx)
		changed := managed && epoch() != before
		if err != nil || ctx.Err() != nil || !changed {
			return Unsettled{Recovering: running || changed, Owed: left.Owed, Unapplied: left.Unapplied}, err
		}
	}
}
