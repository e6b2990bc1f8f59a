package sim

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// strike makes one fault happen now.
func strike(t testing.TB, w *World, line string) {
	t.Helper()
	f, err := ParseFault("at 0ns " + line)
	must(t, err)
	strikeNow(t, w, f)
}

// strikeNow makes a fault happen. Its At and Step do not matter.
func strikeNow(t testing.TB, w *World, f Fault) {
	t.Helper()
	f.At, f.Step, f.Count = w.now, "", 0
	must(t, w.checkFault(&f))
	w.strike(f, &Outcome{})
}

func TestACrashedPeerIsRetryExceeded(t *testing.T) {
	a, b := newPair(t, 1)
	a.want(oneSided(verbs.OpWrite, a, 0, b, 0, 8), verbs.WCSuccess)
	strike(t, a.w, "crash node=b dram=lost")
	start := a.w.Now()
	a.want(oneSided(verbs.OpWrite, a, 0, b, 0, 8), verbs.WCRetryExcErr)
	// Five tries of 131 us each.
	if d := a.w.Now() - start; d < 5*131*Microsecond || d > 5*140*Microsecond {
		t.Errorf("it took %s", d)
	}
	if _, err := b.qp.PostSend([]verbs.WR{send(b, 0, 8)}); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("post on a crashed node: %v", err)
	}
	if _, err := b.node.Open(); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("open of a crashed node: %v", err)
	}
	must(t, b.ctx.Close())
}

// The connection of a former life reaches nothing, even if the node is back.
func TestARestartedNodeKnowsNothingOfItsFormerLife(t *testing.T) {
	a, b := newPair(t, 1)
	strike(t, a.w, "crash node=b dram=kept")
	strike(t, a.w, "restart node=b")
	old := b.mr.RKey()
	b.open(testBytes)
	a.want(oneSided(verbs.OpWrite, a, 0, b, 0, 8), verbs.WCRetryExcErr)
	connect(a, b, fast)
	if b.mr.RKey() == old {
		t.Error("a key was given again")
	}
	wr := oneSided(verbs.OpWrite, a, 0, b, 0, 8)
	wr.RKey = old
	a.want(wr, verbs.WCRemAccessErr)
}

func TestKeptMemorySurvivesACrashOnlyIfKept(t *testing.T) {
	for _, dram := range []string{"kept", "lost"} {
		a, b := newPair(t, 1)
		a.mr.Bytes()[0] = 77
		a.want(oneSided(verbs.OpWrite, a, 0, b, 0, 1), verbs.WCSuccess)
		line := b.mr.Lines()[0]
		strike(t, a.w, "crash node=b dram="+dram)
		strike(t, a.w, "restart node=b")
		b.open(testBytes)
		want, wantLine := byte(77), line
		if dram == "lost" {
			want, wantLine = 0, 0
		}
		if b.mr.Bytes()[0] != want || b.mr.Lines()[0] != wantLine {
			t.Errorf("dram=%s: byte %d, line word %s", dram, b.mr.Bytes()[0],
				lineword.Word(b.mr.Lines()[0]))
		}
	}
}

// A WRITE that was on the wire when its sender crashed still arrives; one that was not, does
// not: the flying WRITE of rTX §4.2.
func TestAWriteOnTheWireOutlivesItsSender(t *testing.T) {
	for _, when := range []Time{10 * Nanosecond, 10 * Microsecond} {
		a, b := newPair(t, 1)
		strike(t, a.w, "delay-rc from=a to=b by=5ms times=1")
		a.mr.Bytes()[0] = 9
		a.post(oneSided(verbs.OpWrite, a, 0, b, 0, 1))
		a.w.After(when, func() { a.node.Crash(false) })
		must(t, a.w.RunUntil(4*Millisecond))
		if b.mr.Bytes()[0] != 0 {
			t.Fatal("the WRITE was not delayed")
		}
		must(t, a.w.Run())
		if flew := b.mr.Bytes()[0] == 9; flew != (when > Microsecond) {
			t.Errorf("crash after %s: arrived %v", when, flew)
		}
	}
}

// ... and one whose sender gave it up long ago arrives too: its QP at the target still stands.
func TestADelayedWriteArrivesAfterItsFailure(t *testing.T) {
	a, b := newPair(t, 1)
	strike(t, a.w, "delay-rc from=a to=b by=5ms")
	a.mr.Bytes()[0] = 9
	a.want(oneSided(verbs.OpWrite, a, 0, b, 0, 1), verbs.WCRetryExcErr)
	if b.mr.Bytes()[0] != 0 {
		t.Fatal("the WRITE was not delayed")
	}
	must(t, a.w.Run())
	if b.mr.Bytes()[0] != 9 {
		t.Error("the delayed WRITE never arrived")
	}
}

