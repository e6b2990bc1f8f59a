package membership

import (
	"errors"
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// leaseMargin is how much longer than its lease the registry may keep a dead member: etcd extends
// leases by an election's time when it starts, and looks for those that have ended twice a second.
const leaseMargin = 5 * time.Second

// refusal is that members are in the way of a node that wants to join: one has its node id, or they run
// another build. They may be dead, and their leases about to end: nobody can tell before. After a
// lease and a margin, whoever is still there lives. The zero value is no refusal.
type refusal struct {
	until time.Time // when it is final; zero while there is none
}

// byMembers reports whether an error of join is such a refusal.
func byMembers(err error) bool {
	return errors.Is(err, member.ErrTaken) || errors.Is(err, member.ErrBuild)
}

// waits notes a refusal at a time, and reports whether to try again. first is the first of them.
func (r *refusal) waits(now time.Time, lease time.Duration) (again, first bool) {
	if r.until.IsZero() {
		r.until = now.Add(lease + leaseMargin)
		first = true
	}
	return now.Before(r.until), first
}

// forget is for what says nothing of the members: leases begin anew when etcd comes back.
func (r *refusal) forget() { r.until = time.Time{} }

// whatToDo about a refusal that is final.
func whatToDo(err error) string {
	switch {
	case errors.Is(err, member.ErrTaken):
		return "; give this node another node.id, or -1 for a free one, or stop that member"
	case errors.Is(err, member.ErrBuild):
		return "; use the same build of drtmd on every node"
	}
	return ""
}

// refused says what a refused node waits for, in status and once in the log, and reports whether it
// tries again.
func (m *Membership) refused(r *refusal, err error, joined bool) bool {
	again, first := r.waits(time.Now(), m.Lease())
	if joined && errors.Is(err, member.ErrTaken) {
		again = true // it has served: whoever took its id may go
	}
	if !again {
		return false
	}
	text := fmt.Sprintf("%v; if that member is dead, its lease ends by itself: waits for up to %v%s", err,
		m.Lease()+leaseMargin, whatToDo(err))
	phase := status.Joining
	if joined {
		phase = status.Refusing
	}
	m.o.Board.Set(phase, text)
	if first {
		m.o.Board.Event(status.Warn, "does not join yet: "+text)
	}
	return true
}
