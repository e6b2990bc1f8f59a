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
	const soon = 60 * time.Microsecond
	for _, c := range []struct {
		name    string
		spin    time.Duration // of ThreadConfig
		took    time.Duration
		arrived bool
		least   time.Duration // of the next spin
		most    time.Duration
	}{
		{"grows when work arrives soon after it", 0, soon, true, 2 * soon, mostSpin},
		{"is bounded", 0, mostSpin - 50*time.Microsecond, true, mostSpin, mostSpin},
		{"is short again after a long sleep", 0, time.Second, true, leastSpin, leastSpin},
		{"is short again after a timer", 0, soon, false, leastSpin, leastSpin},
		{"is what the program says", time.Millisecond, time.Second, true, time.Millisecond,
			time.Millisecond},
		{"is none if the program says so", -1, soon, true, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := newIdler(c.spin)
			sleepFor(t, &i, c.took)
			i.worked(c.arrived)
			// On a loaded machine the wait may have taken longer than it should, also too long.
			late := i.spin == i.least && time.Since(i.since) > i.most
			if !late && (i.spin < c.least || i.spin > c.most) {
				t.Fatalf("the next spin is %v, not %v to %v", i.spin, c.least, c.most)
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
