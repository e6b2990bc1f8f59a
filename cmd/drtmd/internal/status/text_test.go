package status

import (
	"strings"
	"testing"
	"time"

	"drtmd/proto/member"
)

// TestNodeThatIsGoneHasNothing: no memory, queue pairs or links of its former life.
func TestNodeThatIsGoneHasNothing(t *testing.T) {
	was := Node{Member: member.Member{Node: 1, Incarnation: 4, Name: "b", Control: "10.0.0.1:7440"},
		Phase: Ready, PID: 7, Host: "lab", Started: time.Now(), Admin: "127.0.0.1:1", Epoch: 3, LeaseLeft: 4,
		Lease: 5, Device: Device{Transport: "shm", Name: "shm0"}, Memory: Memory{RegisteredBytes: 19 << 20},
		QPs: QPs{RC: 4, UD: 1}, Plane: &Plane{}, Load: &Load{}, Tables: []Table{{}},
		Links: []Link{{State: "up"}}, Degraded: []string{"records"}, Events: []Event{{Text: "died"}}}
	gone := was.Departed("does not answer")
	if gone.Memory != (Memory{}) || gone.QPs != (QPs{}) || gone.Links != nil || gone.Plane != nil ||
		gone.Load != nil || gone.Tables != nil || gone.Device != (Device{}) || gone.LeaseLeft != 0 ||
		gone.PID != 0 || gone.Admin != "" || gone.Epoch != 0 || gone.Degraded != nil {
		t.Errorf("what it had is shown: %+v", gone)
	}
	if gone.Member != was.Member || gone.Host != "lab" || len(gone.Events) != 1 || gone.Phase != Gone {
		t.Errorf("who it was is not: %+v", gone)
	}
	c := &Cluster{Nodes: []Node{gone}}
	var b strings.Builder
	if err := c.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(b.String(), "\n") {
		if strings.HasPrefix(l, "1 ") && strings.Join(strings.Fields(l), " ") !=
			"1 b gone 4 - - - - - - 10.0.0.1:7440 -" {
			t.Errorf("row %q", l)
		}
	}
}

func TestSizesAreCutOffNotRounded(t *testing.T) {
	for bytes, want := range map[uint64]string{0: "0.0", 1<<20 - 1: "0.9", 1 << 20: "1.0",
		18<<20 + 600_000: "18.5", 19<<20 - 1: "18.9", 1 << 62: "4398046511104.0"} {
		if got := MiB(bytes); got != want {
			t.Errorf("%d bytes are %s MiB, want %s", bytes, got, want)
		}
	}
}
