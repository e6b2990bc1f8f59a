package drtmocc_test

import (
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/occ/drtmocc"
	"drtmd/proto/occ/occtest"
	"drtmd/proto/option"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMessages: a READ for each record that is read, and again for its validation (§8.6); messages for locks
// and commits.
func TestMessages(t *testing.T) {
	const v = occtest.ValueBytes
	occtest.Check(t, drtmocc.Protocol(), func(lock string, s occtest.Shape) (x occtest.Traffic) {
		k := 0
		if s.Writes > 0 {
			k = s.Nodes
		}
		if x.Count(proto.PhaseExecute, s.Reads, (24+v)*s.Reads); lock == occ.LockEarly {
			x.Count(proto.PhaseExecute, k, 48*k+(40+v)*s.Writes)
		} else {
			x.Count(proto.PhaseExecute, s.Writes, (24+v)*s.Writes)
			x.Count(proto.PhaseLock, k, 48*k+40*s.Writes)
		}
		if s.Reads+s.Writes > 1 {
			x.Count(proto.PhaseValidate, s.Reads, 24*s.Reads)
		}
		holders, records := s.Logs()
		x.Count(proto.PhaseLog, holders, records)
		x.Count(proto.PhaseCommit, k, 48*k+(24+v)*s.Writes)
		return x
	})
}

// TestReplicatedMessages: Xenic's Figure 7(a) without multi-hop: 12 messages, 4 delays until the client is told.
func TestReplicatedMessages(t *testing.T) {
	x := occtest.Figure7(t, drtmocc.Protocol(), option.Settings{occ.OptLock: occ.LockEarly})
	if messages, delays := x.Messages(); messages != 12 || delays != 4 {
		t.Errorf("%d messages, %d delays, want 12 and 4: %+v", messages, delays, x)
	}
	if want := (proto.Traffic{Requests: 4, Trips: 1, Bytes: 4 * 128}); x[proto.PhaseLog] != want {
		t.Errorf("LOG: %+v, want %+v", x[proto.PhaseLog], want)
	}
}
