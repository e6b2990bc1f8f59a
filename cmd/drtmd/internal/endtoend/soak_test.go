package endtoend

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member/etcdmember"
)

// The environment of a soak: how long it disturbs the cluster, such as 10m, and the seed of what it
// does when.
const (
	soakTime = "DRTMD_SOAK_TIME"
	soakSeed = "DRTMD_SOAK_SEED"
)

const (
	soakNodes = 3
	// shortSoak is how long the soak of the normal tests disturbs: some rounds.
	shortSoak = 10 * time.Second
	// leastRounds have some planes each: a leak of one for each is far more than the slack.
	leastRounds = 4
	// soakLease leaves room for other tests at the same time, longSoakLease for a whole soak.
	soakLease     = 3 * time.Second
	longSoakLease = 5 * time.Second
	// untilStopped is the length of runs that a disturbance ends.
	untilStopped = "1h"
)

// disturbance is what a round of the soak does to the cluster.
type disturbance int

const (
	undisturbed disturbance = iota + 1
	memberKilled
	memberStopped // for longer than its lease
	memberDrained
	clientKilled
	clientInterrupted
	coordinatorKilled
	registryRestarted
	disturbances      = int(registryRestarted)
	shortDisturbances = disturbances - 1 // how a run without etcd ends takes half a minute
)

func (d disturbance) String() string {
	return [...]string{"", "undisturbed", "a member is killed", "a member is stopped",
		"a member drains", "the client is killed", "the client is interrupted",
		"the coordinator is killed", "etcd is away"}[d]
}

// soak is a cluster of daemons with an etcd of the test's, disturbed again and again.
type soak struct {
	*lab
	rng      *rand.Rand
	survivor *node // is never killed, and must not grow
	registry *etcdmember.Server
	config   etcdmember.ServerConfig
	deck     []disturbance // to come
	kinds    int           // of disturbances
	rounds   int
	proofs   int
}

// TestSoakOfDaemons disturbs a cluster of three daemons round by round: runs under two protocols,
// while members are killed, stopped for longer than their lease, drained, clients or coordinators
// killed, and (in long soaks) etcd taken away, in an order drawn from the seed; killed members come
// back, half of the time at another address. After each round all three are ready again and no run
// is left, each within a bound, and one more run is proved strictly serializable, as every complete
// checked run must be. One node, drawn as well, is never killed: uses says what it must not have
// more of in the end.
func TestSoakOfDaemons(t *testing.T) {
	t.Parallel()
	long, seed := shortSoak, rand.Uint64N(1<<32)
	if text := os.Getenv(soakTime); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil || long <= 0 {
			t.Fatalf("%s=%q: expected a time such as 10m", soakTime, text)
		}
	}
	if text := os.Getenv(soakSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s=%q: expected a number", soakSeed, text)
		}
	}
	t.Logf("the same again: %s=%v %s=%d", soakTime, long, soakSeed, seed)
	// What is made once and kept is made in the warm-up: a soak with time for it meets every
	// disturbance there.
	kinds, warmup, lease := shortDisturbances, 2, soakLease
	if long >= 5*time.Minute {
		kinds, warmup, lease = disturbances, disturbances, longSoakLease
	}
	s := newSoak(t, seed, kinds, lease)
	for range warmup {
		s.round()
	}
	first := s.rest()
	t.Logf("after %d rounds %s at rest has %v", s.rounds, s.survivor.name, first)
	series, begin, told := []uses{first}, time.Now(), time.Now()
	for time.Since(begin) < long || len(series) <= leastRounds {
		s.round()
		series = append(series, s.look())
		if time.Since(told) >= time.Minute {
			told = time.Now()
			t.Logf("%v of %v: %d rounds, %d runs proved, %s has %v", time.Since(begin).Round(time.Second),
				long, s.rounds, s.proofs, s.survivor.name, series[len(series)-1])
		}
	}
	s.noLeak(first, series)
	for _, n := range s.nodes {
		n.drains()
	}
	if left := s.files(); left != 0 {
		t.Errorf("%d files are left in the run and temporary folders", left)
	}
}

func newSoak(t *testing.T, seed uint64, kinds int, lease time.Duration) *soak {
	t.Helper()
	s := &soak{lab: newLab(t, "--cluster-lease", lease.String()), kinds: kinds,
		rng: rand.New(rand.NewPCG(seed, 0))}
	temp := filepath.Join(s.dir, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"TMPDIR=" + temp}
	s.config = etcdmember.ServerConfig{Dir: filepath.Join(s.dir, "registry"), Listen: "127.0.0.1:0"}
	s.startRegistry()
	t.Cleanup(s.stopRegistry)
	s.args = append(s.args, "--cluster-etcd", s.registry.URLs()[0])
	for i := range soakNodes {
		s.start(fmt.Sprintf("n%d", i)).await()
	}
	s.survivor = s.nodes[s.rng.IntN(soakNodes)]
	s.settled()
	return s
}

func (s *soak) startRegistry() {
	s.t.Helper()
	var err error
	if s.registry, err = etcdmember.Start(context.Background(), s.config); err != nil {
		s.t.Fatal(err)
	}
}

func (s *soak) stopRegistry() {
	if err := s.registry.Close(); err != nil {
		s.t.Error(err)
	}
}

