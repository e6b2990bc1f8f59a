package sim

import (
	"testing"

	"drtmd/verbs"
)

// addBeside adds a node that uses the NIC of another one.
func addBeside(t testing.TB, of *side, name string) *side {
	t.Helper()
	n, err := of.w.AddNode(NodeConfig{Name: name, Beside: of.node})
	must(t, err)
	s := &side{t: t, w: of.w, node: n}
	s.open(testBytes)
	return s
}

// reading is how long n READs of each side take, posted at once.
func reading(t testing.TB, n int, pairs ...[2]*side) Time {
	t.Helper()
	const bytes = 8192
	w := pairs[0][0].w
	for _, p := range pairs {
		connect(p[0], p[1], fast)
	}
	start := w.Now()
	for _, p := range pairs {
		s := p[0]
		for i := range n {
			wr := oneSided(verbs.OpRead, s, 0, p[1], 0, bytes)
			if i == n-1 {
				wr.Flags = verbs.FlagSignaled
			}
			s.post(wr)
		}
	}
	for _, p := range pairs {
		if wc := next(t, w, p[0].cq); wc.Status != verbs.WCSuccess {
			t.Fatal(wc.Status)
		}
	}
	return w.Now() - start
}

// Two nodes on one NIC reach each other without the cable, and take twice as long as one for what the cable bounds.
// A crash of one does not disturb what the other has under way.
func TestNodesBesideEachOtherShareTheirNIC(t *testing.T) {
	const reads = 50
	took := map[bool]Time{}
	for _, shared := range []bool{false, true} {
		w := newWorld(t, 1)
		a, far, further := addSide(t, w, "a"), addSide(t, w, "c"), addSide(t, w, "d")
		b := addBeside(t, a, "b")
		if !shared {
			b = addSide(t, w, "e")
		}
		took[shared] = reading(t, reads, [2]*side{a, far}, [2]*side{b, further})
	}
	if one, both := took[false], took[true]; both < one*9/5 {
		t.Errorf("bursts of two nodes take %s on two NICs and %s on one, want twice as long", one, both)
	}

	w := newWorld(t, 1)
	a, far := addSide(t, w, "a"), addSide(t, w, "c")
	b := addBeside(t, a, "b")
	near := reading(t, 1, [2]*side{b, a})
	if away := reading(t, 1, [2]*side{b, far}); near >= away {
		t.Errorf("a READ takes %s on the NIC and %s through the switch", near, away)
	}
	connect(a, far, fast)
	busy := a.node.adapter
	a.post(oneSided(verbs.OpRead, a, 0, far, 0, 4096))
	b.node.Crash(false)
	if a.node.adapter != busy || *busy == (adapter{}) {
		t.Error("the crash of one node has reset the NIC of the other")
	}
	if _, err := newWorld(t, 2).AddNode(NodeConfig{Beside: a.node}); err == nil {
		t.Error("a node uses the NIC of another world")
	}
}
