package endtoend

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/member/etcdmember"
)

// TestEtcdIsLostDuringARun: nobody can say any more who is a member, so the run ends in words when the
// leases do, and not when each member has been waited for; with etcd back, the cluster is.
func TestEtcdIsLostDuringARun(t *testing.T) {
	t.Parallel()
	raceskip.Processes(t)
	dir := t.TempDir()
	etcd := func(listen string) *etcdmember.Server {
		s, err := etcdmember.Start(context.Background(), etcdmember.ServerConfig{Dir: dir,
			Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := etcd("127.0.0.1:0")
	address, err := url.Parse(s.URLs()[0])
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "--etcd", s.URLs()[0])
	l.start("n0")
	l.start("n1")
	for _, n := range l.nodes {
		n.await()
	}
	l.allReady(l.nodes[0], 2)
	was := l.self(l.nodes[1]).Member
	b := l.benching(l.nodes[0], "--duration", "1h")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	until(t, "the leader refuses", func() bool {
		n := l.self(l.nodes[0])
		return n != nil && n.Phase == status.Refusing
	})
	if _, errs := b.ends(1); !strings.Contains(errs, "membership lease has ended") {
		t.Errorf("stderr:\n%s", errs)
	}
	s = etcd(address.Host)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	l.allReady(l.nodes[0], 2)
	if now := l.self(l.nodes[1]).Member; now.Incarnation <= was.Incarnation {
		t.Errorf("was %v, is %v", was, now)
	}
	l.proved(l.nodes[1])
}
