package membersim_test

import (
	"container/heap"
	"fmt"
	"testing"
	"time"

	"drtmd/proto/member/membersim"
	"drtmd/proto/member/membertest"
)

// world is an event loop.
type world struct {
	now    time.Duration
	events events
	made   int
}

type event struct {
	at    time.Duration
	order int
	f     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func (w *world) Now() time.Duration { return w.now }

func (w *world) After(d time.Duration, f func()) {
	w.made++
	heap.Push(&w.events, event{w.now + d, w.made, f})
}

// step runs the next event, if it is due by then.
func (w *world) step(by time.Duration) bool {
	if len(w.events) == 0 || w.events[0].at > by {
		return false
	}
	e := heap.Pop(&w.events).(event)
	w.now = e.at
	e.f()
	return true
}

// env implements membertest.Env.
type env struct {
	*world
	*membersim.Registry
}

const (
	lease = 3 * time.Second
	delay = 300 * time.Microsecond
)

func newEnv(m membersim.Mutation) *env {
	w := &world{}
	return &env{w, membersim.New(w, membersim.Config{Cluster: "sim", Lease: lease, Delay: delay,
		Answer: 5 * delay, Mutation: m})}
}

func (e *env) Lease() time.Duration  { return lease }
func (e *env) Lengthen()             {} // Stop and Restart take no time
func (e *env) Node() membertest.Node { return e.Registry.Node() }
func (e *env) Pass(d time.Duration) {
	by := e.now + d
	for e.step(by) {
	}
	e.now = by
}

func (e *env) Await(ok func() bool) bool {
	for by := e.now + 10*lease; ; {
		if ok() {
			return true
		}
		if !e.step(by) {
			return false
		}
	}
}

func TestSuite(t *testing.T) {
	membertest.Run(t, false, func(*testing.T) membertest.Env { return newEnv(membersim.None) })
}

// failures counts what a case complains of.
type failures struct {
	texts    []string
	cleanups []func()
}

type fatal struct{}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}
func (f *failures) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(fatal{})
}
func (f *failures) Cleanup(g func()) { f.cleanups = append(f.cleanups, g) }

// TestSuiteFindsEachMutation: a suite that finds nothing proves nothing.
func TestSuiteFindsEachMutation(t *testing.T) {
	for _, m := range membersim.Mutations().All() {
		t.Run(m.String(), func(t *testing.T) {
			found := 0
			for _, c := range membertest.Cases() {
				f := &failures{}
				func() {
					defer func() {
						if p := recover(); p != nil && p != (fatal{}) {
							panic(p)
						}
					}()
					c.Run(f, newEnv(m))
				}()
				if len(f.texts) > 0 {
					found++
					t.Logf("%s: %s", c.Name, f.texts[0])
				}
			}
			if found == 0 {
				t.Error("no case of the suite finds it")
			}
		})
	}
}
