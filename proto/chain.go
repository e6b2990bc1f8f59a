package proto

import (
	"errors"
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
)

// MaxPieces bounds the pieces of a chain.
const MaxPieces = 64

// Chain is a Program in pieces that commit one by one, in order, and are one transaction (DrTM §4). Package chop
// says into which pieces transactions may be chopped. An engine that is no Chainer runs the Program as a whole.
//
// Pieces may roll back, or fail, up to the first that changes something. From its commit on the chain is binding:
// every further piece is run until it commits.
type Chain interface {
	Program
	// Pieces is their number, from 1 to MaxPieces. It is asked before the first one.
	Pieces() int
	// PlanPiece fills d before each attempt of a piece, from 0, by unprotected reads, as Dependent.Plan does.
	PlanPiece(f *fiber.Fiber, peek Peeker, piece int, d *Decl) error
	// ExecutePiece runs the code of a piece, and checks what was planned for it: Aborting(ReasonPlan) if that
	// does not hold.
	ExecutePiece(tx Txn, piece int) error
	// AppendPieces appends the parameters of the pieces from one on, which are all that these pieces need: Resumer
	// makes them anew of the same bytes. They are known when the piece before has been planned, if that one or
	// one before it changes something.
	AppendPieces(b []byte, from int) []byte
}

// Resumer makes the remaining pieces of a chain that was cut off: of a transaction of a kind, those from one on, by
// what AppendPieces has written.
type Resumer interface {
	Resume(kind uint8, from int, parameters []byte) (Chain, error)
}

// Link is where a running chain stands. Its engine reads it; Runner moves it.
type Link struct {
	Kind          uint8 // Decl.Kind
	Piece, Pieces int   // Piece runs, from 0
	// Binding: a piece that changes something has committed.
	Binding bool
	// Rest are the parameters of the pieces behind this one, as Chain.AppendPieces has written them for this
	// attempt: what is left to do once it has committed. There are none if the chain is not binding then, and
	// none behind the last piece.
	Rest []byte
	// Name is that of the chain in the engine's logs; 0: none. It outlives the process, and no other chain has it.
	Name uint64
	// Resumed: the pieces from the first one that runs here on were left by an earlier life of the engine.
	Resumed bool
}

// Last reports whether no piece is left behind this one.
func (l *Link) Last() bool { return l.Piece == l.Pieces-1 }

// Chainer is an engine that commits pieces one by one.
type Chainer interface {
	// OpenChain begins a chain; nil: it is to be run as a whole.
	OpenChain(f *fiber.Fiber, kind uint8, pieces int) ChainTx
	// Cut are the chains that the engine has found in its logs, and of which nothing was run yet.
	Cut() []Cut
	// ReopenChain goes on with one of them.
	ReopenChain(c *Cut) ChainTx
}

// Cut is a chain that was cut off by the end of a process, behind a piece that had bound it.
type Cut struct {
	Kind         uint8
	From, Pieces int    // From is the first piece that is left
	Parameters   []byte // as Chain.AppendPieces has written them
	Name         uint64 // Link.Name
	Slot         int    // of the engine's logs
}

// ChainTx is a chain under way, of an engine.
type ChainTx interface {
	Link() *Link
	// BeginPiece is Engine.Begin of an attempt of the piece at which the link is.
	BeginPiece(f *fiber.Fiber, d *Decl, attempt int) (Tx, error)
	// CloseChain ends the chain, after its last attempt. It is committed or rolled back with a piece; the other
	// outcomes are new to the engine.
	CloseChain(o Outcome)
}

// errCut is the error of a chain that is binding and was not finished: with ErrUnknownOutcome, since the rest may
// still be made by whoever knows it.
var errCut = fmt.Errorf("%w: a chain of pieces was cut off", ErrUnknownOutcome)

// ErrResume is wrapped by the error of a chain whose rest could not be made or run.
var ErrResume = errors.New("the rest of a chain of pieces that was cut off")

