package reproduce

import (
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// local observes L_RD and L_WR: in a region, without a verb.
func (r *Run) local(mode proto.Mode) (e effect, err error) {
	g, err := newRig(r.ctx, r.Mutation)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	var found, regions uint64
	before, old := g.state(), g.value()
	err = g.pair(r.ctx, func(f *fiber.Fiber, en proto.Engine) error {
		at := en.Stats().RegionRuns
		err := attempt(f, en, accesses(mode), func(tx proto.Txn) (err error) {
			found, err = access(tx, mode)
			return err
		})
		regions = en.Stats().RegionRuns - at
		return err
	})
	if err != nil {
		return e, err
	}
	inside := regions == 1 && len(g.remote) == 0
	e.state = setOf(inside, g.state() != before, false)
	e.value = setOf(inside, g.value() != old, found == loadedValue)
	if e.state == "?" {
		locked, err := r.refusedByLock(mode)
		if err != nil {
			return e, err
		}
		e.state = setOf(inside, false, locked)
	}
	return e, nil
}

// refusedByLock reports whether a local access commits where no lock is, and aborts where the state
// says that there is one: it reads the state.
func (r *Run) refusedByLock(mode proto.Mode) (bool, error) {
	const late interleaving = 0 // the lock comes when the local transaction is over
	aborts, err := r.conflict(late, proto.ModeWrite, mode)
	if err != nil || aborts {
		return false, err
	}
	return r.conflict(remoteFirst, proto.ModeWrite, mode)
}

// setOf is a part's place in the sets of a region.
func setOf(inside, changed, decides bool) string {
	switch {
	case !inside:
		return "by verbs"
	case changed:
		return "WS"
	case decides:
		return "RS"
	}
	return "?"
}

// begun observes R_RD and R_WR: what START of a transaction of node 1 does.
func (r *Run) begun(mode proto.Mode) (e effect, err error) {
	return r.remote(mode, func(f *fiber.Fiber, g *rig, tx proto.Tx) (effect, error) {
		e := g.byVerbs(0, loadedValue) // of START alone: reads and writes take what it fetched
		b := make([]byte, recordBytes)
		if err := tx.Read(recordTable, theRecord, b); err != nil {
			return e, err
		}
		if binary.NativeEndian.Uint64(b) != loadedValue {
			e.value = "not fetched"
		}
		tx.Abort(proto.ErrRollback)
		return e, f.Sleep(opTime)
	})
}

// writtenBack observes R_WB: what COMMIT does with a record that START has locked.
func (r *Run) writtenBack() (effect, error) {
	return r.remote(proto.ModeWrite, func(f *fiber.Fiber, g *rig, tx proto.Tx) (effect, error) {
		if _, err := access(tx, proto.ModeWrite); err != nil {
			return effect{}, err
		}
		locked := g.state()
		g.remote = nil
		if err := tx.Commit(); err != nil {
			return effect{}, err
		}
		err := f.Sleep(opTime) // the write-back may follow the commit
		return g.byVerbs(locked, loadedValue), err
	})
}

// remote begins a transaction of node 1 on the record and has look observe it.
func (r *Run) remote(mode proto.Mode,
	look func(f *fiber.Fiber, g *rig, tx proto.Tx) (effect, error)) (e effect, err error) {
	g, err := newRig(r.ctx, r.Mutation)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	err = g.pair(r.ctx, nil, func(f *fiber.Fiber, en proto.Engine) error {
		g.remote = nil
		tx, err := en.Begin(f, remotely(mode), 0)
		if err != nil {
			return err
		}
		e, err = look(f, g, tx)
		return err
	})
	return e, err
}

// byVerbs says what the remote accesses since the last look did to state and value, which were so.
func (g *rig) byVerbs(state, value uint64) effect {
	return effect{g.part(layout.StateOffset, g.state() != state),
		g.part(layout.ValueOffset, g.value() != value)}
}

// part is what they did to the word at an offset of the record.
func (g *rig) part(offset int, changed bool) string {
	read, written := false, false
	for _, a := range g.remote {
		if a.Offset <= g.at+offset && a.Offset+a.Length >= g.at+offset+8 {
			read = read || a.Op == verbs.OpRead
			written = written || a.Op != verbs.OpRead
		}
	}
	switch {
	case changed && written:
		return "WR"
	case changed:
		return "changed without a verb"
	case read:
		return "RD"
	}
	return "untouched"
}
