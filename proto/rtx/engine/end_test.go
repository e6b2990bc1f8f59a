package engine

import (
	"fmt"
	"testing"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/sherman"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// attempt is a transaction whose view is valid, or not.
type attempt struct {
	sherman.Tx
	invalid error
}

func (a *attempt) Commit() error   { return a.invalid }
func (a *attempt) Rollback() error { return a.invalid }
func (a *attempt) Abort() error    { return nil }

// always begins one attempt.
type always struct {
	memory
	a *attempt
}

func (m always) begin(*fiber.Fiber, bool) (transaction, error) { return m.a, nil }

// answer is an index that says the same of every key.
type answer struct {
	Index
	found bool
	err   error
}

func (x *answer) Get(sherman.Tx, uint64, bool, []byte) (layout.Version, bool, error) {
	return 0, x.found, x.err
}

// What Peek gives, and why an operation ends a transaction, is of a view that is valid; otherwise it is an Abort.
func TestWhatIsToldIsValid(t *testing.T) {
	invalid := proto.Aborting(proto.ReasonValidation)
	large := fmt.Errorf("%w: too many objects", rtx.ErrTooLarge)
	for _, x := range []struct {
		name    string
		invalid error
		found   bool
		err     error
		peek    error // exactly this, as callers compare
		op      error
	}{
		{"found", nil, true, nil, nil, nil},
		{"absent", nil, false, nil, proto.ErrNotFound, nil},
		{"found, out of date", invalid, true, nil, invalid, nil},
		{"absent, out of date", invalid, false, nil, invalid, nil},
		{"aborted", invalid, false, proto.Aborting(proto.ReasonLocked), proto.Aborting(proto.ReasonLocked),
			proto.Aborting(proto.ReasonLocked)},
		{"too large", nil, false, large, large, large},
		{"too large, out of date", invalid, false, large, invalid, invalid},
		{"full", nil, false, rtx.ErrFull, rtx.ErrFull, proto.Aborting(proto.ReasonFull)},
		{"full, out of date", invalid, false, rtx.ErrFull, invalid, invalid},
	} {
		k := &client{memory: always{a: &attempt{invalid: x.invalid}}, tables: []Index{&answer{found: x.found, err: x.err}}}
		e := &Engine{cfg: Config{Specs: []proto.TableSpec{{ID: 1, Name: "t", ValueBytes: 8}}}, clients: []*client{k},
			free: []*client{k}}
		value := make([]byte, 8)
		if got := e.Peek(nil, 1, 7, value); got != x.peek {
			t.Errorf("%s: Peek says %v, want %v", x.name, got, x.peek)
		}
		k.tx.k, k.tx.tx = k, k.memory.(always).a
		if got := k.tx.outcome(x.err); got != x.op {
			t.Errorf("%s: an operation says %v, want %v", x.name, got, x.op)
		}
	}
}
