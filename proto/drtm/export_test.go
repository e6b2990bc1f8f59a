package drtm

import (
	"math/bits"

	"drtmd/proto"
)

// LoadedLines is how many lines of the first record of a transaction were loaded; 0: all.
func LoadedLines(x proto.Txn) int { return bits.OnesCount64(x.(*tx).Records[0].Lines) }
