package farm_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/occ/farm"
	"drtmd/proto/occ/occtest"
	"drtmd/proto/option"
	"drtmd/store/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// neighbourhood of records that take a line.
const neighbourhood = layout.Neighbours * layout.LineBytes

// TestMessages: the table of the package comment, for Xenic's O(0,1) and O(4,2) (§2.2.2), with and without each
// of the optimisations of HADES §III.
func TestMessages(t *testing.T) {
	for _, o := range []option.Settings{nil, {farm.OptBatchLocks: "false"}, {farm.OptSerialUnlock: "true"},
		{farm.OptAwaitUnlock: "false"}, {farm.OptLockReads: "true"}, {farm.OptBatchLocks: "false",
			farm.OptSerialUnlock: "true", farm.OptAwaitUnlock: "true", farm.OptLockReads: "true"}} {
		for _, s := range occtest.Shapes() {
			t.Run(fmt.Sprintf("%v/%+v", o, s), func(t *testing.T) {
				for i, got := range occtest.Measure(t, farm.Protocol(), o, s) {
					want := table(o, s)
					for _, p := range proto.Phases() {
						if got[p] != want[p] {
							t.Errorf("transaction %d, %v: %+v, want %+v", i, p, got[p], want[p])
						}
					}
				}
			})
		}
	}
}

// table is that of the package comment. Reads and writes are on all of the nodes.
func table(o option.Settings, s occtest.Shape) (x occtest.Traffic) {
	const v = occtest.ValueBytes
	locked := s.Writes
	if o[farm.OptLockReads] == "true" {
		locked += s.Reads
	}
	messages := func(records int) int {
		if o[farm.OptBatchLocks] == "false" {
			return records
		}
		return min(records, s.Nodes)
	}
	x.Count(proto.PhaseExecute, s.Reads+s.Writes, neighbourhood*(s.Reads+s.Writes))
	k := messages(locked)
	x.Count(proto.PhaseLock, k, 48*k+40*locked)
	if s.Reads+s.Writes > 1 && o[farm.OptLockReads] != "true" {
		x.Count(proto.PhaseValidate, s.Reads, 24*s.Reads)
	}
	holders, records := s.Logs()
	x.Count(proto.PhaseLog, holders, records)
	awaited := holders == 0 || o[farm.OptAwaitUnlock] != "false"
	if o[farm.OptSerialUnlock] == "true" {
		w := messages(s.Writes)
		x.Count(proto.PhaseCommit, w, 48*w+(24+v)*s.Writes)
		trips := x[proto.PhaseCommit].Trips
		x.Count(proto.PhaseCommit, k, 48*k+24*locked)
		if x[proto.PhaseCommit].Trips = trips; k > 0 && awaited {
			x[proto.PhaseCommit].Trips++
		}
		return x
	}
	if x.Count(proto.PhaseCommit, k, 48*k+24*locked+v*s.Writes); !awaited {
		x[proto.PhaseCommit].Trips = 0
	}
	return x
}

// TestReplicatedMessages: the transaction of Xenic's Figure 7(a), which FaRM's locks at the commit give a READ and
// two delays more than the 12 messages and 4 delays of the figure.
func TestReplicatedMessages(t *testing.T) {
	x := occtest.Figure7(t, farm.Protocol(), nil)
	if messages, delays := x.Messages(); messages != 14 || delays != 6 {
		t.Errorf("%d messages, %d delays, want 14 and 6: %+v", messages, delays, x)
	}
	if want := (proto.Traffic{Requests: 4, Trips: 1, Bytes: 4 * 128}); x[proto.PhaseLog] != want {
		t.Errorf("LOG: %+v, want %+v", x[proto.PhaseLog], want)
	}
}

// TestASealProvesWhatTheLookUpHasFetched: without line words a record is one READ of its neighbourhood still, and one of its
// seal validates it.
func TestASealProvesWhatTheLookUpHasFetched(t *testing.T) {
	s := occtest.Shape{Reads: 4, Writes: 2, Nodes: 1}
	r := layout.NewRecord(layout.KindSealed, occtest.ValueBytes)
	got := occtest.MeasureWithoutLineWords(t, farm.Protocol(), nil, s)[1]
	var want occtest.Traffic
	want.Count(proto.PhaseExecute, 6, 6*layout.Neighbours*layout.HopscotchStride(&r))
	want.Count(proto.PhaseValidate, 4, 4*8)
	for _, p := range []proto.Phase{proto.PhaseExecute, proto.PhaseValidate} {
		if got[p] != want[p] {
			t.Errorf("%v: %+v, want %+v", p, got[p], want[p])
		}
	}
}
