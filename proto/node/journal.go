package node

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto/protocol"
	"drtmd/store/words"
)

// Where tables outlive the process, and have no line words, a worker that is killed may leave half a change of one, and
// its lock. So each worker has a journal (words.Undo) behind its log, in the memory of the tables: when the memory is
// attached to, what was cut off is put back before anybody reads a table.

// journaled is a table that notes its changes. A table of several extents does not: no protocol that logs its own
// transactions has any.
type journaled interface {
	Journal(u *words.Undo)
	Unlock()
}

// journalBytes is the memory of a worker's journal; 0: it has none.
func (m *Member) journalBytes() int {
	if !m.cluster.Durable() || m.lineWords() {
		return 0
	}
	return words.UndoBytes
}

// journal opens the journal of a worker for the tables of a share. In kept memory it puts back what the worker has not
// finished in an earlier life.
func (m *Member) journal(e *Env, x *protocol.Share) error {
	if m.journalBytes() == 0 {
		return nil
	}
	region, at := x.MR.Bytes(), m.journalsAt+e.Index*m.journalBytes()
	var u *words.Undo
	if m.cfg.Attach {
		var err error
		if u, _, err = words.OpenUndo(region, at, m.logsAt); err != nil {
			return fmt.Errorf("kept memory: %w: start the program that wrote it", err)
		}
	} else {
		u = words.FormatUndo(region, at)
	}
	for _, t := range x.Tables {
		j, ok := t.(journaled)
		invariant.Assert(ok, "a table that outlives the process notes no changes: give its index a Journal")
		j.Journal(u)
		if m.cfg.Attach {
			j.Unlock() // its holder is dead
		}
	}
	return nil
}
