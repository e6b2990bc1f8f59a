package sim

import (
	"math"
	"testing"

	"drtmd/verbs"
)

func preset(t testing.TB, name string) *CostModel {
	t.Helper()
	c, err := Preset(name)
	must(t, err)
	return c
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*want }

// DrTM §2.2, §6.4: READs from five machines saturate at 26.3 M/s while they are small, and at
// nearly 34 Gb/s when they are of 2 KB.
func TestReadsSaturateAtMessageRateThenAtTheLink(t *testing.T) {
	cost := preset(t, "cx3-56g")
	rates := map[int]float64{}
	for _, size := range []int{8, 64, 128, 512, 2048} {
		rates[size] = newLoad(t, cost, verbs.OpRead, size, 5, 8, 16).
			rate(t, 50*Microsecond, 200*Microsecond)
		t.Logf("READ of %4d B: %6.2f Mops, %5.2f Gb/s", size, rates[size]/1e6,
			rates[size]*float64(size)*8/1e9)
	}
	for _, size := range []int{8, 64, 128} {
		if !near(rates[size], 26.3e6, 0.01) {
			t.Errorf("READs of %d B: %.2f Mops, want 26.3", size, rates[size]/1e6)
		}
	}
	if gbps := rates[2048] * 2048 * 8 / 1e9; !near(gbps, 34, 0.01) {
		t.Errorf("READs of 2 KB: %.2f Gb/s, want 34", gbps)
	}
	if rates[512] > 9e6 || rates[512] < 7.5e6 {
		t.Errorf("READs of 512 B: %.2f Mops, want what the link takes", rates[512]/1e6)
	}
}

// Xenic §3.4: WRITEs of 16 to 256 B reach 13.5 to 15 M/s on a ConnectX-5, short of the link.
func TestSmallWritesDoNotSaturateTheLink(t *testing.T) {
	cost := preset(t, "cx5-100g")
	for _, size := range []int{16, 256} {
		r := newLoad(t, cost, verbs.OpWrite, size, 5, 8, 16).rate(t, 50*Microsecond, 200*Microsecond)
		if r < 13.5e6 || r > 15.1e6 {
			t.Errorf("WRITEs of %d B: %.2f Mops", size, r/1e6)
		}
	}
}

// A rate below every bound is what the load asks for: nothing is limited by hand.
func TestAnUnloadedTargetServesWhatIsAsked(t *testing.T) {
	cost := preset(t, "cx5-100g")
	one := newLoad(t, cost, verbs.OpRead, 8, 1, 1, 1).rate(t, 50*Microsecond, 500*Microsecond)
	two := newLoad(t, cost, verbs.OpRead, 8, 2, 1, 1).rate(t, 50*Microsecond, 500*Microsecond)
	if !near(two, 2*one, 0.02) {
		t.Errorf("one client %.0f/s, two %.0f/s", one, two)
	}
}

// Atomics on one address wait for each other; on different ones they do not (rTX §6.3).
func TestAtomicsSerializePerAddress(t *testing.T) {
	cost := preset(t, "cx4-100g")
	cost.NIC.AtomicHold = Microsecond
	apart := newLoad(t, cost, verbs.OpFAA, 8, 4, 4, 16).rate(t, 50*Microsecond, 300*Microsecond)
	if apart < 10e6 {
		t.Errorf("FAA on 16 addresses: %.2f Mops", apart/1e6)
	}
	w := newLoad(t, cost, verbs.OpFAA, 8, 4, 1, 16)
	_ = w
	together := loadOnOneWord(t, cost).rate(t, 50*Microsecond, 300*Microsecond)
	if !near(together, 1e6, 0.02) {
		t.Errorf("FAA on one address: %.2f Mops, want 1", together/1e6)
	}
}

func loadOnOneWord(t *testing.T, cost *CostModel) *closedLoop {
	t.Helper()
	w := worldOf(t, Config{Seed: 1, Cost: cost})
	loop := &closedLoop{w: w}
	target := addSide(t, w, "target")
	for _, name := range []string{"x", "y", "z"} {
		s := addSide(t, w, name)
		connect(s, target, verbs.ConnectAttr{})
		c := &client{s: s, qp: s.qp, cq: s.cq, loop: loop}
		c.wr = oneSided(verbs.OpFAA, s, 0, target, 0, 8)
		c.wr.Flags, c.wr.CompareAdd = verbs.FlagSignaled, 1
		c.start(16)
	}
	return loop
}

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
