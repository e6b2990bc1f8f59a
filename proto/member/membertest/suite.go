// Package membertest is the suite that every implementation of proto/member passes: the same cases
// on etcd in real time and on the simulator in virtual time.
package membertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"drtmd/proto/member"
)

// Env is a registry with nodes around it.
type Env interface {
	// Lease of members.
	Lease() time.Duration
	// Now is the clock that leases are told by.
	Now() time.Duration
	// Node makes another node, and the way by which it reaches the registry.
	Node() Node
	// Await lets time pass until ok holds, and reports whether it does before some leases are over.
	Await(ok func() bool) bool
	// Pass lets a time pass.
	Pass(d time.Duration)
	// Stop stops the registry; Restart lets it go on with what it has stored.
	Stop()
	Restart()
	// Lengthen makes leases so long that Stop and Restart take a small part of one, on a busy machine
	// too. It comes before Node.
	Lengthen()
}

// Node is a way to the registry.
type Node interface {
	member.Registry
	// Cut cuts the node off from the registry; Mend lets it back. A node that is cut off for ever is
	// as good as dead.
	Cut()
	Mend()
}

// TB is the part of testing.TB that cases need.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Case is one claim about the contract.
type Case struct {
	Name string
	Run  func(t TB, e Env)
}

// Run runs every case on an environment of its own. Parallel ones save real time.
func Run(t *testing.T, parallel bool, open func(t *testing.T) Env) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			c.Run(t, open(t))
		})
	}
}

// watcher records what a session's listener is told.
type watcher struct {
	mu   sync.Mutex
	last member.State
	seen int
	lost []error
	late int // changes after the loss
}

func (w *watcher) Changed(s member.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.seen = s, w.seen+1
	if len(w.lost) > 0 {
		w.late++
	}
}

func (w *watcher) LeaseLost(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, err)
}

func (w *watcher) state() member.State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last.Clone()
}

func (w *watcher) losses() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lost)
}

// life is a member with its node.
type life struct {
	member.Session
	node Node
	w    *watcher
}

// join makes a node a member.
func join(t TB, e Env, n Node, c member.Candidate) *life {
	t.Helper()
	if c.Name == "" {
		c.Name = "host"
	}
	w := &watcher{}
	s, err := n.Join(c, w)
	if err != nil {
		t.Fatalf("join: %v", err)
	}
	t.Cleanup(func() {
		n.Mend()
		_ = s.Leave() // whatever the case was about
	})
	return &life{s, n, w}
}

// members makes so many of them, with the first ids.
func members(t TB, e Env, n int) []*life {
	t.Helper()
	var all []*life
	for range n {
		all = append(all, join(t, e, e.Node(), member.Candidate{Node: member.AnyNode, Build: "b"}))
	}
	for _, l := range all {
		await(t, e, "everybody knows all", func() bool {
			return len(l.w.state().Active.Members) == n
		})
	}
	return all
}

func await(t TB, e Env, what string, ok func() bool) {
	t.Helper()
	if !e.Await(ok) {
		t.Fatalf("did not happen: %s", what)
	}
}

// removed waits until a survivor sees a view without m pending, or active.
func removed(t TB, e Env, by *life, m member.Member) member.State {
	t.Helper()
	var s member.State
	await(t, e, fmt.Sprintf("%v is removed", m), func() bool {
		s = by.w.state()
		v := s.Newest()
		return v.Epoch > 0 && !v.Has(m)
	})
	return s
}

// want checks an error.
func want(t TB, what string, err, is error) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Errorf("%s: %v, want %v", what, err, is)
	}
}
