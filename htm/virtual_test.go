package htm_test

import (
	"fmt"
	"testing"

	"drtmd/htm"
	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lineword"
	"drtmd/verbs/sim"
)

// story is a simulated host with two cores, each with a worker whose regions move amounts between
// few lines, and an initiator that adds to a counter which the regions raise too.
type story struct {
	t       *testing.T
	world   *sim.World
	host    *sim.Node
	mr      *verbs.MR
	cores   []*fiber.Core
	regions []*htm.Region
	moved   int
	added   int
}

const (
	storyLines   = 4 // of amounts; a counter on the next line
	storyMoves   = 30
	storyAdds    = 60
	storyCharge  = 200_000 // ps at each step and between two accesses
	counterAt    = storyLines * lineBytes
	remoteAmount = 1 << 32
)

func newStory(t *testing.T, seed uint64) *story {
	t.Helper()
	raceskip.Simulated(t)
	s := &story{t: t}
	var err error
	s.world, err = sim.New(sim.Config{Seed: seed, EventLimit: 2_000_000})
	must(t, err)
	s.host, err = s.world.AddNode(sim.NodeConfig{Name: "host"})
	must(t, err)
	pd := s.openHost()
	for i := range 2 {
		s.addMover(pd, i)
	}
	s.addInitiator(pd)
	s.host.OnCrash(func() {
		for _, c := range s.cores[:2] {
			c.Kill()
		}
	})
	t.Cleanup(func() {
		for _, c := range s.cores {
			must(t, c.Close())
		}
	})
	return s
}

func (s *story) openHost() *verbs.PD {
	s.t.Helper()
	c, err := s.host.Open()
	must(s.t, err)
	pd, err := c.AllocPD()
	must(s.t, err)
	s.mr, err = pd.AllocMR(mrBytes, verbs.AccessAll, verbs.MROptions{Keep: "story", LineOwners: 2})
	must(s.t, err)
	return pd
}

func (s *story) addMover(pd *verbs.PD, i int) {
	s.t.Helper()
	core := fiber.NewCore(s.host.Timeline(i))
	w, err := core.NewWorker(fiber.WorkerConfig{Name: fmt.Sprint("mover ", i), PD: pd, Conns: 1})
	must(s.t, err)
	m, err := claim(s.mr)
	must(s.t, err)
	var running *fiber.Fiber
	r := htm.NewRegion(htm.Config{Flag: w.RegionFlag(), Spins: -1, Step: func(name string) {
		running.Step(name)
		running.Charge(storyCharge)
	}})
	rng := s.world.Rand(fmt.Sprint("mover ", i))
	w.Submit("mover", func(f *fiber.Fiber) error {
		running = f
		for n := 0; n < storyMoves; {
			r.Begin()
			for _, k := range [2]int{rng.IntN(storyLines), rng.IntN(storyLines)} {
				v, _ := r.Load64(m, k*lineBytes)
				f.Charge(storyCharge)
				r.Store64(m, k*lineBytes, v+1)
			}
			v, _ := r.Load64(m, counterAt)
			r.Store64(m, counterAt, v+2)
			if r.Commit(nil) {
				n++
				s.moved++
			}
			if err := f.Sleep(1000); err != nil {
				return err
			}
		}
		return nil
	}, func(err error) {
		if err != nil {
			s.t.Error(err)
		}
	})
	s.cores, s.regions = append(s.cores, core), append(s.regions, r)
}

