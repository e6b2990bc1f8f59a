package sim

import (
	"encoding/binary"
	"fmt"
	"testing"

	"drtmd/verbs"
)

// exchange is a lock/write/unlock of a word on a remote node, in callbacks, with every step
// marked. It counts what the two nodes may rely on.
type exchange struct {
	a, b     *side
	rounds   int
	finished int // rounds that reported success
	broken   bool
}

const (
	lockOff  = 0
	valueOff = 64
)

func (e *exchange) step(name string) bool {
	e.a.w.Step(e.a.node, name)
	return e.a.node.Up()
}

// do posts a request and goes on with then when it has succeeded.
func (e *exchange) do(wr verbs.WR, then func()) {
	wr.Flags = verbs.FlagSignaled
	_, err := e.a.qp.PostSend([]verbs.WR{wr})
	must(e.a.t, err)
	var poll func()
	must(e.a.t, e.a.cq.OnArrival(func() { e.a.w.After(0, poll) }))
	poll = func() {
		var wc [1]verbs.WC
		n, err := e.a.cq.Poll(wc[:])
		if err != nil || n == 0 || !e.a.node.Up() {
			return
		}
		if wc[0].Status != verbs.WCSuccess {
			e.broken = true
			return
		}
		then()
	}
}

func (e *exchange) start() {
	if e.rounds == 0 || !e.step("start") {
		return
	}
	e.rounds--
	lock := oneSided(verbs.OpCAS, e.a, 0, e.b, lockOff, 8)
	lock.Swap = 1
	e.do(lock, func() {
		if !e.step("locked") {
			return
		}
		next := uint64(e.finished + 1)
		binary.NativeEndian.PutUint64(e.a.mr.Bytes()[8:], next)
		e.do(oneSided(verbs.OpWrite, e.a, 8, e.b, valueOff, 8), func() {
			if !e.step("written") {
				return
			}
			unlock := oneSided(verbs.OpCAS, e.a, 16, e.b, lockOff, 8)
			unlock.CompareAdd = 1
			e.do(unlock, func() {
				if e.step("unlocked") {
					e.finished++
					e.start()
				}
			})
		})
	})
}

func runExchange(t *testing.T, faults Schedule) *exchange {
	t.Helper()
	a, b := newPair(t, 1)
	e := &exchange{a: a, b: b, rounds: 3}
	must(t, a.w.Install(faults))
	a.w.After(0, e.start)
	must(t, a.w.Run())
	return e
}

// Every marked step is listed, and a crash at each occurrence of each leaves a state that is
// one of those that the protocol allows there.
func TestCrashAtEveryMarkedStep(t *testing.T) {
	whole := runExchange(t, nil)
	steps := whole.a.w.Steps()
	if fmt.Sprint(steps) != "[{start 3} {locked 3} {written 3} {unlocked 3}]" {
		t.Fatalf("steps: %v", steps)
	}
	if whole.finished != 3 || whole.broken {
		t.Fatalf("%d rounds", whole.finished)
	}
	struck := 0
	for _, s := range steps {
		for k := 1; k <= s.Count; k++ {
			for _, node := range []string{"", "b"} {
				fault := Fault{Kind: CrashNode, Step: s.Name, Count: k, Node: node, Kept: true}
				e := runExchange(t, Schedule{fault})
				name := fault.String()
				if node == "" && e.a.node.Up() || node == "b" && e.b.node.Up() {
					t.Fatalf("%s did not strike", name)
				}
				struck++
				if e.finished > k || e.finished < k-1 {
					t.Errorf("%s: %d rounds finished", name, e.finished)
				}
				if node == "b" {
					e.b.node.Restart()
					e.b.open(testBytes)
				}
				lock := e.b.mr.Bytes()[lockOff]
				value := binary.NativeEndian.Uint64(e.b.mr.Bytes()[valueOff:])
				wantLock := map[string]byte{"start": 0, "locked": 1, "written": 1, "unlocked": 0}[s.Name]
				wantValue := uint64(k - 1)
				if s.Name == "written" || s.Name == "unlocked" {
					wantValue = uint64(k)
				}
				if lock != wantLock || value != wantValue {
					t.Errorf("%s: lock %d value %d, want %d and %d", name, lock, value, wantLock,
						wantValue)
				}
			}
		}
	}
	if struck != 24 {
		t.Errorf("%d crashes", struck)
	}
}
