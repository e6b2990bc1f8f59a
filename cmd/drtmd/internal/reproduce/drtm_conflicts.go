package reproduce

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// interleaving of a local and a remote operation on the record, by the part of Figure 8.
type interleaving byte

const (
	remoteAfter  interleaving = 'b' // after the local access, while its region runs
	remoteInside interleaving = 'c' // the region has begun, and has not touched the record
	remoteFirst  interleaving = 'd' // before the region
)

// conflictPaper is Table IV as printed: S share, C conflict.
var conflictPaper = []struct {
	figure        interleaving
	remote, local proto.Mode
	result        string
}{
	{remoteAfter, proto.ModeRead, proto.ModeRead, "C"},
	{remoteAfter, proto.ModeRead, proto.ModeWrite, "C"},
	{remoteAfter, proto.ModeWrite, proto.ModeRead, "C"},
	{remoteAfter, proto.ModeWrite, proto.ModeWrite, "C"},
	{remoteInside, proto.ModeRead, proto.ModeRead, "S"},
	{remoteInside, proto.ModeRead, proto.ModeWrite, "C"},
	{remoteInside, proto.ModeWrite, proto.ModeRead, "C"},
	{remoteInside, proto.ModeWrite, proto.ModeWrite, "C"},
	{remoteFirst, proto.ModeRead, proto.ModeRead, "S"},
	{remoteFirst, proto.ModeRead, proto.ModeWrite, "C"},
	{remoteFirst, proto.ModeWrite, proto.ModeRead, "C"},
	{remoteFirst, proto.ModeWrite, proto.ModeWrite, "C"},
}

const tableIVReading = "C: the local transaction aborts; R_RD with L_RD in Figure 8(b) is the " +
	"one false conflict, because a lease writes the state"

// tableIV runs the protocol on each cell.
func tableIV(r *Run) (*Outcome, error) {
	o := &Outcome{Conditions: "the protocol on two simulated nodes, state and value of a record on " +
		"one line; nothing is drawn, so there are no seeds"}
	for i, c := range conflictPaper {
		if err := r.step(i, len(conflictPaper)); err != nil {
			return nil, err
		}
		aborted, err := r.conflict(c.figure, c.remote, c.local)
		if err != nil {
			return nil, err
		}
		ours := map[bool]string{true: "C", false: "S"}[aborted]
		what := fmt.Sprintf("Figure 8(%c), R_%s, L_%s", c.figure, short(c.remote), short(c.local))
		o.Rows = append(o.Rows, word(what, "Table IV", c.result, ours, tableIVReading))
	}
	return o, nil
}

// short is the paper's name of an access.
func short(m proto.Mode) string {
	if m == proto.ModeWrite {
		return "WR"
	}
	return "RD"
}

// conflict reports whether the local access aborts by a remote one of the same record.
func (r *Run) conflict(figure interleaving, remote, local proto.Mode) (aborted bool, err error) {
	g, err := newRig(r.ctx, r.Mutation)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	var got error
	here := func(f *fiber.Fiber, e proto.Engine) error {
		pause := func(at interleaving) {
			if figure == at {
				f.Charge(opTime.Nanoseconds() * 1000)
			}
		}
		if figure == remoteFirst {
			if err := f.Sleep(2 * opTime); err != nil {
				return err
			}
		}
		got = attempt(f, e, accesses(local), func(tx proto.Txn) error {
			pause(remoteInside)
			_, err := access(tx, local)
			pause(remoteAfter)
			return err
		})
		return nil
	}
	there := func(f *fiber.Fiber, e proto.Engine) error {
		if err := f.Sleep(nudge); err != nil {
			return err
		}
		tx, err := e.Begin(f, remotely(remote), 0)
		if err != nil {
			return err
		}
		err = f.Sleep(4 * opTime)
		tx.Abort(proto.ErrRollback)
		return err
	}
	if err := g.pair(r.ctx, here, there); err != nil {
		return false, err
	}
	if got != nil && proto.AbortReason(got) == 0 {
		return false, got
	}
	return got != nil, nil
}

// effect is what an operation does to a part of a record, in the words of Table III: read or
// written by verbs (RD, WR), or in the read or write set of a region (RS, WS).
type effect struct{ state, value string }

// effectPaper is Table III as printed.
var effectPaper = []struct {
	operation string
	paper     effect
	run       func(r *Run) (effect, error)
}{
	{"L_RD", effect{"RS", "RS"}, func(r *Run) (effect, error) { return r.local(proto.ModeRead) }},
	{"L_WR", effect{"RS", "WS"}, func(r *Run) (effect, error) { return r.local(proto.ModeWrite) }},
	{"R_RD", effect{"WR", "RD"}, func(r *Run) (effect, error) { return r.begun(proto.ModeRead) }},
	{"R_WR", effect{"WR", "RD"}, func(r *Run) (effect, error) { return r.begun(proto.ModeWrite) }},
	{"R_WB", effect{"WR", "WR"}, (*Run).writtenBack},
}

const tableIIIReading = "written: its bytes change; read: what it holds decides; by verbs, or " +
	"in the set of a region"

// tableIII runs each operation and looks at the record.
func tableIII(r *Run) (*Outcome, error) {
	o := &Outcome{Conditions: "the protocol on two simulated nodes; nothing is drawn, so there are " +
		"no seeds"}
	for i, e := range effectPaper {
		if err := r.step(i, len(effectPaper)); err != nil {
			return nil, err
		}
		ours, err := e.run(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.operation, err)
		}
		o.Rows = append(o.Rows,
			word(e.operation+", state", "Table III", e.paper.state, ours.state, tableIIIReading),
			word(e.operation+", value", "Table III", e.paper.value, ours.value, tableIIIReading))
	}
	return o, nil
}
