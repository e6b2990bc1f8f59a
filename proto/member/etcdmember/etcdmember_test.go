package etcdmember

import (
	"context"
	"testing"
	"time"

	"drtmd/proto/member"
	"drtmd/verbs"
)

type listener struct {
	states chan member.State
	lost   chan error
}

func (l *listener) Changed(s member.State) { l.states <- s }
func (l *listener) LeaseLost(err error)    { l.lost <- err }

func TestTry(t *testing.T) {
	srv, err := Start(context.Background(), ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	clock := verbs.NewMonotonicClock()
	open := func() *Registry {
		r, err := Open(Config{Endpoints: srv.URLs(), Cluster: "x", Lease: 2 * time.Second, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	join := func(n string) (member.Session, *listener) {
		l := &listener{make(chan member.State, 100), make(chan error, 1)}
		s, err := open().Join(member.Candidate{Node: member.AnyNode, Name: n}, l)
		if err != nil {
			t.Fatal(err)
		}
		return s, l
	}
	a, la := join("a")
	b, _ := join("b")
	_ = a.SetShards(member.ShardMap{Version: 1, Primary: []member.Member{a.Self(), b.Self()}})
	b.(*session).cancel() // dead
	begin := time.Now()
	for s := range la.states {
		t.Logf("%v %+v", time.Since(begin), s)
		if s.Pending != nil {
			if err := a.Fenced(s.Pending.Epoch); err != nil {
				t.Fatal(err)
			}
		}
		if s.Active.Epoch == 3 {
			break
		}
	}
	srv.Close()
	t.Log(<-la.lost, time.Since(begin))
}
