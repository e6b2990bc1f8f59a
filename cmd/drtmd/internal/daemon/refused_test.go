package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
	"drtmd/proto/member/etcdmember"
	"drtmd/verbs"
)

// lonely is a node with an etcd outside of the daemons.
func lonely(t *testing.T) (*testNode, []string) {
	t.Helper()
	w := newWorld(t, 0)
	s, err := etcdmember.Start(context.Background(), etcdmember.ServerConfig{Dir: filepath.Join(w.dir,
		"etcd"), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	n := w.add()
	n.cfg.Cluster.Etcd = s.URLs()
	n.cfg.Cluster.Lease = 3 * time.Second // that of a dead member is waited for
	return n, s.URLs()
}

// silent is a listener that hears nothing.
type silent struct{}

func (silent) Changed(member.State) {}
func (silent) LeaseLost(error)      {}

// earlier joins a member, which lives until the end of the test, unless it dies at once: then its lease
// runs out.
func (n *testNode) earlier(urls []string, c member.Candidate, dies bool) {
	t := n.w.t
	t.Helper()
	r, err := etcdmember.Open(etcdmember.Config{Endpoints: urls, Cluster: n.cfg.Cluster.Name,
		Lease: n.cfg.Cluster.Lease, Clock: verbs.NewMonotonicClock()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Join(c, silent{})
	if err != nil {
		t.Fatal(err)
	}
	if dies {
		if err := r.Close(); err != nil { // no renewal reaches etcd any more
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = s.Leave() // its lease may have ended
		if !dies {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestANodeWaitsForTheLeasesOfDeadMembers which are in its way: it says so, and then joins.
func TestANodeWaitsForTheLeasesOfDeadMembers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dead member.Candidate
		want string // in status
	}{
		"of its former life that it knows nothing of": {member.Candidate{Node: 5, Name: "n0",
			Build: testBuild}, "belongs to a live member: node 5 (n0, incarnation 1)"},
		"of another build": {member.Candidate{Node: 7, Name: "old", Build: "older"},
			`runs another version of drtmd: node 7 (old, incarnation 1) has "older", not "test"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, urls := lonely(t)
			n.cfg.Node.ID = 5
			n.earlier(urls, c.dead, true)
			n.start()
			s := n.await(status.Ready)
			if s.Member.Node != 5 {
				t.Errorf("joined as %v", s.Member)
			}
			told := 0
			for _, e := range s.Events {
				if strings.Contains(e.Text, c.want) && strings.Contains(e.Text, "waits for up to 8s") &&
					e.Level == status.Warn {
					told++
				}
			}
			if told != 1 {
				t.Errorf("%d events tell that it waits, want 1: %+v", told, s.Events)
			}
		})
	}
}

// TestANodeGivesUpWhereMembersLive that are in its way, with the reason; until then status tells it.
func TestANodeGivesUpWhereMembersLive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		living member.Candidate
		want   error
	}{
		"with its id": {member.Candidate{Node: 5, Name: "other", Build: testBuild}, member.ErrTaken},
		"with another build": {member.Candidate{Node: 7, Name: "other", Build: "older"},
			member.ErrBuild},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, urls := lonely(t)
			n.cfg.Node.ID = 5
			n.earlier(urls, c.living, false)
			n.start()
			s := n.await(status.Joining)
			n.w.until("status tells what it waits for", func() bool {
				if now := n.self(); now != nil {
					s = now
				}
				return strings.Contains(s.Reason, c.want.Error()) && strings.Contains(s.Reason, "other") &&
					strings.Contains(s.Reason, "waits for up to")
			}, func() any { return s })
			select {
			case err := <-n.ended:
				if !errors.Is(err, c.want) {
					t.Errorf("ended with %v, want %v", err, c.want)
				}
			case <-time.After(patience):
				t.Fatal("it does not give up")
			}
			n.cancel = nil // it has ended
		})
	}
}
