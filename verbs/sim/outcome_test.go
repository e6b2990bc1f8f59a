package sim

import (
	"testing"

	"drtmd/verbs"
)

// Each fault of a schedule says whether it struck and what it hit.
func TestOutcomesSayWhatAFaultHit(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults string
		want   []Outcome // without Fault
	}{
		{"a crash, and one of a node that is down",
			"at 1us crash node=b\nat 2us crash node=b\nat 3us restart node=b\nat 4us restart node=b",
			[]Outcome{{Struck: true, Hits: 1}, {Struck: true}, {Struck: true, Hits: 1},
				{Struck: true}}},
		{"a pause of a node that is down", "at 1us crash node=b\nat 2us pause node=b for=1us\n" +
			"at 2us pause-worker node=b worker=0 for=1us",
			[]Outcome{{Struck: true, Hits: 1}, {Struck: true}, {Struck: true}}},
		{"requests that are late", "at 0ns delay-rc from=a to=b by=1us times=2",
			[]Outcome{{Struck: true, Hits: 2}}},
		{"requests of nobody", "at 0ns delay-rc from=b to=a by=1us", []Outcome{{Struck: true}}},
		{"datagrams of nobody", "at 0ns drop from=* to=* ppm=1000000", []Outcome{{Struck: true}}},
		{"cuts that end", "at 1us cut from=a to=b both=yes\nat 2us heal\nat 3us heal",
			[]Outcome{{Struck: true, Hits: 2}, {Struck: true, Hits: 2}, {Struck: true}}},
		{"a partition of one group", "at 1us partition groups=a,b", []Outcome{{Struck: true}}},
		{"QPs to a peer and to none", "at 50us break-qps node=a to=b\nat 60us break-qps node=b to=b",
			[]Outcome{{Struck: true, Hits: 1}, {Struck: true}}},
		{"registrations", "at 0ns fail-allocs node=b times=2", []Outcome{{Struck: true, Hits: 1}}},
		{"a step that is taken once", "at step \"x\" #1 break-qps\nat step \"x\" #2 crash\n" +
			"at step \"y\" #1 crash node=b",
			[]Outcome{{Struck: true, Hits: 1}, {}, {}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := newPair(t, 1)
			s, err := ParseSchedule(c.faults)
			must(t, err)
			must(t, a.w.Install(s))
			for i := range 3 {
				a.post(oneSided(verbs.OpWrite, a, 0, b, 0, 8+i))
			}
			a.w.At(10*Microsecond, func() {
				a.w.Step(a.node, "x")
				if b.node.Up() {
					_, _ = b.pd.AllocMR(64, 0, verbs.MROptions{}) // it may be made to fail
				}
			})
			must(t, a.w.Run())
			got := a.w.Outcomes()
			if len(got) != len(c.want) {
				t.Fatalf("%d outcomes", len(got))
			}
			for i, o := range got {
				want := c.want[i]
				want.Fault = s[i]
				if o.Struck != want.Struck || o.Hits != want.Hits ||
					o.Fault.String() != want.Fault.String() {
					t.Errorf("%s: struck %t, %d hits; want %t, %d", o.Fault, o.Struck, o.Hits,
						want.Struck, want.Hits)
				}
			}
		})
	}
}

// A crash for a span ends by itself, and only the life that it ended is followed by another.
func TestACrashForASpanEndsByItself(t *testing.T) {
	for _, c := range []struct {
		name, faults string
		lives        uint32
		up           bool
	}{
		{"alone", "at 1us crash node=b for=5us", 2, true},
		{"for ever", "at 1us crash node=b", 1, false},
		{"of a node that is down", "at 1us crash node=b\nat 2us crash node=b for=5us", 1, false},
		{"ended by a restart, and crashed again",
			"at 1us crash node=b for=5us\nat 2us restart node=b\nat 3us crash node=b", 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			n, err := w.AddNode(NodeConfig{Name: "b"})
			must(t, err)
			first := n.Incarnation()
			s, err := ParseSchedule(c.faults)
			must(t, err)
			must(t, w.Install(s))
			must(t, w.Run())
			if lives := n.Incarnation() - first + 1; lives != c.lives || n.Up() != c.up {
				t.Errorf("%d lives, up %t", lives, n.Up())
			}
		})
	}
}
