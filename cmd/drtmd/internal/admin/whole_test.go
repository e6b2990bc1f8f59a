package admin

import (
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
)

func TestSamplesOfAllNodesAreAddedUp(t *testing.T) {
	type load struct {
		run, phase         string
		committed, aborted uint64
	}
	// A look at two nodes, so long after the last one; nil loads are of nodes that say nothing.
	steps := []struct {
		name               string
		after              time.Duration
		loads              [2]*load
		known              bool
		committed, aborted float64
	}{
		{"the first look tells nothing", time.Hour,
			[2]*load{{"1", "warm", 500, 5}, {"1", "warm", 700, 7}}, false, 0, 0},
		{"the sum of both", time.Second, [2]*load{{"1", "warm", 600, 6}, {"1", "warm", 900, 17}},
			true, 300, 11},
		{"per second", 2 * time.Second, [2]*load{{"1", "warm", 700, 6}, {"1", "warm", 1000, 17}},
			true, 100, 0},
		{"a new phase counts anew", time.Second, [2]*load{{"1", "run", 40, 1}, {"1", "run", 50, 2}},
			true, 90, 3},
		{"so does a new run", time.Second, [2]*load{{"2", "run", 41, 1}, {"2", "run", 51, 2}},
			true, 92, 3},
		{"a node that is silent", time.Second, [2]*load{{"2", "run", 141, 1}, nil}, true, 100, 0},
		{"and speaks again", time.Second, [2]*load{{"2", "run", 241, 1}, {"2", "run", 9051, 2}},
			true, 100, 0},
		{"nobody looked for long", time.Minute, [2]*load{{"2", "run", 9000, 9}, {"2", "run", 9900, 9}},
			false, 0, 0},
		{"nothing runs", time.Second, [2]*load{}, true, 0, 0},
		{"a run begins", time.Second, [2]*load{{"3", "warm", 10, 0}, {"3", "warm", 20, 1}}, true, 30, 1},
	}
	w, now := whole{}, time.Unix(1000, 0)
	for _, s := range steps {
		c := &status.Cluster{Nodes: make([]status.Node, 2)}
		for i, l := range s.loads {
			c.Nodes[i].Member = member.Member{Node: proto.NodeID(i)}
			if l != nil {
				c.Nodes[i].Load = &status.Load{Run: l.run, Phase: l.phase, Committed: l.committed,
					Aborted: l.aborted}
			}
		}
		now = now.Add(s.after)
		list := w.add(c, now)
		x := list[len(list)-1]
		switch {
		case (x.Committed != nil) != s.known || (x.Aborts != nil) != s.known:
			t.Errorf("%s: %+v, known: %v", s.name, x, s.known)
		case s.known && (*x.Committed != s.committed || *x.Aborts != s.aborted):
			t.Errorf("%s: %v and %v, want %v and %v", s.name, *x.Committed, *x.Aborts, s.committed,
				s.aborted)
		}
	}
	for range keptSamples {
		now = now.Add(time.Second)
		w.add(&status.Cluster{}, now)
	}
	if len(w.list) != keptSamples {
		t.Errorf("%d samples are kept", len(w.list))
	}
}

func TestPagesOfOtherNodes(t *testing.T) {
	for _, x := range []struct{ name, host, admin, control, want string }{
		{"an address", "far", "10.0.0.2:7441", "", "http://10.0.0.2:7441/"},
		{"of IPv6", "far", "[fd00::2]:7441", "", "http://[fd00::2]:7441/"},
		{"loopback of this host", "near", "127.0.0.1:7442", "", "http://127.0.0.1:7442/"},
		{"loopback of another", "far", "127.0.0.1:7442", "", ""},
		{"everywhere", "far", "[::]:7441", "10.0.0.2:7440", "http://10.0.0.2:7441/"},
		{"everywhere, and so the control plane", "far", "0.0.0.0:7441", "0.0.0.0:7440", ""},
		{"no port", "far", "", "10.0.0.2:7440", ""},
		{"a name", "far", "evil.example:7441", "", ""},
		{"no address", "far", `javascript:alert(1)`, "", ""},
	} {
		c := &status.Cluster{Nodes: []status.Node{{Host: "near"}, {Host: x.host, Admin: x.admin}}}
		c.Nodes[1].Member = member.Member{Node: 1, Control: x.control}
		if got := pagesOf(c)[1]; got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
		c.Nodes[1].Phase = status.Gone
		if pages := pagesOf(c); len(pages) != 0 {
			t.Errorf("%s: a node that is gone has a page: %v", x.name, pages)
		}
	}
}
