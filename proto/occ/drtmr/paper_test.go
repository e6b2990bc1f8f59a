package drtmr_test

import (
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/occ/drtmr"
	"drtmd/proto/occ/occtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMessages: the table of the package comment, for Xenic's O(0,1) and O(4,2) (§2.2.2).
func TestMessages(t *testing.T) { occtest.Check(t, drtmr.Evaluated(), evaluated) }

// evaluated is the table of drtmr-verbs.
func evaluated(lock string, s occtest.Shape) (x occtest.Traffic) {
	const v = occtest.ValueBytes
	count := func(p proto.Phase, requests, bytes int) {
		if requests > 0 {
			x[p].Add(proto.Traffic{Requests: uint64(requests), Bytes: uint64(bytes)})
			x[p].Trips = 1
		}
	}
	if count(proto.PhaseExecute, s.Reads, (24+v)*s.Reads); lock == occ.LockEarly {
		count(proto.PhaseExecute, 2*s.Writes, (48+v)*s.Writes)
	} else {
		count(proto.PhaseExecute, s.Writes, (24+v)*s.Writes)
		count(proto.PhaseLock, 2*s.Writes, 48*s.Writes)
	}
	if s.Reads+s.Writes > 1 {
		count(proto.PhaseValidate, s.Reads, 24*s.Reads)
	}
	count(proto.PhaseCommit, 3*s.Writes, (32+v)*s.Writes)
	return x
}