func TestAFencedQPLetsNoDelayedWriteThrough(t *testing.T) {
	a, b := newPair(t, 1)
	strike(t, a.w, "delay-rc from=a to=b by=5ms times=1")
	a.mr.Bytes()[0] = 9
	a.post(oneSided(verbs.OpWrite, a, 0, b, 0, 1))
	a.w.After(Millisecond, func() { must(t, b.qp.ToError()) })
	must(t, a.w.Run())
	if b.mr.Bytes()[0] != 0 {
		t.Error("a WRITE went through a fenced QP")
	}
}

func TestLinksAreCutInOneDirectionAndHeal(t *testing.T) {
	a, b := newPair(t, 1)
	// Requests arrive, answers do not: the operation happens and fails.
	strike(t, a.w, "cut from=b to=a")
	add := oneSided(verbs.OpFAA, a, 0, b, 0, 8)
	add.CompareAdd = 1
	a.want(add, verbs.WCRetryExcErr)
	if b.mr.Bytes()[0] != 1 {
		t.Errorf("the addition happened %d times", b.mr.Bytes()[0])
	}
	strike(t, a.w, "heal")
	connect(a, b, fast)
	a.want(add, verbs.WCSuccess)
	// Neither arrives for a while that the retries outlast.
	strike(t, a.w, "cut from=a to=b both=yes for=300us")
	a.want(add, verbs.WCSuccess)
	if b.mr.Bytes()[0] != 3 {
		t.Errorf("after three additions: %d", b.mr.Bytes()[0])
	}
	strike(t, a.w, "partition groups=a|b for=1ms")
	strike(t, a.w, "cut from=a to=b for=2ms")
	strike(t, a.w, "heal") // ends both, and what they would have ended later stays as it is
	strike(t, a.w, "cut from=a to=b")
	must(t, a.w.RunUntil(a.w.Now()+5*Millisecond))
	a.want(add, verbs.WCRetryExcErr)
}

// datagrams is a pair of UD QPs; deliver sends n datagrams and gives what arrived, in order.
func datagrams(t *testing.T, faults string) (deliver func(n int) []byte) {
	t.Helper()
	w := newWorld(t, 3)
	a, b := addSide(t, w, "a"), addSide(t, w, "b")
	a.qp, b.qp = a.newQP(verbs.UD), b.newQP(verbs.UD)
	must(t, a.qp.Connect(nil, fast))
	must(t, b.qp.Connect(nil, fast))
	ah, err := a.pd.CreateAHTo(b.qp.Endpoint())
	must(t, err)
	strike(t, w, faults)
	return func(n int) []byte {
		for i := range n {
			a.mr.Bytes()[0] = byte(i)
			wr := send(a, 0, 1)
			wr.Flags = verbs.FlagSignaled | verbs.FlagInline
			wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah.Handle(), b.qp.QPN(), 7
			b.recv(uint64(2*i), 100*i, 64)
			if i%2 == 0 {
				b.recv(uint64(2*i+1), 100*(i+200), 64)
			}
			a.want(wr, verbs.WCSuccess)
		}
		var got []byte
		must(t, w.Run())
		for {
			wc, ok := nextWithin(t, w, b.rcq, Millisecond)
			if !ok {
				return got
			}
			place := 100 * int(wc.ID/2)
			if wc.ID%2 == 1 {
				place += 100 * 200
			}
			got = append(got, b.mr.Bytes()[place+verbs.GRHBytes])
		}
	}
}

func TestDatagramsAreDroppedDuplicatedDelayedAndReordered(t *testing.T) {
	if got := datagrams(t, "drop from=a to=b ppm=1000000 times=3")(5); string(got) != "\x03\x04" {
		t.Errorf("drop: %v", got)
	}
	if got := datagrams(t, "duplicate from=a to=b ppm=1000000 by=1us times=2")(3); len(got) != 5 {
		t.Errorf("duplicate: %v", got)
	}
	if got := datagrams(t, "delay from=* to=b ppm=1000000 by=1ms times=1")(3); string(got) !=
		"\x01\x02\x00" {
		t.Errorf("delay: %v", got)
	}
	got := datagrams(t, "reorder from=a to=* ppm=1000000 by=200us")(20)
	if sorted := slices.Sorted(slices.Values(got)); len(got) != 20 || slices.Equal(got, sorted) {
		t.Errorf("reorder: %v", got)
	}
	if got := datagrams(t, "drop from=a to=b ppm=500000")(80); len(got) < 20 || len(got) > 60 {
		t.Errorf("half of 80 dropped: %d left", len(got))
	}
	if got := datagrams(t, "drop from=b to=a ppm=1000000")(5); len(got) != 5 {
		t.Errorf("a rule hit the other direction: %v", got)
	}
}