// addInitiator makes a node whose fiber adds to the counter by FAA. It ends when the host crashes.
func (s *story) addInitiator(hostPD *verbs.PD) {
	s.t.Helper()
	n, err := s.world.AddNode(sim.NodeConfig{Name: "initiator"})
	must(s.t, err)
	c, err := n.Open()
	must(s.t, err)
	pd, err := c.AllocPD()
	must(s.t, err)
	core := fiber.NewCore(n.Timeline(0))
	w, err := core.NewWorker(fiber.WorkerConfig{Name: "initiator", PD: pd, Conns: 1})
	must(s.t, err)
	conn, err := w.NewConn(verbs.AccessAll)
	must(s.t, err)
	cq, err := hostPD.Context().CreateCQ(verbs.CQConfig{Depth: 4})
	must(s.t, err)
	qp, err := hostPD.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SendDepth: 1,
		RecvDepth: 1, Access: verbs.AccessAll})
	must(s.t, err)
	here, there := conn.Endpoint(), qp.Endpoint()
	must(s.t, qp.Connect(&here, verbs.ConnectAttr{}))
	must(s.t, conn.Connect(there, verbs.ConnectAttr{}))
	remote := s.mr.Remote()
	w.Submit("initiator", func(f *fiber.Fiber) error {
		for range storyAdds {
			if _, err := conn.FAA(f, remote.Addr+counterAt, remote.RKey, remoteAmount); err != nil {
				return nil // the host has crashed
			}
			s.added++
		}
		return nil
	}, nil)
	s.cores = append(s.cores, core)
}

// words reads the amounts and the counter of memory that nobody works on.
func (s *story) words() (sum, counter uint64) {
	s.t.Helper()
	m, err := claim(s.mr)
	must(s.t, err)
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	for i := range storyLines {
		v, _ := r.Load64(m, i*lineBytes)
		sum += v
	}
	counter, _ = r.Load64(m, counterAt)
	if !r.Commit(nil) {
		s.t.Error("the memory cannot be read")
	}
	return sum, counter
}

// TestVirtualTimePassesInsideRegionsAndCommits has other cores and NICs work between the accesses
// of regions and between the steps of their commits: conflicts are found, and nothing is lost.
func TestVirtualTimePassesInsideRegionsAndCommits(t *testing.T) {
	var hashes [2]uint64
	for run := range hashes {
		s := newStory(t, 1)
		must(t, s.world.Run())
		conflicts := s.regions[0].Stats.Aborts[htm.Conflict] + s.regions[1].Stats.Aborts[htm.Conflict]
		if conflicts < 10 || s.moved != 2*storyMoves || s.added != storyAdds {
			t.Errorf("%d conflicts, %d moves, %d adds", conflicts, s.moved, s.added)
		}
		must(t, s.mr.Close())
		s.openHost()
		want := uint64(2*s.moved + s.added*remoteAmount)
		if sum, counter := s.words(); sum != uint64(2*s.moved) || counter != want {
			t.Errorf("sum %d, counter %#x; want %d, %#x", sum, counter, 2*s.moved, want)
		}
		hashes[run] = s.world.Hash()
	}
	if hashes[0] != hashes[1] {
		t.Errorf("two runs of one seed: %x and %x", hashes[0], hashes[1])
	}
}

// TestCrashAtEveryStepIsAllOrNothing crashes the host, whose memory survives, at occurrences of
// every step: after the restart each move has happened wholly or not at all.
func TestCrashAtEveryStepIsAllOrNothing(t *testing.T) {
	plain := newStory(t, 1)
	must(t, plain.world.Run())
	struck := 0
	for _, step := range plain.world.Steps() {
		for k := 1; k <= step.Count; k += max(1, step.Count/10) {
			s := newStory(t, 1)
			must(t, s.world.Install(sim.Schedule{{Step: step.Name, Count: k, Kind: sim.CrashNode,
				Kept: true}}))
			must(t, s.world.Run())
			s.host.Restart()
			s.openHost()
			for i, w := range s.mr.Lines() {
				if lineword.Word(w).Locked() {
					t.Fatalf("%s %d: line %d is at %s", step.Name, k, i, lineword.Word(w))
				}
			}
			sum, counter := s.words()
			if counter%remoteAmount != sum || sum%2 != 0 || sum < uint64(2*s.moved) ||
				sum > uint64(2*s.moved+4) {
				t.Fatalf("%s %d: sum %d, counter %#x after %d moves", step.Name, k, sum, counter,
					s.moved)
			}
			struck++
		}
	}
	if struck < 30 {
		t.Errorf("only %d crashes", struck)
	}
}
