package occ

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
)

// Strategies that do not wait for COMMIT (HADES §III, optimisation 3). When all holders have the record of a
// transaction, it is committed whatever becomes of COMMIT, so its program goes on when that is sent. The answers
// are looked at later: when the worker begins another transaction, or by a timer. Until then the phase is under
// way: a change of the view waits for it, and the record is not decided.

const (
	// unawaitedLook is how often answers are looked at when no transaction begins.
	unawaitedLook = 10 * time.Microsecond
	// mostUnawaited bounds the transactions whose answers have not been looked at; more wait for theirs.
	mostUnawaited = 64
)

// leaveUnawaited ends a transaction whose COMMIT was sent, for its program. lookAtUnawaited ends the phase.
func (t *tx) leaveUnawaited() {
	e := t.e
	e.view.busy++
	e.Counters.Committed++
	t.End(history.Committed)
	t.F = nil
	e.unawaited = append(e.unawaited, t)
	e.armUnawaited()
}

func (e *Engine) armUnawaited() { e.unawaitedTimer.Set(e.Env.Worker.Now() + unawaitedLook) }

// lookAtUnawaited ends the transactions whose COMMITs were all answered.
func (e *Engine) lookAtUnawaited() {
	left := e.unawaited[:0]
	for _, t := range e.unawaited {
		if !t.answered() {
			left = append(left, t)
			continue
		}
		t.await(proto.PhaseCommit)
		t.trips = 0 // nobody has waited
		t.releasedThere(0)
		t.truncate()
		t.leave()
		e.view.end()
	}
	clear(e.unawaited[len(left):])
	if e.unawaited = left; len(left) > 0 {
		e.armUnawaited()
	}
}

// answered reports whether all calls of the round have ended.
func (t *tx) answered() bool {
	for _, c := range t.calls[:t.asked] {
		if c.err == nil && !c.by.ended(c) {
			return false
		}
	}
	return true
}
