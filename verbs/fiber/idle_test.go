package fiber

import (
	"testing"
	"time"
)

// sleepFor has the idler spin until it wants to sleep, as if the wait had begun d before it ends.
func sleepFor(t *testing.T, i *idler, d time.Duration) {
	t.Helper()
	for range glances {
		if i.sleeps() {
			break
		}
	}
	i.since = i.since.Add(-max(d, i.spin))
	for !i.slept {
		i.sleeps()
	}
	if i.glance() {
		t.Fatal("the pass after a sleep must look at timers too")
	}
}

func TestSpinFollowsHowSoonWorkArrives(t *testing.T) {
	const shortly = 60 * time.Microsecond
	for _, c := range []struct {
		name    string
		spin    time.Duration // of ThreadConfig
		waits   int
		took    time.Duration // each
		arrived bool
		want    time.Duration // the next spin
	}{
		{"grows when work arrives shortly after it", 0, 1, shortly, true, 2 * leastSpin},
		{"grows again", 0, 2, shortly, true, 4 * leastSpin},
		{"grows when only the wake-up takes long", 0, 2, mostSpin + shortly, true, 4 * leastSpin},
		{"is bounded", 0, 6, shortly, true, mostSpin},
		{"is given up when it never helps", 0, 4 + mostMisses + 1, shortly, true, leastSpin},
		{"is not tried again at once", 0, 4 + mostMisses + pause, shortly, true, leastSpin},
		{"is tried again later", 0, 4 + mostMisses + 1 + pause, shortly, true, 2 * leastSpin},
		{"is short after a long sleep", 0, 3, time.Second, true, leastSpin},
		{"is short after a timer", 0, 3, shortly, false, leastSpin},
		{"is what the program says", time.Millisecond, 3, time.Second, true, time.Millisecond},
		{"is none if the program says so", -1, 3, shortly, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newIdler(c.spin)
			late := false // on a loaded machine a wait may take longer than it should
			for range c.waits {
				sleepFor(t, &i, c.took)
				late = late || c.took < soon && time.Since(i.since) > soon-50*time.Microsecond
				i.worked(c.arrived)
			}
			if !late && i.spin != c.want {
				t.Fatalf("the next spin is %v, not %v", i.spin, c.want)
			}
		})
	}
}

func TestWorkDuringTheSpinLeavesItAlone(t *testing.T) {
	i := newIdler(0)
	sleepFor(t, &i, leastSpin)
	i.worked(true)
	grown := i.spin
	for range 3 {
		if i.sleeps() {
			t.Fatal("it sleeps after one empty pass")
		}
		i.worked(true)
	}
	if i.spin != grown || i.glance() {
		t.Fatalf("the spin went from %v to %v; glance is %t after work", grown, i.spin, i.glance())
	}
}

func TestAWakeUpForNothingDoesNotSpin(t *testing.T) {
	i := newIdler(0)
	sleepFor(t, &i, 0)
	for range 3 {
		if !i.sleeps() {
			t.Fatal("it spins after a wake-up that brought no work")
		}
	}
}