// round disturbs the cluster once and has it come back. Every disturbance comes once in as many
// rounds as there are of them.
func (s *soak) round() {
	s.t.Helper()
	if len(s.deck) == 0 {
		for _, i := range s.rng.Perm(s.kinds) {
			s.deck = append(s.deck, disturbance(i+1))
		}
	}
	d := s.deck[0]
	s.deck, s.rounds = s.deck[1:], s.rounds+1
	asked := s.nodes[s.rng.IntN(soakNodes)]
	if d == coordinatorKilled {
		asked = s.other(s.survivor)
	}
	begin := time.Now()
	if d == undisturbed {
		s.checked(asked)
	} else {
		s.disturb(d, asked)
	}
	s.settled()
	s.checked(s.nodes[s.rng.IntN(soakNodes)])
	s.settled()
	s.t.Logf("round %d, %s, asked %s: %.1f s", s.rounds, d, asked.name, time.Since(begin).Seconds())
}

// other is a node that may be killed, and is none of those given.
func (s *soak) other(not ...*node) *node {
	for {
		n := s.nodes[s.rng.IntN(soakNodes)]
		if n != s.survivor && (len(not) == 0 || n != not[0]) {
			return n
		}
	}
}

// flags of the next run.
func (s *soak) flags() []string {
	return []string{"--check", "--protocol", [...]string{"drtm", "twopl"}[s.rng.IntN(2)], "--seed",
		strconv.Itoa(1 + s.rng.IntN(1<<20))}
}

// checked has a complete run proved.
func (s *soak) checked(asked *node) {
	s.t.Helper()
	out, errs, code := s.bench(asked, append(s.flags(), "--duration", "300ms")...)
	if code != 0 || !strings.Contains(out, "\nstrictly serializable: yes (") ||
		!strings.Contains(out, "\nsums conserved: yes\n") {
		s.t.Fatalf("round %d: exit code %d\n%s\n%s", s.rounds, code, out, errs)
	}
	s.proofs++
}

// disturb does it in a run, whose end it awaits.
func (s *soak) disturb(d disturbance, asked *node) {
	s.t.Helper()
	b := s.benching(asked, append(s.flags(), "--duration", untilStopped)...)
	end := func(code int) {
		s.t.Helper()
		if out, errs := b.ends(code); strings.Contains(out, "\nstrictly serializable: no") {
			s.t.Fatalf("round %d: %s\n%s", s.rounds, out, errs)
		}
	}
	interrupt := func() {
		s.t.Helper()
		if err := b.cmd.Process.Signal(syscall.SIGINT); err != nil {
			s.t.Fatal(err)
		}
		end(130)
	}
	switch d {
	case memberKilled:
		victim := s.other(asked)
		victim.kill()
		back := s.rng.IntN(2) == 0
		if back { // it waits for the end of the run
			s.moved(victim).launch()
		}
		b.says("running on: ")
		interrupt()
		if !back {
			s.moved(victim).launch()
		}
		victim.await()
	case memberStopped:
		sleeper := s.nodes[s.rng.IntN(soakNodes)]
		for sleeper == asked {
			sleeper = s.nodes[s.rng.IntN(soakNodes)]
		}
		was := s.self(sleeper).Member
		sleeper.signal(syscall.SIGSTOP)
		until(s.t, "the stopped node is removed", func() bool {
			st := s.status(asked)
			return st != nil && !st.State.Active.Has(was) && st.State.Pending == nil
		})
		sleeper.signal(syscall.SIGCONT)
		interrupt()
	case memberDrained:
		leaver := s.other(asked)
		leaver.drains()
		end(1)
		s.moved(leaver).restart()
	case clientKilled:
		if err := b.cmd.Process.Kill(); err != nil {
			s.t.Fatal(err)
		}
		<-b.ended
	case clientInterrupted:
		interrupt()
	case coordinatorKilled:
		asked.kill()
		end(1)
		s.moved(asked).restart()
	case registryRestarted:
		s.stopRegistry()
		until(s.t, "all nodes refuse", func() bool {
			for _, n := range s.nodes {
				if self := s.self(n); self == nil || self.Phase != status.Refusing {
					return false
				}
			}
			return true
		})
		end(1)
		s.config.Listen = strings.TrimPrefix(s.registry.URLs()[0], "http://")
		s.startRegistry()
	}
}

// moved gives a node that starts again another address, half of the time.
func (s *soak) moved(n *node) *node {
	s.t.Helper()
	if s.rng.IntN(2) == 0 {
		n.args = append(n.args, "--control-listen", freePort(s.t))
	}
	return n
}

// settled waits until all nodes are ready and no run is left, as each of them sees it.
func (s *soak) settled() {
	s.t.Helper()
	for _, n := range s.nodes {
		until(s.t, n.name+" sees all nodes ready and no run", func() bool {
			st := s.status(n)
			if st == nil || st.State.Shards.Run != "" || st.State.Pending != nil ||
				len(st.State.Active.Members) != soakNodes || count(st, status.Ready) != soakNodes {
				return false
			}
			for _, x := range st.Nodes {
				if x.Load != nil || x.Plane == nil || x.Plane.Version != st.State.Shards.Version ||
					x.QPs.InError != 0 {
					return false
				}
			}
			return true
		})
		select {
		case <-n.ended:
			s.t.Fatalf("%s has ended: %v", n.name, cmp.Or(n.exit, context.Canceled))
		default:
		}
	}
}
