package scenario

import (
	"encoding/binary"
	"errors"
	"time"

	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Shape of the scenario of clocks that follow another one. A fault of a clock is much more than the
// errors of its samples: a smaller one cannot be told from them.
const (
	clockSpan   = 10 * sim.Millisecond
	clockEvery  = 100 * time.Microsecond // between two samples
	clockTrip   = 20 * time.Microsecond  // of a sample at most, one way
	clockFault  = 150 * time.Microsecond // a clock stands still or jumps by so much at least
	clockLength = 150 * time.Microsecond // of a lease
	// clockDrift, of each clock, leaves that between two within node.DriftPPM.
	clockDrift = 450_000
	// holderShift is where the word of the lease has its holder, above the microseconds.
	holderShift = 56
)

// Mutations of the scenario, and whose they are.
const (
	clockFamily     = "clock"
	mutationDrop    = "no-contradiction"
	mutationInDoubt = "no-doubt"
)

// followedClocks has clients take turns at a lease that ends at a time, by clocks that follow the
// first node's.
func followedClocks() *scenario.Scenario {
	return &scenario.Scenario{Name: "followed-clocks", Nodes: 4, MinNodes: 3, MaxNodes: 16,
		Doc: "clients take a lease that ends at a time, by clocks that follow node n0's; some stand " +
			"still or jump",
		Until: clockSpan, EventLimit: eventLimit, Draw: drawClockFaults, Build: buildClocks,
		Mutations: []scenario.Mutation{
			{Name: mutationDrop, Of: clockFamily,
				Doc: "samples that contradict a clock are dropped, and it goes on"},
			{Name: mutationInDoubt, Of: clockFamily,
				Doc: "the error of a clock is taken for 0"}}}
}

// drawClockFaults has every clock drift, and most of them stand still or jump, the leader's as well.
func drawClockFaults(d *scenario.Drawing) sim.Schedule {
	var s sim.Schedule
	for i, n := range d.Nodes {
		s = append(s, sim.Fault{Kind: sim.DriftClock, At: sim.Microsecond, Node: n,
			Drift: d.Rand.Int64N(2*clockDrift+1) - clockDrift})
		// Two faults must not cancel each other out between two samples: those of a clock have one
		// direction, and the leader's come before all others.
		faults, from, within := d.Rand.IntN(3), clockSpan*2/5, clockSpan*2/5
		if i == 0 {
			faults, from, within = faults/2, clockSpan/5, clockSpan/10
		}
		back := d.Rand.IntN(2) == 0
		for range faults {
			shift := clockFault + time.Duration(d.Rand.Int64N(int64(time.Millisecond)))
			if back {
				shift = -shift
			}
			at := from + sim.Time(d.Rand.Int64N(int64(within)))
			s = append(s, sim.Fault{Kind: sim.StepClock, At: at, Node: n, Shift: shift})
		}
	}
	return s
}

// clocks is what the check knows.
type clocks struct {
	e                  *scenario.Env
	leader             *scenario.Machine
	memory             *verbs.MR // of the leader: the lease's word
	clients            []*follower
	grants, uses, anew uint64
}

// follower is a client.
type follower struct {
	*clocks
	m       *scenario.Machine
	clock   *node.SyncedClock // nil: not known
	life    int               // of clock
	samples []node.ClockSample
	until   time.Duration // end of the lease that it holds; 0: none
	// apart is how far the two clocks were from each other when the last sample was asked for.
	apart time.Duration
}

func buildClocks(e *scenario.Env) (err error) {
	c := &clocks{e: e}
	c.leader, err = e.AddMachine(scenario.MachineConfig{Boot: func(m *scenario.Machine) (err error) {
		c.memory, err = m.Kept("lease", 8)
		return err
	}})
	if err != nil {
		return err
	}
	for range e.Nodes - 1 {
		x := &follower{clocks: c}
		c.clients = append(c.clients, x)
		_, err := e.AddMachine(scenario.MachineConfig{Conns: 1, Depth: 4, Boot: x.boot})
		if err != nil {
			return err
		}
	}
	e.AtEnd(func() {
		if c.grants == 0 {
			e.Fail("progress", "the lease was never granted")
		}
		e.Count("grants", c.grants)
		e.Count("uses", c.uses)
		e.Count("clocks begun anew", c.anew)
	})
	return nil
}

func (x *follower) boot(m *scenario.Machine) error {
	x.m, x.clock, x.until = m, nil, 0
	buffer, err := m.Memory(8)
	if err != nil {
		return err
	}
	m.Go(0, "sampler", func(f *fiber.Fiber) error {
		for !x.e.Over() {
			if err := errors.Join(x.ask(f), f.Sleep(clockEvery)); err != nil {
				return err
			}
		}
		return nil
	})
	m.Go(0, "holder", func(f *fiber.Fiber) error {
		link := m.NewLink(0, x.leader)
		for !x.e.Over() {
			conn, err := link.Conn(f)
			if err == nil {
				err = x.take(f, conn, buffer)
			}
			if err == nil {
				err = x.use(f)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// trip is how long a question or an answer is under way.
func (x *follower) trip() time.Duration {
	return time.Duration(1 + x.e.World.Rand("trip").Int64N(int64(clockTrip)))
}

// distance is that of the two clocks, which only a simulator knows.
func (x *follower) distance() time.Duration {
	return x.m.Node.ClockError() - x.leader.Node.ClockError()
}

// ask takes a sample. A clock that it contradicts is no clock any more: what is held by it is given
// up, and the next sample begins another one.
func (x *follower) ask(f *fiber.Fiber) error {
	own, apart := x.m.Node.Clock(), x.distance()
	s := node.ClockSample{Sent: own.Now()}
	if err := f.Sleep(x.trip()); err != nil {
		return err
	}
	s.Remote = x.leader.Node.Clock().Now()
	if err := f.Sleep(x.trip()); err != nil {
		return err
	}
	s.Received = own.Now()
	defer func() { x.apart = apart; x.check() }()
	if x.clock != nil && x.e.Mutated(mutationDrop) {
		if _, err := node.NewSyncedClock(own, 0, append(x.samples, s), clockEvery); err != nil {
			return nil
		}
	}
	if x.clock != nil && x.clock.Add(s) == nil {
		x.samples = append(x.samples, s)
		return nil
	}
	if x.clock != nil {
		x.anew++
	}
	x.clock, x.until, x.samples = nil, 0, nil
	x.life++
	if c, err := node.NewSyncedClock(own, 0, []node.ClockSample{s}, clockEvery); err == nil {
		x.clock, x.samples = c, []node.ClockSample{s}
	}
	return nil
}

// reading is the clock's, which is there.
func (x *follower) reading() (now, err time.Duration) {
	now, err = x.clock.Reading()
	if x.e.Mutated(mutationInDoubt) {
		err = 0
	}
	return now, err
}

// take looks at the lease, and takes it if it has expired. One that is granted by a clock that is
// gone by then is not used.
func (x *follower) take(f *fiber.Fiber, conn *fiber.Conn, buffer *verbs.MR) error {
	wait := time.Duration(1+x.e.World.Rand("wait").Int64N(30)) * time.Microsecond
	r := x.memory.Remote()
	if err := conn.Read(f, buffer.SGE(0, 8), r.Addr, r.RKey); err != nil {
		return err
	}
	if x.clock == nil {
		return f.Sleep(wait)
	}
	seen, life := binary.NativeEndian.Uint64(buffer.Bytes()), x.life
	now, doubt := x.reading()
	end := time.Duration(seen&(1<<holderShift-1)) * time.Microsecond
	if seen != 0 && !drtm.Expired(end, now, doubt) {
		return f.Sleep(wait)
	}
	us := uint64((now + clockLength) / time.Microsecond)
	old, err := conn.CAS(f, r.Addr, r.RKey, seen, uint64(x.m.Index()+1)<<holderShift|us)
	if err == nil && old == seen && life == x.life {
		x.until = time.Duration(us) * time.Microsecond
		x.grants++
		x.check()
	}
	return err
}

// use uses the lease while it is valid.
func (x *follower) use(f *fiber.Fiber) error {
	for x.until > 0 && !x.e.Over() {
		if !x.holds() {
			x.until = 0
			break
		}
		x.uses++
		x.check()
		wait := time.Duration(1+x.e.World.Rand("use").Int64N(20)) * time.Microsecond
		if err := f.Sleep(wait); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether the client sees its lease valid.
func (x *follower) holds() bool {
	if x.until == 0 || x.clock == nil {
		return false
	}
	now, doubt := x.reading()
	return drtm.Valid(x.until, now, doubt)
}

// told reports whether the client could know of every fault of its clock and the leader's: a sample
// has come that was asked for after the last one.
func (x *follower) told() bool { return (x.distance() - x.apart).Abs() < clockTrip }

// check finds two clients that see their lease valid now, and could know better.
func (c *clocks) check() {
	var held []*follower
	for _, x := range c.clients {
		if x.m != nil && x.m.Up() && x.told() && x.holds() {
			held = append(held, x)
		}
	}
	if len(held) > 1 {
		a, b := held[0], held[1]
		c.e.Fail("one-holder", "%s until %v and %s until %v: both see their lease valid; their clocks are "+
			"%v and %v from the leader's", a.m.Node.Name(), a.until, b.m.Node.Name(), b.until,
			a.distance(), b.distance())
	}
}
