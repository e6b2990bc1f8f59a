package sim

import (
	"testing"

	"drtmd/verbs"
)

// Requests that follow one another for ever, each posted when the one before has completed.
func TestTheDataPathAllocatesNothing(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpFAA} {
		a, b := newPair(t, 1)
		wrs := []verbs.WR{oneSided(op, a, 0, b, 0, 8), oneSided(op, a, 8, b, 0, 8)}
		wrs[1].Flags = verbs.FlagSignaled
		var wcs [4]verbs.WC
		done := 0
		work := func() {
			n, err := a.cq.Poll(wcs[:])
			if err != nil || n != 1 || wcs[0].Status != verbs.WCSuccess {
				t.Fatalf("%d completions, %s, %v", n, wcs[0].Status, err)
			}
			done++
			_, err = a.qp.PostSend(wrs)
			must(t, err)
		}
		must(t, a.cq.OnArrival(func() { a.w.After(0, work) }))
		_, err := a.qp.PostSend(wrs)
		must(t, err)
		must(t, a.w.RunUntil(Millisecond)) // the pools are filled by then
		before := done
		if n := testing.AllocsPerRun(2000, func() { a.w.RunOne(Forever) }); n > 0 {
			t.Errorf("%s: %g allocations per event", op, n)
		}
		if done-before < 50 {
			t.Errorf("%s: only %d operations were measured", op, done-before)
		}
	}
}
