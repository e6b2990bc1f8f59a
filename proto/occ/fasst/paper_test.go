package fasst_test

import (
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/occ/fasst"
	"drtmd/proto/occ/occtest"
	"drtmd/proto/option"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMessages: the table of the package comment, for Xenic's O(0,1) and O(4,2) (§2.2.2), in both
// ways to lock.
func TestMessages(t *testing.T) { occtest.Check(t, fasst.Protocol(), table) }

// table is that of the package comment. Reads and writes are on all of the nodes.
func table(lock string, s occtest.Shape) (x occtest.Traffic) {
	round := func(p proto.Phase, records, each int) {
		if records > 0 {
			x.Count(p, s.Nodes, 48*s.Nodes+each*records)
		}
	}
	round(proto.PhaseExecute, s.Reads+s.Writes, 40+occtest.ValueBytes)
	if lock == occ.LockLate {
		round(proto.PhaseLock, s.Writes, 40)
	}
	if s.Reads+s.Writes > 1 {
		round(proto.PhaseValidate, s.Reads, 24)
	}
	holders, records := s.Logs()
	x.Count(proto.PhaseLog, holders, 40*holders+records)
	round(proto.PhaseCommit, s.Writes, 24+occtest.ValueBytes)
	return x
}

// TestReplicatedMessages: Xenic's Figure 7(a) without multi-hop: 12 messages, 4 delays until the client is told.
func TestReplicatedMessages(t *testing.T) {
	x := occtest.Figure7(t, fasst.Protocol(), option.Settings{occ.OptLock: occ.LockEarly})
	if messages, delays := x.Messages(); messages != 12 || delays != 4 {
		t.Errorf("%d messages, %d delays, want 12 and 4: %+v", messages, delays, x)
	}
	if want := (proto.Traffic{Requests: 4, Trips: 1, Bytes: 4 * (128 + 40)}); x[proto.PhaseLog] != want {
		t.Errorf("LOG: %+v, want %+v", x[proto.PhaseLog], want)
	}
}
