package planes

import (
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
)

// TestRecordsThatStayLockedAreNamedInTheStatusAndAnEvent: once, and when they are free again.
func TestRecordsThatStayLockedAreNamedInTheStatusAndAnEvent(t *testing.T) {
	p := newRoom(t).p
	o := load.Orphans{Count: 300}
	for k := range proto.Key(256) {
		o.List = append(o.List, load.Orphan{Node: 1, Table: "savings", Key: 77 + k, Owner: 2})
	}
	for range 3 {
		p.tellOrphans(namedOrphans(o))
	}
	if p.orphans == nil || p.orphans.Count != 300 || len(p.orphans.List) != keptOrphans {
		t.Fatalf("the status names %+v", p.orphans)
	}
	for range 3 {
		p.tellOrphans(namedOrphans(load.Orphans{}))
	}
	list := p.o.Board.Events()
	if len(list) != 2 || list[0].Level != status.Warn || list[1].Level != status.Info ||
		!strings.HasPrefix(list[0].Text, "300 records stay locked: table savings, key 77 of "+
			"partition 1, by partition 2;") || !strings.HasSuffix(list[0].Text, "and 297 more") {
		t.Errorf("events %+v", list)
	}
	if p.orphans != nil {
		t.Errorf("the status names %+v although there are none", p.orphans)
	}
}

// TestWhatNoCorrectPeerDoesIsNamedInTheStatusAndAnEvent: once, and for as long as the plane serves.
func TestWhatNoCorrectPeerDoesIsNamedInTheStatusAndAnEvent(t *testing.T) {
	r := newRoom(t)
	r.part.troubles = []string{"log of node 2: damaged"}
	for range 3 {
		r.p.lookForOrphans(t.Context())
	}
	r.part.troubles = nil
	r.p.lookForOrphans(t.Context())
	var n status.Node
	r.p.Describe(t.Context(), &n)
	list := r.p.o.Board.Events()
	if len(n.Degraded) != 1 || !strings.HasSuffix(n.Degraded[0], "log of node 2: damaged") || len(list) != 1 ||
		list[0].Level != status.Error || list[0].Text != n.Degraded[0] {
		t.Errorf("degraded %q, events %+v", n.Degraded, list)
	}
}
