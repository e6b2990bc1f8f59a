package drtm

import (
	"math/bits"

	"drtmd/proto"
)

// LoadedLines is how many lines of the first record of a transaction were loaded; 0: all.
func LoadedLines(x proto.Txn) int { return bits.OnesCount64(x.(*tx).Records[0].Lines) }

// SpareBound is how many entries wait to be given back.
const SpareBound = spareBound

// NoSpare has entries that are to be given back find no room in their queues.
func (e *Engine) NoSpare(none bool) {
	dropped := e.spare.dropped
	e.spare = newSpare(e)
	if e.spare.dropped = dropped || none; none {
		e.spare.deleted.ring, e.spare.waiting.ring = nil, nil
	}
}
