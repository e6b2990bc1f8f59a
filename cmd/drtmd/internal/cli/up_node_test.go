package cli

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/cmd/drtmd/internal/status"
)

// waits is a daemon that says how it is, and knows nothing else.
type waits struct {
	control.Backend
	node status.Node
}

func (waits) Check(control.Caller) error { return nil }
func (w waits) Status(context.Context, bool) (*status.Cluster, error) {
	return &status.Cluster{Nodes: []status.Node{w.node}}, nil
}

// TestUpWaitsLongerForANodeThatLoads: as long as it says so, up to a bound.
func TestUpWaitsLongerForANodeThatLoads(t *testing.T) {
	const step = readyTimeout / 3
	for _, c := range []struct {
		loads, least, most time.Duration // for how long it loads, and when up gives up
	}{
		{0, readyTimeout, readyTimeout + step},
		{2 * readyTimeout, 3*readyTimeout - step, 3*readyTimeout + step},
		{time.Hour, loadedTimeout + readyTimeout - step, loadedTimeout + readyTimeout + step},
	} {
		begun := time.Now()
		p, after := newPatience(begun), time.Duration(0)
		for ; !p.ended(begun.Add(after)) && after < 2*time.Hour; after += step {
			if after < c.loads {
				p.loads(begun.Add(after))
			}
		}
		if after < c.least || after > c.most {
			t.Errorf("up waits %v for a node that loads for %v, want %v to %v", after, c.loads, c.least, c.most)
		}
	}
}

// TestUpSaysWhatANodeWaitsFor in its own words, and has patience only with one in whose way nothing is.
func TestUpSaysWhatANodeWaitsFor(t *testing.T) {
	for _, c := range []struct {
		node  status.Node
		text  string
		loads bool
	}{
		{status.Node{Phase: status.Connecting, Reason: "loads", Wait: status.Loading}, ", which is connecting: loads", true},
		{status.Node{Phase: status.Connecting, Reason: "partition 1 is missing"}, ", which is connecting: partition 1 is missing",
			false},
		{status.Node{Phase: status.Joining}, ", which is joining", false},
	} {
		address := "unix:" + filepath.Join(t.TempDir(), "control")
		l, err := control.Listen(address, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		s := control.NewServer(control.Options{Backend: waits{node: c.node}, Build: report.ThisBuild().String(), Log: zap.NewNop(),
			Limits: control.Limits{MaxConnections: 4, MaxMessage: 1 << 20, RatePerPeer: 1000}})
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		n := &upNode{upMember: upMember{Name: "n", Address: address}}
		if text, loads := n.state(t.Context()); text != c.text || loads != c.loads {
			t.Errorf("%+v: %q, loads %v", c.node, text, loads)
		}
		s.Stop(t.Context())
		if err := <-served; err != nil {
			t.Error(err)
		}
		if text, loads := n.state(t.Context()); text != "" || loads {
			t.Errorf("of a node that has ended: %q, loads %v", text, loads)
		}
	}
}
