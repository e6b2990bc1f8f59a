package daemon

import (
	"strings"
	"testing"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
)

// TestRecordsThatStayLockedAreNamedInTheStatusAndAnEvent: once, and when they are free again.
func TestRecordsThatStayLockedAreNamedInTheStatusAndAnEvent(t *testing.T) {
	d := &Daemon{log: zap.NewNop(), events: newEvents()}
	o := load.Orphans{Count: 300}
	for k := range proto.Key(256) {
		o.List = append(o.List, load.Orphan{Node: 1, Table: "savings", Key: 77 + k, Owner: 2})
	}
	for range 3 {
		d.tellOrphans(namedOrphans(o))
	}
	if d.orphans == nil || d.orphans.Count != 300 || len(d.orphans.List) != keptOrphans {
		t.Fatalf("the status names %+v", d.orphans)
	}
	for range 3 {
		d.tellOrphans(namedOrphans(load.Orphans{}))
	}
	list := d.events.last()
	if len(list) != 2 || list[0].Level != status.Warn || list[1].Level != status.Info ||
		!strings.HasPrefix(list[0].Text, "300 records stay locked: table savings, key 77 of "+
			"partition 1, by partition 2;") || !strings.HasSuffix(list[0].Text, "and 297 more") {
		t.Errorf("events %+v", list)
	}
	if d.orphans != nil {
		t.Errorf("the status names %+v although there are none", d.orphans)
	}
}
