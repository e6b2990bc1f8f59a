package drtmh_test

import (
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/occ"
	"drtmd/proto/occ/drtmh"
	"drtmd/proto/occ/occtest"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMessages: the table of the package comment, for Xenic's O(0,1) and O(4,2) (§2.2.2).
func TestMessages(t *testing.T) {
	occtest.Check(t, drtmh.Protocol(), table)
	occtest.Check(t, drtmh.Uncached(), func(lock string, s occtest.Shape) occtest.Traffic {
		x := table(lock, s)
		lookups := s.Reads + s.Writes
		if lock == occ.LockEarly {
			lookups = s.Reads
		}
		if lookups > 0 {
			x[proto.PhaseExecute].Add(proto.Traffic{Requests: uint64(lookups), Trips: 1,
				Bytes: uint64(lookups * layout.BucketBytes)})
		}
		return x
	})
}

// table is that of the package comment. Reads and writes are on all of the nodes.
func table(lock string, s occtest.Shape) (x occtest.Traffic) {
	const v = occtest.ValueBytes
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
}

// TestReplicatedMessages: Xenic's Figure 7(a) without multi-hop: 12 messages, 4 delays until the client is told.
func TestReplicatedMessages(t *testing.T) {
	x := occtest.Figure7(t, drtmh.Protocol(), option.Settings{occ.OptLock: occ.LockEarly})
	if messages, delays := x.Messages(); messages != 12 || delays != 4 {
		t.Errorf("%d messages, %d delays, want 12 and 4: %+v", messages, delays, x)
	}
	if want := (proto.Traffic{Requests: 4, Trips: 1, Bytes: 4 * 128}); x[proto.PhaseLog] != want {
		t.Errorf("LOG: %+v, want %+v", x[proto.PhaseLog], want)
	}
}

// TestSealsTakeThePlaceOfHeaders: without line words a record is one READ, and one of its seal validates it. Without seals
// a record is four READs (package occ, Reads), and two validate it.
func TestSealsTakeThePlaceOfHeaders(t *testing.T) {
	s := occtest.Shape{Reads: 4, Writes: 2, Nodes: 1}
	const head, v = 24, occtest.ValueBytes
	for _, c := range []struct {
		seals                string
		reads, readBytes     int
		validates, validated int
	}{
		{"true", 1, head + v + 8, 1, 8},
		{"false", 4, 16 + head + v + 8 + 16, 2, head},
	} {
		got := occtest.MeasureWithoutLineWords(t, drtmh.Protocol(), option.Settings{protocol.OptSeals: c.seals}, s)[1]
		var want occtest.Traffic
		want.Count(proto.PhaseExecute, c.reads*6, c.readBytes*6)
		want.Count(proto.PhaseValidate, c.validates*4, c.validated*4)
		for _, p := range []proto.Phase{proto.PhaseExecute, proto.PhaseValidate} {
			if got[p] != want[p] {
				t.Errorf("seals %s, %v: %+v, want %+v", c.seals, p, got[p], want[p])
			}
		}
	}
}
