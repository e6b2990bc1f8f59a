package hades

import (
	"errors"
	"slices"
	"testing"

	"drtmd/htm"
	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	tables "drtmd/store"
	"drtmd/store/layout"
)

// nowhere is memory without a line, and the replicas of a node that nobody asks.
type nowhere struct{}

func (nowhere) Load(bloom.Line, *hardware.Data)  {}
func (nowhere) Store(bloom.Line, *hardware.Data) {}

// full is a table without room.
type full struct{ protocol.PointIndex }

func (full) Find(uint64) (int, bool) { return 0, false }
func (full) EnsureIn(*htm.Region, uint64, uint64) (int, layout.Version, bool, error) {
	return 0, 0, true, tables.ErrEntriesFull
}

// alone is the view of node 1 of two, which has a replica of shard 0 in a table.
func alone(t *testing.T, x protocol.PointIndex) *view {
	t.Helper()
	n, err := hardware.New(hardware.Config{Nodes: 2, Node: 1, Directory: directory.Hades(1, 1), Memory: nowhere{},
		Pool: &hardware.Pool{}, Filter: bloom.Plain(), Hooks: hardware.Hooks{Send: func(*hardware.Message, int) {},
			Later: func(hardware.Step, int) {}, Fetched: func(directory.TX, uint32) {}, Ended: func(directory.TX, hardware.End) {}}})
	if err != nil {
		t.Fatal(err)
	}
	placed := &placement.Placed{}
	placed.Use(placement.Initial(2, 2))
	c := &Chip{Carried: &hardware.Carried{Node: n}, region: htm.NewRegion(htm.Config{Spins: -1}), banks: make([]*bank, 2),
		first: &protocol.Env{Node: 1, Placed: placed, Shares: []*protocol.Share{{Tables: []protocol.PointIndex{x}}, nil}}}
	c.view = &view{c: c, applied: make([][]hardware.ID, 2), lives: []bool{true, true}, moved: make([]uint64, 2)}
	return c.view
}

// TestAReplicaWithoutRoomEndsRecoveryByName: the record that was committed stays, the node says what is wrong, and does not
// answer, so that no transaction begins.
func TestAReplicaWithoutRoomEndsRecoveryByName(t *testing.T) {
	v := alone(t, full{})
	id := hardware.ID{Node: 0, TX: 1, Attempt: 7}
	w := recovery.Write{Shard: 0, Table: 1, Key: 5, Version: layout.Fresh(1) | 1, Value: make([]byte, 8)}
	if !w.Version.Live() {
		t.Fatal("the version of no value")
	}
	v.recovery.asked = []*found{{id: id, writes: []recovery.Write{w}}}
	v.Keep(id, recovery.BeginBody(nil, 0, 0))
	v.serve(mailEnd, appendItem(nil, id, []byte{byte(recovery.Commit)}))
	e := &Engine{chip: v.c}
	if err := e.Trouble(); !errors.Is(err, errNoRoom) {
		t.Errorf("%v", err)
	}
	if v.find(id) == nil {
		t.Error("the record is gone")
	}
	v.trouble = nil
	v.serve(mailEnd, appendItem(nil, id, []byte{byte(recovery.Abort)}))
	if v.trouble != nil || v.find(id) != nil {
		t.Errorf("an aborted record: %v", v.trouble)
	}
}

// TestAppliedRecordsAreRememberedWhileAnyoneMayAsk: the 1,025th and all before it, as long as one node has not applied the
// oldest; none once its coordinator says that all have.
func TestAppliedRecordsAreRememberedWhileAnyoneMayAsk(t *testing.T) {
	v := alone(t, full{})
	const n, oldest = 1025, 3
	id := func(attempt int) hardware.ID { return hardware.ID{Node: 0, Attempt: uint32(attempt)} }
	for i := oldest; i < oldest+n; i++ {
		v.Apply(id(i), oldest) // no record is kept
		if !v.applyAll(id(i), nil, nil) {
			t.Fatal("a record without writes is not applied")
		}
	}
	if !slices.Contains(v.applied[0], id(oldest)) || len(v.applied[0]) != n {
		t.Errorf("%d of %d are remembered, the oldest is gone", len(v.applied[0]), n)
	}
	v.Apply(id(oldest+n), oldest+n)
	if len(v.applied[0]) != 0 {
		t.Errorf("%d are remembered that nobody will ask about", len(v.applied[0]))
	}
}