// Resume runs the rest of every chain that an earlier life of the engine has left. They are binding, so that each
// piece is run until it commits.
func (r *Runner) Resume(f *fiber.Fiber, of Resumer) error {
	e, ok := r.Engine.(Chainer)
	if !ok {
		return nil
	}
	for _, c := range e.Cut() {
		p, err := of.Resume(c.Kind, c.From, c.Parameters)
		if err == nil && p.Pieces() != c.Pieces {
			err = fmt.Errorf("it has %d pieces now", p.Pieces())
		}
		if err == nil {
			x := e.ReopenChain(&c)
			_, err = r.runChain(f, &Decl{Kind: c.Kind}, p, x)
		}
		if err != nil {
			return fmt.Errorf("%w: a transaction of kind %d, from piece %d of %d on: %w", ErrResume, c.Kind, c.From, c.Pieces, err)
		}
	}
	return nil
}

// openChain is nil if the engine runs no chains, or this one as a whole.
func (r *Runner) openChain(f *fiber.Fiber, d *Decl, p Chain) ChainTx {
	e, ok := r.Engine.(Chainer)
	if !ok {
		return nil
	}
	if n := p.Pieces(); n > 1 {
		return e.OpenChain(f, d.Kind, n)
	}
	return nil
}

// runChain runs a chain until it has an outcome.
func (r *Runner) runChain(f *fiber.Fiber, d *Decl, p Chain, c ChainTx) (res Result, err error) {
	defer func() { c.CloseChain(res.Outcome) }() // 0: the program panics
	l := c.Link()
	for {
		if err = r.runPiece(f, d, p, c, &res); err != nil {
			break
		}
		if l.Last() {
			res.Attempts++
			res.Outcome = Committed
			return res, nil
		}
		l.Piece++
	}
	res.Attempts++ // it has none of its own yet for the piece that ended the chain
	switch {
	case l.Binding:
		res.Outcome, err = Unknown, fmt.Errorf("%w: %w", errCut, err)
	case err == ErrRollback:
		res.Outcome, err = RolledBack, nil
	case errors.Is(err, ErrUnknownOutcome):
		res.Outcome = Unknown
	default:
		res.Outcome = Aborted
	}
	return res, err
}

// runPiece runs a piece until it commits, or must be given up. It counts attempts that do neither.
func (r *Runner) runPiece(f *fiber.Fiber, d *Decl, p Chain, c ChainTx, res *Result) error {
	l := c.Link()
	var begun time.Duration
	for attempt := 0; ; attempt++ {
		err := r.attemptPiece(f, d, p, c, attempt)
		reason := AbortReason(err)
		if reason == 0 {
			invariant.Assert(err != ErrRollback || !l.Binding, "a piece behind a binding one rolls back")
			return err
		}
		r.aborted(res, reason)
		over := r.GiveUp != nil && r.GiveUp()
		if !l.Binding && (over || !reason.Retry() || attempt+1 >= MaxAttempts) ||
			l.Binding && over && (!reason.Retry() || attempt+1 >= MaxAttempts) {
			return err
		}
		res.Attempts++
		if err := r.pause(f, min(attempt+1, MaxAttempts), &begun); err != nil {
			return err
		}
	}
}

// attemptPiece runs a piece once.
func (r *Runner) attemptPiece(f *fiber.Fiber, d *Decl, p Chain, c ChainTx, attempt int) error {
	l := c.Link()
	d.Accesses = d.Accesses[:0]
	if err := p.PlanPiece(f, r.Engine, l.Piece, d); err != nil {
		return err
	}
	if l.Rest = l.Rest[:0]; !l.Last() && (l.Binding || d.Changes()) {
		l.Rest = p.AppendPieces(l.Rest, l.Piece+1)
	}
	tx, err := c.BeginPiece(f, d, attempt)
	if err != nil {
		return err
	}
	return execute(tx, nil, p, l.Piece)
}
