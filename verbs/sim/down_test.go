package sim

import (
	"testing"

	"drtmd/verbs"
)

// TestRequestsEndWhenTheInterfaceGoesDown: what is posted while the interface is down fails at once, and
// what was on its way then is answered, or ends with it, however long the outage: nothing waits for ever.
func TestRequestsEndWhenTheInterfaceGoesDown(t *testing.T) {
	failed := 0
	for delay := Time(0); delay < 4*Microsecond; delay += 50 * Nanosecond {
		for _, outage := range []Time{Microsecond, 100 * Microsecond, 3 * Millisecond} {
			a, b := newPair(t, 1)
			posted := 0
			post := func() {
				for range 2 {
					wr := oneSided(verbs.OpRead, a, 0, b, 0, 8)
					wr.Flags |= verbs.FlagSignaled
					n, err := a.qp.PostSend([]verbs.WR{wr})
					must(t, err)
					posted += n
				}
			}
			post()
			a.w.After(delay, func() {
				strikeNow(t, a.w, Fault{Kind: DownInterface, Node: "a", For: outage})
				post()
			})
			must(t, a.w.Run())
			var wcs [8]verbs.WC
			n, err := a.cq.Poll(wcs[:])
			must(t, err)
			if n != posted {
				t.Fatalf("down after %s for %s: %d of %d requests ended", delay, outage, n, posted)
			}
			if wcs[n-1].Status != verbs.WCSuccess {
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no request failed: the outages struck nothing")
	}
}
