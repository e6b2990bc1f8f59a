package scenario

import (
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

const (
	mutationBlindRetry = "blind-retry"
	mutationLostUpdate = "write-back"
)

// counterStorm has every node add to a counter in the memory of every other one.
func counterStorm() *Scenario {
	return &Scenario{Name: "storm", Nodes: 3, MinNodes: 2, MaxNodes: 64,
		Doc:   "every node adds to a counter on every other, by FAA and by READ and CAS",
		Until: 4 * sim.Millisecond, EventLimit: 20e6,
		Mutations: []Mutation{
			{Name: mutationBlindRetry,
				Doc: "an addition that failed is made again, as if it never happened"},
			{Name: mutationLostUpdate, Doc: "the value is read, and written back plus one without a CAS"}},
		Draw: draw(12, []weight{
			{sim.CrashNode, 2}, {sim.BreakQPs, 2}, {sim.CutLink, 3}, {sim.Partition, 1},
			{sim.DelayRC, 3}, {sim.SlowNIC, 1}, {sim.PauseNode, 1}, {sim.PauseWorker, 1},
			{sim.FailAllocs, 1}, {sim.DriftClock, 1}, {sim.StepClock, 1},
		}),
		Build: buildStorm}
}

// storm is what the checks know. A counter is exactly as high as the additions that reported
// success, or higher by at most those of unknown outcome, each once.
type storm struct {
	e        *Env
	machines []*Machine
	counters []*verbs.MR // one word on each machine
	flows    []*flow
	done     []uint64 // additions to a machine's counter that reported success
	unknown  []uint64 // ... that failed, or whose machine crashed meanwhile
}

// flow is what one machine does to another's counter, one operation at a time.
type flow struct {
	*storm
	from, to int
	adding   bool   // an addition is in flight
	least    uint64 // the counter was seen this high
}

func buildStorm(e *Env) error {
	s := &storm{e: e, counters: make([]*verbs.MR, e.Nodes), done: make([]uint64, e.Nodes),
		unknown: make([]uint64, e.Nodes)}
	for i := range e.Nodes {
		m, err := e.AddMachine(MachineConfig{Conns: e.Nodes - 1, Depth: 8,
			Boot: func(m *Machine) error { return s.boot(m, i) }})
		if err != nil {
			return err
		}
		s.machines = append(s.machines, m)
	}
	e.AtEnd(s.check)
	return nil
}

// boot starts the flows of a machine. An operation that was in flight when it crashed has an
// unknown outcome.
func (s *storm) boot(m *Machine, i int) (err error) {
	if s.counters[i], err = m.Kept("counter", 8); err != nil {
		return err
	}
	buffer, err := m.Memory(8 * s.e.Nodes)
	if err != nil {
		return err
	}
	for j := range s.e.Nodes {
		if j == i {
			continue
		}
		f := s.flow(i, j)
		f.lost()
		m.Go(0, "flow", func(fb *fiber.Fiber) error {
			return f.run(fb, m.NewLink(0, s.machines[j]), buffer)
		})
	}
	return nil
}

func (s *storm) flow(from, to int) *flow {
	for _, f := range s.flows {
		if f.from == from && f.to == to {
			return f
		}
	}
	f := &flow{storm: s, from: from, to: to}
	s.flows = append(s.flows, f)
	return f
}

// lost notes that nobody knows whether the addition in flight happened.
func (f *flow) lost() {
	if f.adding {
		f.unknown[f.to]++
		f.adding = false
	}
}

func (f *flow) run(fb *fiber.Fiber, link *Link, buffer *verbs.MR) error {
	for n := 0; !f.e.Over(); n++ {
		c, err := link.Conn(fb)
		if err != nil {
			return err
		}
		if n%2 == 0 {
			err = f.fetchAndAdd(fb, c)
		} else {
			err = f.readAndSwap(fb, c, buffer)
		}
		if err == nil {
			continue
		}
		if f.e.Mutated(mutationBlindRetry) {
			f.adding = false // the bug: the failed addition is taken for absent
		}
		f.lost()
	}
	return nil
}

func (f *flow) fetchAndAdd(fb *fiber.Fiber, c *fiber.Conn) error {
	r := f.counters[f.to].Remote()
	f.adding = true
	old, err := c.FAA(fb, r.Addr, r.RKey, 1)
	if err == nil {
		f.succeeded(old)
	}
	return err
}

// readAndSwap adds one with a READ and a CAS of the value read; the CAS may lose to others.
func (f *flow) readAndSwap(fb *fiber.Fiber, c *fiber.Conn, buffer *verbs.MR) error {
	r := f.counters[f.to].Remote()
	if err := c.Read(fb, buffer.SGE(8*f.to, 8), r.Addr, r.RKey); err != nil {
		return err
	}
	seen := word(buffer, 8*f.to)
	f.saw(seen)
	f.adding = true
	if f.e.Mutated(mutationLostUpdate) {
		setWord(buffer, 8*f.to, seen+1)
		err := c.Write(fb, buffer.SGE(8*f.to, 8), r.Addr, r.RKey)
		if err == nil {
			f.succeeded(seen)
		}
		return err
	}
	old, err := c.CAS(fb, r.Addr, r.RKey, seen, seen+1)
	if err != nil {
		return err
	}
	if old != seen {
		f.saw(old)
		f.adding = false // lost to another: nothing was added
		return nil
	}
	f.succeeded(old)
	return nil
}

func (f *flow) succeeded(old uint64) {
	f.adding = false
	f.done[f.to]++
	f.saw(old)
	f.least = old + 1
}

// saw checks that a counter never goes back.
func (f *flow) saw(v uint64) {
	if v < f.least {
		f.e.Fail("monotonic", "n%d saw the counter of n%d at %d, after %d", f.from, f.to, v, f.least)
	}
	f.least = max(f.least, v)
}

func (s *storm) check() {
	total, unknown := uint64(0), uint64(0)
	for _, f := range s.flows {
		f.lost()
	}
	for i, m := range s.machines {
		total += s.done[i]
		unknown += s.unknown[i]
		if !m.Node.Up() {
			continue
		}
		if v := word(s.counters[i], 0); v < s.done[i] || v > s.done[i]+s.unknown[i] {
			s.e.Fail("sum", "the counter of n%d is %d: %d additions reported success, %d are "+
				"unknown", i, v, s.done[i], s.unknown[i])
		}
	}
	s.e.Count("additions", total)
	s.e.Count("unknown outcomes", unknown)
}
