package sim

import (
	"testing"

	"drtmd/verbs"
)

// The unloaded latency is the sum of the parts that the operation passes.
func TestLatencyIsTheSumOfItsParts(t *testing.T) {
	for _, name := range Presets() {
		c := preset(t, name)
		w := worldOf(t, Config{Cost: c})
		a, b := addSide(t, w, "a"), addSide(t, w, "b")
		connect(a, b, verbs.ConnectAttr{})
		start := w.Now()
		a.want(oneSided(verbs.OpRead, a, 0, b, 0, 8), verbs.WCSuccess)
		got := w.Now() - start
		floor := c.NIC.Doorbell + c.RoundTrip() + c.PCIe.Read + c.PCIe.Write
		if got < floor || got > floor+500*Nanosecond {
			t.Errorf("%s: a READ of 8 B takes %s, its parts %s", name, got, floor)
		}
		start = w.Now()
		cas := oneSided(verbs.OpCAS, a, 0, b, 64, 8)
		a.want(cas, verbs.WCSuccess)
		t.Logf("%-10s READ %s, CAS %s", name, got, w.Now()-start)
	}
}
