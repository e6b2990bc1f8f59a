package sim

import "testing"

func TestATimelineWaitsForPausesAndEndsWithItsLife(t *testing.T) {
	w := newWorld(t, 1)
	n, err := w.AddNode(NodeConfig{})
	must(t, err)
	tl, other := n.Timeline(1), n.Timeline(0)
	var ran []Time
	note := func() { ran = append(ran, w.Now()) }
	tl.AtPs(int64(10*Microsecond), note)
	other.AtPs(int64(10*Microsecond), note)
	w.At(5*Microsecond, func() { n.PauseWorker(1, 20*Microsecond) })
	must(t, w.Run())
	if len(ran) != 2 || ran[0] != 10*Microsecond || ran[1] != 25*Microsecond {
		t.Fatalf("ran at %v", ran)
	}
	tl.AtPs(int64(50*Microsecond), note)
	w.At(30*Microsecond, func() {
		n.Crash(true)
		n.Restart()
	})
	must(t, w.Run())
	if len(ran) != 2 {
		t.Error("a call of a former life ran")
	}
	n.Timeline(0).Step("whoever", "x")
	if s := w.Steps(); len(s) != 1 || s[0].Name != "x" {
		t.Errorf("%v", s)
	}
	c := w.Cost().CPU
	if tl.PostCostPs(3) != int64(c.Doorbell+3*c.Post) || tl.NowPs() != int64(w.Now()) ||
		tl.PassCostPs() != int64(c.PollEmpty) || tl.PollCostPs(5) != int64(5*c.PollEntry) ||
		tl.RPCCostPs(7, 2) != int64(7*c.RPCSend+2*c.RPCReceive) || tl.ThreadPs(5) != 5 || tl.MissCostPs(5) != 0 {
		t.Error("costs")
	}
	w.cost.CPU.Memory, w.cost.CPU.Overlap, w.cost.CPU.Hardware = 90*Nanosecond, 10, 1500
	if tl.MissCostPs(10) != int64(90*Nanosecond) || tl.MissCostPs(11) != int64(180*Nanosecond) || tl.ThreadPs(100) != 150 {
		t.Error("costs of memory and of threads that share a core")
	}
}
