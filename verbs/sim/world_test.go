package sim

import (
	"errors"
	"testing"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

func TestRandomStreamsAreIndependent(t *testing.T) {
	w := newWorld(t, 5)
	x := newWorld(t, 5)
	first := w.Rand("a").Uint64()
	x.Rand("b").Uint64()
	x.Rand("b").Uint64()
	if got := x.Rand("a").Uint64(); got != first {
		t.Fatal("draws from b shifted a")
	}
	if newWorld(t, 6).Rand("a").Uint64() == first {
		t.Fatal("the seed has no effect")
	}
	if newWorld(t, 5).Rand("aa").Uint64() == first {
		t.Fatal("the name has no effect")
	}
}

func TestCanceledTimeoutsDoNotPileUp(t *testing.T) {
	w := newWorld(t, 1)
	for range 100_000 {
		timeout := w.After(Second, func() { t.Error("a canceled call ran") })
		w.After(Microsecond, func() {})
		w.RunOne(Forever)
		if !w.Cancel(timeout) {
			t.Fatal("not canceled")
		}
	}
	if n := w.heap.len(); n > 1000 {
		t.Fatalf("%d entries in the heap", n)
	}
	if w.Pending() != 0 || w.RunOne(Forever) {
		t.Fatal("something is left to run")
	}
}

func TestRunUntilEndsAtTheTime(t *testing.T) {
	w := newWorld(t, 1)
	ran := 0
	w.At(10, func() { ran++ })
	w.At(20, func() { ran++ })
	w.At(21, func() { ran++; w.Stop() })
	w.At(22, func() { ran++ })
	must(t, w.RunUntil(20))
	if ran != 2 || w.Now() != 20 {
		t.Fatalf("%d ran by %s", ran, w.Now())
	}
	must(t, w.RunUntil(100))
	if ran != 3 || w.Now() != 21 {
		t.Fatalf("%d ran by %s: Stop did not stop", ran, w.Now())
	}
	must(t, w.RunUntil(100))
	if ran != 4 || w.Now() != 100 {
		t.Fatalf("%d ran by %s", ran, w.Now())
	}
	w.At(5, func() { ran++ }) // the past is now
	must(t, w.Run())
	if ran != 5 || w.Now() != 100 {
		t.Fatalf("%d ran by %s", ran, w.Now())
	}
}

func TestTheEventLimitEndsALivelock(t *testing.T) {
	w := worldOf(t, Config{EventLimit: 1000})
	var f func()
	f = func() { w.After(1, f) }
	f()
	var limit *LimitError
	if err := w.Run(); !errors.As(err, &limit) || limit.Events != 1000 {
		t.Fatalf("%v", err)
	}
	if got := w.Recent(); len(got) != defaultKeepEvents || got[len(got)-1].Seq != 1000 {
		t.Fatalf("%d recent events", len(got))
	}
}

func TestTheLoopCannotBeEnteredFromInside(t *testing.T) {
	w := newWorld(t, 1)
	w.At(1, func() { w.RunOne(Forever) })
	w.At(2, func() {})
	defer func() {
		if _, ok := recover().(invariant.Violation); !ok {
			t.Fatal("no assertion failed")
		}
	}()
	_ = w.Run()
}

func TestATimeoutThatNeverStruckIsNoEvent(t *testing.T) {
	a, b := newPair(t, 1)
	a.want(oneSided(verbs.OpRead, a, 0, b, 0, 8), verbs.WCSuccess)
	events, now := a.w.Stats().Events, a.w.Now()
	must(t, a.w.Run())
	if a.w.Stats().Events != events || a.w.Now() != now {
		t.Fatalf("%d events more, time %s after %s", a.w.Stats().Events-events, a.w.Now(), now)
	}
}

func TestNodesAndDevices(t *testing.T) {
	w := newWorld(t, 1)
	for _, bad := range []string{"A", "a b", "-a", "x*", "0123456789012345678901234567890123"} {
		if _, err := w.AddNode(NodeConfig{Name: bad}); err == nil {
			t.Errorf("node name %q was taken", bad)
		}
	}
	n, err := w.AddNode(NodeConfig{})
	must(t, err)
	if _, err := w.AddNode(NodeConfig{Name: n.Name()}); err == nil {
		t.Error("a name was taken twice")
	}
	devices, err := w.Devices()
	must(t, err)
	if len(devices) != 1 || devices[0].Name != "n0" {
		t.Fatalf("%+v", devices)
	}
	var provider verbs.Provider = w
	if _, err := provider.Open("x"); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("unknown device: %v", err)
	}
	ctx, err := provider.Open("")
	must(t, err)
	must(t, ctx.Close())
	must(t, ctx.Close())
}

func TestClocksDriftAndStep(t *testing.T) {
	w := newWorld(t, 1)
	n, err := w.AddNode(NodeConfig{ClockOffset: -time.Millisecond, ClockDrift: 100_000})
	must(t, err)
	at := func(when Time, want time.Duration) {
		t.Helper()
		must(t, w.RunUntil(when))
		if got := n.Clock().Now(); got != want {
			t.Errorf("at %s the clock shows %s, want %s", when, got, want)
		}
	}
	at(0, 0) // never below
	at(Second, time.Second-time.Millisecond+100*time.Microsecond)
	n.DriftClock(-100_000)
	at(2*Second, 2*time.Second-time.Millisecond)
	n.StepClock(time.Second)
	at(2*Second, 3*time.Second-time.Millisecond)
	if e := n.ClockError(); e != time.Second-time.Millisecond {
		t.Errorf("error %s", e)
	}
}

func TestTimesPrintAndParse(t *testing.T) {
	for text, want := range map[string]Time{"0ns": 0, "1ps": 1, "1.5us": 1500 * Nanosecond,
		"12ms": 12 * Millisecond, "3s": 3 * Second, "1.000000000001s": Second + 1} {
		got, err := ParseTime(text)
		if err != nil || got != want || want.String() != text {
			t.Errorf("%q: %d, %v; prints %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "1", "us", "-1us", "1.5ps", "1e3us", "1 h", "1..2us", ".5us",
		"99999999999999999999s", "9300000000s", "+1us"} {
		if got, err := ParseTime(bad); err == nil {
			t.Errorf("%q was taken as %s", bad, got)
		}
	}
	if Of(-1) != 0 || Of(time.Second) != Second || Of(1<<62) != Forever {
		t.Error("Of")
	}
}