func TestFaultsOfOneNode(t *testing.T) {
	a, b := newPair(t, 1)
	read := oneSided(verbs.OpRead, a, 0, b, 0, 8)
	timed := func() Time {
		start := a.w.Now()
		a.want(read, verbs.WCSuccess)
		return a.w.Now() - start
	}
	normal := timed()
	strike(t, a.w, "slow-nic node=b factor=10000 for=1ms")
	if slow := timed(); slow < 2*normal {
		t.Errorf("a slow NIC: %s, normal %s", slow, normal)
	}
	must(t, a.w.RunUntil(a.w.Now()+Millisecond))
	if d := timed(); d > normal+normal/10 {
		t.Errorf("it stayed slow: %s, normal %s", d, normal)
	}

	strike(t, a.w, "fail-allocs node=b times=2")
	for i := range 3 {
		_, err := b.pd.AllocMR(64, verbs.AccessAll, verbs.MROptions{})
		if errors.Is(err, syscall.ENOMEM) != (i < 2) {
			t.Errorf("allocation %d: %v", i, err)
		}
	}

	strike(t, a.w, "pause node=b for=3ms")
	strike(t, a.w, "pause-worker node=b worker=2 for=5ms")
	if r := b.node.ReadyAt(0); r != a.w.Now()+3*Millisecond {
		t.Errorf("worker 0 is ready at %s", r)
	}
	if r := b.node.ReadyAt(2); r != a.w.Now()+5*Millisecond {
		t.Errorf("worker 2 is ready at %s", r)
	}
	timed() // its NIC works on
	if r := a.node.ReadyAt(0); r != a.w.Now() {
		t.Errorf("a node that is not paused is ready at %s", r)
	}

	strike(t, a.w, "clock-step node=b shift=-1ms")
	strike(t, a.w, "clock-drift node=b drift=1000")
	if e := b.node.ClockError(); e > 0 {
		t.Errorf("clock error %s", e)
	}

	strike(t, a.w, "break-qps node=b to=a")
	e := <-b.ctx.Events()
	if e.Type != verbs.EventQPFatal || e.QPN != b.qp.QPN() {
		t.Errorf("%+v", e)
	}
	a.want(read, verbs.WCRetryExcErr)
}

func TestNothingOfAFailedLifeIsLeft(t *testing.T) {
	a, b := newPair(t, 1)
	for round := range 20 {
		for i := range 64 {
			a.post(oneSided(verbs.OpRead, a, 0, b, 0, 4096+i))
		}
		a.w.After(Time(round)*500*Nanosecond, func() { b.node.Crash(false) })
		must(t, a.w.Run())
		flushed := 0
		for {
			wc, ok := nextWithin(t, a.w, a.cq, 0)
			if !ok {
				break
			}
			if flushed++; flushed == 1 && wc.Status != verbs.WCRetryExcErr {
				t.Fatal(wc.Status)
			}
		}
		if round < 3 && flushed != 64 {
			t.Errorf("%d of 64 requests completed", flushed)
		}
		must(t, a.qp.Close())
		b.node.Restart()
		b.open(testBytes)
		connect(a, b, fast)
	}
	a.want(oneSided(verbs.OpRead, a, 0, b, 0, 8), verbs.WCSuccess)
	if n := len(b.node.devices); n != 1 {
		t.Errorf("%d devices", n)
	}
	if n := len(b.node.devices[0].qps); n != 1 {
		t.Errorf("%d QPs", n)
	}
}

func TestSchedulesPrintAndParse(t *testing.T) {
	text := `at 0ns crash node=a dram=lost
at 1.5ms crash node=a dram=kept
at 2ms restart node=a
at step "drtm: after \"lock\"" #3 crash dram=lost
at step "x" #1 pause for=5us
at 1us pause-worker node=b worker=0 for=1ms
at 1us drop from=a to=* ppm=1000
at 1us duplicate from=a to=b ppm=1000000 times=2 by=1us for=1s
at 1us delay-rc from=* to=b by=10us
at 1us break-qps node=a to=*
at 1us cut from=a to=b both=yes for=1ms
at 1us partition groups=a|b
at 1us heal
at 1us clock-step node=a shift=-1.5ms
at 1us clock-drift node=a drift=-100
at 1us slow-nic node=b factor=2500
at 1us fail-allocs node=b times=1
`
	s, err := ParseSchedule("# a comment\n\n" + text)
	must(t, err)
	if s.String() != text {
		t.Fatalf("printed:\n%s\nwant:\n%s", s, text)
	}
	w := newWorld(t, 1)
	addSide(t, w, "a")
	err = w.Install(s)
	if err == nil || !strings.Contains(err.Error(), `unknown node "b"; known: a`) {
		t.Errorf("%v", err)
	}
	if w.Pending() != 0 {
		t.Error("a part of a wrong schedule was armed")
	}
}

