package scenario

import (
	"math"
	"testing"

	"drtmd/verbs"
	"drtmd/verbs/sim"
)

func preset(t testing.TB, name string) *sim.CostModel {
	t.Helper()
	c, err := sim.Preset(name)
	must(t, err)
	return c
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*want }

func load(t testing.TB, c LoadConfig) *Load {
	t.Helper()
	l, err := NewLoad(c)
	must(t, err)
	return l
}

// rate runs a load until its queues are full, and then measures it.
func rate(t testing.TB, c LoadConfig) float64 {
	t.Helper()
	r, err := load(t, c).Rate(50*sim.Microsecond, 300*sim.Microsecond)
	must(t, err)
	return r
}

// DrTM §2.2, §6.4: READs from five machines saturate at 26.3 M/s while they are small, and at
// nearly 34 Gb/s when they are of 2 KB.
func TestReadsSaturateAtMessageRateThenAtTheLink(t *testing.T) {
	rates, err := Reads(preset(t, "cx3-56g"), []int{8, 64, 128, 512, 2048})
	must(t, err)
	for _, r := range rates {
		t.Logf("READ of %4d B: %6.2f Mops, %5.2f Gb/s", r.Bytes, r.Mops, r.Gbps)
	}
	for _, r := range rates[:3] {
		if !near(r.Mops, 26.3, 0.01) {
			t.Errorf("READs of %d B: %.2f Mops, want 26.3", r.Bytes, r.Mops)
		}
	}
	if gbps := rates[4].Gbps; !near(gbps, 34, 0.01) {
		t.Errorf("READs of 2 KB: %.2f Gb/s, want 34", gbps)
	}
	if mops := rates[3].Mops; mops > 9 || mops < 7.5 {
		t.Errorf("READs of 512 B: %.2f Mops, want what the link takes", mops)
	}
}

// Xenic §3.4: WRITEs of 16 to 256 B reach 13.5 to 15 M/s on a ConnectX-5, short of the link.
func TestSmallWritesDoNotSaturateTheLink(t *testing.T) {
	cost := preset(t, "cx5-100g")
	for _, size := range []int{16, 256} {
		r := rate(t, LoadConfig{cost, verbs.OpWrite, size, 5, 8, 16, false})
		if r < 13.5e6 || r > 15.1e6 {
			t.Errorf("WRITEs of %d B: %.2f Mops", size, r/1e6)
		}
	}
}

// A rate below every bound is what the load asks for: nothing is limited by hand.
func TestAnUnloadedTargetServesWhatIsAsked(t *testing.T) {
	cost := preset(t, "cx5-100g")
	one := rate(t, LoadConfig{cost, verbs.OpRead, 8, 1, 1, 1, false})
	two := rate(t, LoadConfig{cost, verbs.OpRead, 8, 2, 1, 1, false})
	if !near(two, 2*one, 0.02) {
		t.Errorf("one client %.0f/s, two %.0f/s", one, two)
	}
}

// Atomics on one address wait for each other; on different ones they do not (rTX §6.3).
func TestAtomicsSerializePerAddress(t *testing.T) {
	cost := preset(t, "cx4-100g")
	cost.NIC.AtomicHold = sim.Microsecond
	apart := rate(t, LoadConfig{cost, verbs.OpFAA, 8, 4, 4, 16, false})
	if apart < 10e6 {
		t.Errorf("FAA on 16 addresses: %.2f Mops", apart/1e6)
	}
	together := rate(t, LoadConfig{cost, verbs.OpFAA, 8, 3, 1, 16, true})
	if !near(together, 1e6, 0.02) {
		t.Errorf("FAA on one address: %.2f Mops, want 1", together/1e6)
	}
}

// Dandelion §5.3: two messages in a packet are almost twice the throughput of one, from four to
// eight is underwhelming because the payload passes the inline limit, and large batches give
// more than ten times.
func TestBatchingInOnePacketPays(t *testing.T) {
	rates, err := Batches(preset(t, "cx5-100g"), []int{1, 2, 4, 8, 64})
	must(t, err)
	x := map[int]float64{}
	for _, r := range rates {
		t.Logf("batch %2d: %6.1f M Gets/s, %5.2fx", r.Batch, r.Mops, r.Speedup)
		x[r.Batch] = r.Speedup
		if headers := r.Wire - float64(r.Payload); headers != 90 { // the preset's, of one packet
			t.Errorf("batch %d: %g B of headers", r.Batch, headers)
		}
	}
	if x[2] < 1.9 || x[2] > 2.1 {
		t.Errorf("from 1 to 2: %.2fx, want almost 2", x[2])
	}
	if r := x[8] / x[4]; r > 1.6 {
		t.Errorf("from 4 to 8: %.2fx, want less than 1.6", r)
	}
	if x[64] < 10 {
		t.Errorf("from 1 to 64: %.2fx, want more than 10", x[64])
	}
}

func TestTheDataPathAllocatesNothing(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpFAA} {
		l := load(t, LoadConfig{nil, op, 8, 2, 2, 8, false})
		must(t, l.World.RunUntil(100*sim.Microsecond))
		if n := testing.AllocsPerRun(1000, func() { l.World.RunOne(sim.Forever) }); n > 0 {
			t.Errorf("%s: %g allocations per event", op, n)
		}
	}
}

func TestLoadsOutOfRangeAreRefused(t *testing.T) {
	cost := preset(t, "cx5-100g")
	if _, err := Reads(cost, []int{loadBytes}); err == nil {
		t.Error("a READ of the whole memory was taken")
	}
	if _, err := Batches(cost, []int{MostBatch(cost) + 1}); err == nil {
		t.Error("a batch longer than a buffer was taken")
	}
}
