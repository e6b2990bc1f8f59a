package proto

import (
	"errors"
	"math/rand/v2"
	"time"

	"drtmd/verbs/fiber"
)

// Bounds of Run.
const (
	// MaxAttempts of one transaction before it is given up.
	MaxAttempts = 10_000
	// backoffFirst and backoffMost bound the random pause after an abort, doubling from one to
	// the other. Behind backoffLong attempts it is up to backoffSpread times as long as the last one
	// took, at most backoffLimit: transactions that begin at the same time and lock each other's
	// records would do so for ever if their pauses differed by less than their attempts last.
	backoffFirst  = 2 * time.Microsecond
	backoffMost   = 512 * time.Microsecond
	backoffLong   = 64
	backoffSpread = 4
	backoffLimit  = time.Second
	backoffAfter  = 2 // aborts without a pause but a yield
)

// errPanicked is why a transaction is aborted whose program panicked.
var errPanicked = errors.New("the program panicked")

// Runner runs programs through an engine. It belongs to the engine's worker.
type Runner struct {
	Engine Engine
	// Rand draws the pauses between attempts.
	Rand *rand.Rand
	// GiveUp ends a transaction after the attempt during which it becomes true; nil: never.
	GiveUp func() bool
	// Aborts, if set, counts aborted attempts by reason, beside the engine's Stats: those of one
	// type of transaction.
	Aborts *[ReasonEnd]uint64

	argument, result []byte // of calls
}

// Result of a transaction.
type Result struct {
	Outcome  Outcome
	Attempts int
	Reason   Reason // of the last abort; 0 if there was none
}

// Run runs a program until it has an outcome. The error is nil for Committed and RolledBack. For
// Aborted it is the last Abort, or the program's own error, or that of the fiber's cancellation;
// for Unknown it is ErrUnknownOutcome or wraps it. Run does not allocate.
func (r *Runner) Run(f *fiber.Fiber, d *Decl, p Program) (Result, error) {
	if chain, ok := p.(Chain); ok {
		if c := r.openChain(f, d, chain); c != nil {
			return r.runChain(f, d, chain, c)
		}
	}
	var res Result
	var begun time.Duration
	for {
		err := r.attempt(f, d, p, res.Attempts)
		res.Attempts++
		reason := AbortReason(err)
		if reason != 0 {
			r.aborted(&res, reason)
		}
		switch {
		case err == nil:
			res.Outcome = Committed
			return res, nil
		case err == ErrRollback:
			res.Outcome = RolledBack
			return res, nil
		case errors.Is(err, ErrUnknownOutcome):
			res.Outcome = Unknown
			return res, err
		case reason == 0 || !reason.Retry() || res.Attempts >= MaxAttempts,
			r.GiveUp != nil && r.GiveUp():
			res.Outcome = Aborted
			return res, err
		}
		if err := r.pause(f, res.Attempts, &begun); err != nil {
			res.Outcome = Aborted
			return res, err
		}
	}
}

// aborted counts an attempt.
func (r *Runner) aborted(res *Result, reason Reason) {
	res.Reason = reason
	r.Engine.Stats().Aborts[reason]++
	if r.Aborts != nil {
		r.Aborts[reason]++
	}
}

// attempt runs the program once.
func (r *Runner) attempt(f *fiber.Fiber, d *Decl, p Program, n int) error {
	if dep, ok := p.(Dependent); ok {
		if err := dep.Plan(f, r.Engine, d); err != nil {
			return err
		}
	}
	if call, ok := p.(Shippable); ok {
		if shipper, ok := r.Engine.(Shipper); ok {
			if shipped, err := r.ship(f, d, call, shipper, n); shipped {
				return err
			}
		}
	}
	tx, err := r.Engine.Begin(f, d, n)
	if err != nil {
		return err
	}
	return execute(tx, p, nil, 0)
}

// ship runs an attempt of a program for which a function stands, if the engine ships that.
func (r *Runner) ship(f *fiber.Fiber, d *Decl, p Shippable, s Shipper, n int) (shipped bool, err error) {
	function, argument := p.Call(r.argument[:0])
	r.argument = argument
	if function == 0 || !s.Ships(function, d) {
		return false, nil
	}
	if r.result, err = s.Ship(f, d, n, function, argument, r.result[:0]); err != nil {
		return true, err
	}
	return true, p.Return(r.result)
}

// execute runs the code of a program, or of a piece of a chain if that is not nil, and ends the attempt.
func execute(tx Tx, p Program, chain Chain, piece int) (err error) {
	executed := false
	defer func() {
		if !executed {
			tx.Abort(errPanicked) // the program's panic goes on
		}
	}()
	if chain != nil {
		err = chain.ExecutePiece(tx, piece)
	} else {
		err = p.Execute(tx)
	}
	executed = true
	switch {
	case err == nil:
		return tx.Commit()
	case errors.Is(err, ErrRollback):
		if err := tx.Rollback(); err != nil {
			return err
		}
		return ErrRollback
	case AbortReason(err) != 0:
		tx.Abort(err)
		return err
	}
	// The program's own error counts only if what it saw was a valid view.
	if abort := tx.Rollback(); abort != nil {
		return abort
	}
	return err
}

// pause lets others finish what this transaction ran into. begun is when the attempt before it did, 0 if
// that was the first, and becomes when the next one does.
func (r *Runner) pause(f *fiber.Fiber, attempts int, begun *time.Duration) (err error) {
	if attempts <= backoffAfter {
		err = f.Yield()
	} else {
		err = f.Sleep(time.Duration(1 + r.Rand.Int64N(int64(longestPause(attempts, f.Now()-*begun)))))
	}
	*begun = f.Now()
	return err
}

// longestPause is that after so many attempts, of which the last one took some time.
func longestPause(attempts int, took time.Duration) time.Duration {
	most := min(backoffFirst<<min(attempts-backoffAfter, 16), backoffMost)
	if attempts < backoffLong {
		return most
	}
	return max(most, min(backoffSpread*took, backoffLimit))
}
