package drtmr_test

import (
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/occ"
	"drtmd/proto/occ/drtmr"
	"drtmd/proto/occ/occtest"
	"drtmd/proto/option"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMessages: the tables of the package comment, for Xenic's O(0,1) and O(4,2) (§2.2.2).
func TestMessages(t *testing.T) {
	occtest.Check(t, drtmr.Protocol(), described)
	occtest.Check(t, drtmr.Evaluated(), evaluated)
}

const v = occtest.ValueBytes

// described is the table of drtmr.
func described(lock string, s occtest.Shape) (x occtest.Traffic) {
	all := s.Reads + s.Writes
	if lock == occ.LockEarly {
		x.Count(proto.PhaseExecute, 2*all, (48+v)*all)
	} else {
		x.Count(proto.PhaseExecute, all, (24+v)*all)
		x.Count(proto.PhaseLock, 2*all, 48*all)
	}
	holders, records := s.Logs()
	x.Count(proto.PhaseLog, holders, records)
	x.Count(proto.PhaseCommit, 3*s.Writes+s.Reads, (32+v)*s.Writes+24*s.Reads)
	return x
}

// evaluated is the table of drtmr-verbs.
func evaluated(lock string, s occtest.Shape) (x occtest.Traffic) {
	if x.Count(proto.PhaseExecute, s.Reads, (24+v)*s.Reads); lock == occ.LockEarly {
		x.Count(proto.PhaseExecute, 2*s.Writes, (48+v)*s.Writes)
	} else {
		x.Count(proto.PhaseExecute, s.Writes, (24+v)*s.Writes)
		x.Count(proto.PhaseLock, 2*s.Writes, 48*s.Writes)
	}
	if s.Reads+s.Writes > 1 {
		x.Count(proto.PhaseValidate, s.Reads, 24*s.Reads)
	}
	holders, records := s.Logs()
	x.Count(proto.PhaseLog, holders, records)
	x.Count(proto.PhaseCommit, 3*s.Writes, (32+v)*s.Writes)
	return x
}

// TestReplicatedMessages: the transaction of Xenic's Figure 7(a), with a CAS and a READ in place of one request
// that locks and reads, and two WRITEs and a CAS in place of one that commits.
func TestReplicatedMessages(t *testing.T) {
	for _, p := range []node.Protocol{drtmr.Protocol(), drtmr.Evaluated()} {
		x := occtest.Figure7(t, p, option.Settings{occ.OptLock: occ.LockEarly})
		if messages, delays := x.Messages(); messages != 2*(2+4+3) || delays != 4 {
			t.Errorf("%v: %d messages, %d delays, want 18 and 4: %+v", p, messages, delays, x)
		}
		if want := (proto.Traffic{Requests: 4, Trips: 1, Bytes: 4 * 128}); x[proto.PhaseLog] != want {
			t.Errorf("%v: LOG: %+v, want %+v", p, x[proto.PhaseLog], want)
		}
	}
}
