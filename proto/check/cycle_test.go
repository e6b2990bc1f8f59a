package check

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"drtmd/proto/history"
)

// leastCycle finds the length of the shortest cycle from a matrix of all edges.
func leastCycle(t *testing.T, h *history.History) int {
	t.Helper()
	c := &checker{ctx: t.Context(), history: h, names: h.Names(), nodes: h.Nodes()}
	c.findClocks()
	for _, err := range []error{c.load(), c.sort()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.admit()
	if err := c.census(); err != nil {
		t.Fatal(err)
	}
	n := len(c.txns)
	far := n + 1
	dist := make([][]int, n)
	for i := range dist {
		dist[i] = slices.Repeat([]int{far}, n)
		for j := range dist[i] {
			if c.inGraph[i] && c.inGraph[j] && c.precedes(uint32(i), uint32(j)) {
				dist[i][j] = 1
			}
		}
	}
	if err := c.eachEdge(func(e edge) { dist[e.from][e.to] = 1 }); err != nil {
		t.Fatal(err)
	}
	for k := range n {
		for i := range n {
			for j := range n {
				dist[i][j] = min(dist[i][j], dist[i][k]+dist[k][j])
			}
		}
	}
	for i := range n {
		far = min(far, dist[i][i])
	}
	return far
}

// Cycles are as short as they can be, and each of their steps follows from the history.
func TestCycleIsTheShortest(t *testing.T) {
	lengths := map[int]int{}
	for seed := range uint64(6_000) {
		m := draw(rand.New(rand.NewPCG(seed, 9)), false)
		h := m.history(t)
		r := check(t, h, Options{})
		if r.Verdict != Violated || r.Violations[0].Steps == nil || r.PlacedAbsences > 0 {
			continue
		}
		v := r.Violations[0]
		if want := leastCycle(t, h); len(v.Txns) != want || len(v.Steps) != want {
			t.Fatalf("seed %d: a cycle of %d, there is one of %d: %s\n%v", seed, len(v.Txns), want,
				v.Text, m)
		}
		for i, s := range v.Steps {
			if s.From != i || s.To != (i+1)%len(v.Txns) || !strings.Contains(v.Text, s.Text) {
				t.Fatalf("%+v", v)
			}
		}
		lengths[len(v.Txns)]++
	}
	if lengths[2] < 20 || lengths[3] < 3 {
		t.Errorf("the cycles are not varied: %v", lengths)
	}
}

// A long time lies between the transactions of the cycle, so that by real time everything
// between them is in one component.
func TestShortCycleIsFoundInAHugeComponent(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name        string
		first, last func(*history.Txn)
		long        func(*history.Txn)
		want        Anomaly
		length      int
	}{
		{"stale read", func(x *history.Txn) { x.Write(1, 0, 5, 5) },
			func(x *history.Txn) { x.Read(1, 0, 4, 4) },
			func(x *history.Txn) {}, StaleRead, 2},
		{"by way of a third", func(x *history.Txn) { x.Read(1, 0, 4, 4) },
			func(x *history.Txn) { x.Read(1, 1, 5, 5) },
			func(x *history.Txn) { x.Write(1, 1, 6, 6); x.Write(1, 0, 5, 5) }, 0, 0},
		{"order against real time, of three",
			func(x *history.Txn) { x.Write(1, 1, 6, 6) },
			func(x *history.Txn) { x.Read(1, 0, 4, 4) },
			func(x *history.Txn) { x.Write(1, 0, 5, 5); x.Read(1, 1, 5, 5) }, RealTimeOrder, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := history.NewRecorder(history.Options{})
			one := func(start, end int64, f func(*history.Txn)) {
				x := r.Begin(start)
				f(x)
				r.End(x, end, history.Committed)
			}
			long := r.Begin(0)
			c.long(long)
			one(1, 2, c.first)
			for i := range int64(n) {
				one(10*i+10, 10*i+15, func(x *history.Txn) {
					x.Read(2, 0, history.Version(i+1), 0)
					x.Write(2, 0, history.Version(i+2), 0)
				})
			}
			one(10*n+10, 10*n+11, c.last)
			r.End(long, 10*n+20, history.Committed)
			s, err := r.Close()
			if err != nil {
				t.Fatal(err)
			}
			h, err := history.New(history.Names{}, s)
			if err != nil {
				t.Fatal(err)
			}
			got := check(t, h, Options{})
			if c.length == 0 {
				if got.Verdict != Serializable {
					t.Errorf("%+v", got)
				}
				return
			}
			if got.Verdict != Violated || got.Violations[0].Anomaly != c.want ||
				len(got.Violations[0].Txns) != c.length {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestViolationIsToldInWords(t *testing.T) {
	clocks := []history.Clock{{Name: "c", ErrorNs: 1}, {Name: "c", ErrorNs: 2}}
	for _, c := range []struct{ history, want string }{
		{"0-10@0 r x 1, w x 2\n14-20@1 r x 1", `
stale read: each transaction must come before the next, and the last before the first
  T1: type 0 1.1 on node 1, committed, from 14ns to 20ns
  T2: type 0 0.1 on node 0, committed, from 0s to 10ns
  T1 before T2: T1 read version 0.1 of letters key 120, then T2 wrote version 0.2
  T2 before T1: T2 had ended at 10ns when T1 started at 14ns, ` +
			"further apart than the clocks' errors of 3ns"},
		{"0-10@0 r x 1, d x 2\n1-10@0 r x 1, w x 2; aborted\n1-10@0 a x 2\n5-9@1 r x 2", `
aborted read: T1 read version 0.2 of letters key 120, written by T2, which did not commit
  T1: type 0 3.1 on node 1, committed, from 5ns to 9ns
  T2: type 0 1.1 on node 0, aborted, from 1ns to 10ns`},
	} {
		r := check(t, parse(t, c.history, clocks...), Options{})
		if got := "\n" + r.Violations[0].Text; got != c.want {
			t.Errorf("got:%s\nwant:%s", got, c.want)
		}
	}
}

func TestCheckCanBeGivenUpInEveryPhase(t *testing.T) {
	b := newBank(t)
	b.run(200_000)
	h := b.history(t)
	for phase := Reading; phase <= Ordering; phase++ {
		t.Run(phase.String(), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var last Phase
			r, err := History(ctx, h, Options{Progress: func(p Phase, done, total uint64) {
				if p < last || done > total {
					t.Errorf("%v after %v, %d of %d", p, last, done, total)
				}
				if last = p; p == phase {
					cancel()
				}
			}})
			if r != nil || !errors.Is(err, context.Canceled) || last != phase {
				t.Errorf("%v, %v, in phase %v", r, err, last)
			}
		})
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for a := AbortedRead; a <= RealTimeOrder; a++ {
		s := a.String()
		if seen[s] || s == "" || s == fmt.Sprintf("anomaly %d", a) {
			t.Errorf("%d: %q", a, s)
		}
		seen[s] = true
	}
}
