package etcdmember

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/proto/member"
	"drtmd/verbs"
)

// serveVar has a child of the test serve a folder, until it is killed.
const serveVar = "ETCDMEMBER_TEST_SERVE"

func serve(dir string) {
	s, err := Start(context.Background(), ServerConfig{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.URLs()[0])
	select {} // the parent kills it
}

// child starts one, and waits until it serves.
func child(t *testing.T, dir string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveVar+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if url = strings.TrimSpace(line); err != nil || !strings.HasPrefix(url, "http://") {
		kill(t, cmd)
		t.Fatalf("the child says %q: %v", line, err)
	}
	return cmd, url
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // it was killed
}

func open(t *testing.T, urls []string, lease time.Duration) *Registry {
	t.Helper()
	r, err := Open(Config{Endpoints: urls, Cluster: "faults", Lease: lease,
		Clock: verbs.NewMonotonicClock()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestKilledServerGoesOnWithWhatItHadPromised: kill -9 loses no change that was answered, and its
// members keep their leases if it is back in time.
func TestKilledServerGoesOnWithWhatItHadPromised(t *testing.T) {
	dir := shortDir(t)
	cmd, url := child(t, dir)
	// A start takes a second or two here: the lease is long enough to see it.
	r := open(t, []string{url}, 30*time.Second)
	s, err := r.Join(member.Candidate{Node: member.AnyNode, Build: "b"}, quiet{})
	if err != nil {
		kill(t, cmd)
		t.Fatal(err)
	}
	shards := member.ShardMap{Version: 1, Primary: []member.Member{s.Self()}, Leader: s.Self()}
	if err := s.SetShards(shards); err != nil {
		t.Error(err)
	}
	before := s.State()
	kill(t, cmd)
	if _, held := s.Lease(); !held {
		t.Error("the lease is over with the server")
	}
	cmd, again := child(t, dir)
	defer kill(t, cmd)
	if again != url {
		t.Errorf("was at %s, is at %s", url, again)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	after, err := r.load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if a := after.state; a.Cluster != before.Cluster || a.Shards.Version != 1 ||
		!a.Active.Has(s.Self()) || !after.alive[r.aliveKey(s.Self())] {
		t.Errorf("before: %+v, after: %+v", before, after)
	}
	shards.Version = 2
	if err := s.SetShards(shards); err != nil {
		t.Errorf("a change afterwards: %v", err)
	}
	if err := s.Leave(); err != nil {
		t.Error(err)
	}
}

// TestDataInUseIsRefusedAtOnce also on another port: etcd itself would wait.
func TestDataInUseIsRefusedAtOnce(t *testing.T) {
	e := newEnv(t)
	s, err := Start(context.Background(), ServerConfig{Dir: e.cfg.Dir, Listen: "[::1]:0"})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), e.cfg.Dir) {
		t.Errorf("want the folder in use: %v", err)
	}
	if s != nil {
		t.Error(s.Close())
	}
}

// TestDeadMembersDoNotKeepAClusterFromBeginningAgain: when all have died, nobody has seen it. Who
// comes then is not refused for their sake, be it for their node id or for their build.
func TestDeadMembersDoNotKeepAClusterFromBeginningAgain(t *testing.T) {
	e := newEnv(t)
	var dead []member.Session
	for range 2 {
		n := e.Node()
		s, err := n.Join(member.Candidate{Node: member.AnyNode, Build: "old"}, quiet{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Leave(); err != nil {
				t.Error(err)
			}
		}()
		n.Cut()
		dead = append(dead, s)
	}
	r := e.Node()
	c := member.Candidate{Node: int(dead[0].Self().Node), Build: "new"}
	if _, err := r.Join(c, quiet{}); !errors.Is(err, member.ErrTaken) {
		t.Errorf("while the lease lasts: %v", err)
	}
	var s member.Session
	if !e.Await(func() bool {
		var err error
		s, err = r.Join(c, quiet{})
		if err != nil && !errors.Is(err, member.ErrTaken) && !errors.Is(err, member.ErrBuild) {
			t.Fatal(err)
		}
		return err == nil
	}) {
		t.Fatal("refused for ever")
	}
	st := s.State()
	// No survivor has a queue pair to anybody: there is nothing to wait for.
	if v := st.Active; st.Pending != nil || len(v.Members) != 1 || !v.Has(s.Self()) {
		t.Errorf("it is alone, and the state is %+v", st)
	}
	if err := s.Leave(); err != nil {
		t.Error(err)
	}
}

// TestOldNewsRemoveNobodyWhoHasJoinedSince: who lives is judged with the state of the same moment.
func TestOldNewsRemoveNobodyWhoHasJoinedSince(t *testing.T) {
	e := newEnv(t)
	r := open(t, e.server.URLs(), testLease)
	join := func() *session {
		s, err := r.Join(member.Candidate{Node: member.AnyNode, Build: "b"}, quiet{})
		if err != nil {
			t.Fatal(err)
		}
		return s.(*session)
	}
	first := join()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	old, err := r.load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second := join()
	if !e.Await(func() bool { st := first.State(); return st.Active.Has(second.Self()) }) {
		t.Fatal("the first one does not see the second one")
	}
	first.see(old)
	now, err := r.load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !now.state.Newest().Has(second.Self()) {
		t.Errorf("%v is removed though it lives", second.Self())
	}
	for _, s := range []*session{second, first} {
		if err := s.Leave(); err != nil {
			t.Error(err)
		}
	}
}

// TestLeasesSurviveThreadsThatNeverPause: worker threads poll without end, and GOMAXPROCS is their
// number plus two (design decision 4).
func TestLeasesSurviveThreadsThatNeverPause(t *testing.T) {
	lease := 3 * time.Second
	e := newEnv(t)
	r := open(t, e.server.URLs(), lease)
	threads := runtime.NumCPU()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads + 2))
	var stop atomic.Bool
	var wg sync.WaitGroup
	var turns atomic.Uint64
	for range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			n := uint64(0)
			for !stop.Load() {
				n++
			}
			turns.Add(n)
		})
	}
	w := &losses{}
	s, err := r.Join(member.Candidate{Node: member.AnyNode, Build: "b"}, w)
	if err == nil {
		e.Pass(2*lease + lease/2)
		if _, held := s.Lease(); !held || w.n.Load() > 0 {
			t.Errorf("the lease is lost: held %v, told %d times", held, w.n.Load())
		}
	}
	stop.Store(true)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if turns.Load() == 0 {
		t.Error("the threads did not run")
	}
	if err := s.Leave(); err != nil {
		t.Error(err)
	}
}

// losses counts them.
type losses struct {
	quiet
	n atomic.Int32
}

func (l *losses) LeaseLost(error) { l.n.Add(1) }