func TestBadSchedulesAreRefusedByLine(t *testing.T) {
	for text, want := range map[string]string{
		"crash node=a":                        `begins with "at TIME"`,
		"at 5 crash node=a":                   `"5" has no unit`,
		"at -1us crash node=a":                "negative",
		"at 1us crush node=a":                 `unknown fault "crush"; known: crash, restart`,
		"at 1us":                              "the kind of fault is missing",
		"at 1us crash":                        "node is missing",
		"at 1us crash node=A":                 "not a node's name",
		"at 1us crash node=*":                 "node must be one node",
		"at 1us crash node=a to=b":            `unexpected or repeated "to=b"; it takes: node, dram`,
		"at 1us crash node=a node=a":          "unexpected or repeated",
		"at 1us crash node=a dram=x":          "expected lost or kept",
		"at 1us pause node=a":                 "for must be more than 0",
		"at 1us pause node=a for=5":           "has no unit",
		"at 1us drop from=a to=b ppm=2000000": "ppm=2000000 is not in 1..1000000",
		"at 1us fail-allocs node=a times=-1":  "times=-1 is not in",
		"at 1us clock-drift node=a drift=x":   "drift=x",
		"at step x #1 crash":                  "in double quotes",
		`at step "x" 1 crash`:                 "such as #1",
		`at step "x" #0 crash`:                "a count of at least 1",
		"at 1us partition groups=a|a":         "in two groups",
		"at 1us partition":                    "groups is missing",
	} {
		_, err := ParseSchedule("\n" + text)
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestRandomSchedulesAreSoundAndPrintable(t *testing.T) {
	seen := map[FaultKind]bool{}
	for seed := range uint64(200) {
		w := newWorld(t, seed)
		for _, n := range []string{"a", "b", "c"} {
			_, err := w.AddNode(NodeConfig{Name: n})
			must(t, err)
		}
		s := RandomSchedule(w.Rand("faults"), RandomOptions{Nodes: []string{"a", "b", "c"},
			Workers: 2, Faults: 8, Horizon: 10 * Millisecond})
		for i := range s {
			seen[s[i].Kind] = true
			if i > 0 && s[i].At < s[i-1].At {
				t.Fatal("out of order")
			}
			if s[i].Kind == Partition && len(s[i].Groups) != 2 || s[i].Worker >= 2 {
				t.Fatalf("it changes nothing: %s", s[i])
			}
		}
		back, err := ParseSchedule(s.String())
		must(t, err)
		if back.String() != s.String() {
			t.Fatalf("seed %d:\n%s\nparsed:\n%s", seed, s, back)
		}
		must(t, w.Install(s))
		must(t, w.Run())
	}
	for k := CrashNode; k < faultKinds; k++ {
		if seen[k] == (k == RestartNode || k == Heal || k == SplitAtomics) { // others end by themselves, and fit all devices
			t.Errorf("%s was never drawn", k)
		}
	}
}

func TestShrinkFindsTheFewestFaults(t *testing.T) {
	var s Schedule
	for i := range 40 {
		s = append(s, Fault{Kind: Heal, At: Time(i)})
	}
	calls := 0
	got := Shrink(s, func(s Schedule) bool {
		calls++
		has := func(at Time) bool {
			return slices.ContainsFunc(s, func(f Fault) bool { return f.At == at })
		}
		return has(7) && has(31)
	})
	if len(got) != 2 || got[0].At != 7 || got[1].At != 31 {
		t.Fatalf("%v", got)
	}
	if calls > 150 {
		t.Errorf("%d runs", calls)
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("at 1us cut from=a to=b both=yes for=1ms")
	f.Add(`at step "x y" #2 crash node=a dram=kept`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		back, err := ParseSchedule(s.String())
		if err != nil || back.String() != s.String() {
			t.Fatalf("%q became\n%q\nand then %v\n%q", text, s, err, back)
		}
	})
}
