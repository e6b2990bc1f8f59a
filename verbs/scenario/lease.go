package scenario

import (
	"fmt"
	"strings"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// Leases are written in microseconds (design: at most 55 bits of them).
const (
	// leaseDelta bounds the error of one node's clock, which is what the margins assume.
	leaseDelta  = 20 * time.Microsecond
	leaseLength = 150 * time.Microsecond
	leaseShift  = 56 // of the holder, 1 + its index, in the word
)

const (
	mutationNoDelta     = "no-delta"
	mutationBeyondDelta = "beyond-delta"
)

// leaseClock has nodes take turns at a lease whose end is a time, with clocks that differ.
func leaseClock() *Scenario {
	const span = 10 * sim.Millisecond
	weights := draw(6, []weight{
		{sim.CrashNode, 1}, {sim.BreakQPs, 1}, {sim.CutLink, 1}, {sim.DelayRC, 3},
		{sim.PauseNode, 3}, {sim.PauseWorker, 1}, {sim.SlowNIC, 1},
	})
	return &Scenario{Name: "lease-clock", Nodes: 4, MinNodes: 3, MaxNodes: 16,
		Doc:   "clients take a lease on node n0 that ends at a time; their clocks err by DELTA",
		Until: span, EventLimit: 20e6,
		Mutations: []Mutation{
			{Name: mutationNoDelta, Doc: "the lease is used to its end and taken at its end, without DELTA"},
			{Name: mutationBeyondDelta,
				Doc: "clocks err by up to three times DELTA: not a bug of the code"}},
		Draw: func(d *Drawing) sim.Schedule {
			return append(drawClocks(d, span), weights(d)...)
		},
		Build: buildLease}
}

// drawClocks gives each clock a step and a drift whose sum stays within the bound until the run
// is over. Whatever is left out of them, the rest does too: a schedule can be shrunk.
func drawClocks(d *Drawing, until sim.Time) sim.Schedule {
	bound := int64(leaseDelta)
	if d.Mutation == mutationBeyondDelta {
		bound *= 3
	}
	// Programs that are late end within this time; nothing is granted after it.
	seconds := float64(2*until) / float64(sim.Second)
	var s sim.Schedule
	for _, n := range d.Nodes[1:] {
		step := bound
		if d.Rand.IntN(2) == 0 {
			step = d.Rand.Int64N(bound + 1)
		}
		drift := int64(float64(bound-step) / seconds)
		if d.Rand.IntN(2) == 0 {
			step = -step
		}
		if d.Rand.IntN(2) == 0 {
			drift = -drift
		}
		at := sim.Time(d.Rand.Int64N(int64(until / 2)))
		s = append(s, sim.Fault{Kind: sim.StepClock, At: at, Node: n, Shift: time.Duration(step)})
		if drift != 0 {
			s = append(s, sim.Fault{Kind: sim.DriftClock, At: at, Node: n, Drift: drift})
		}
	}
	return s
}

// leases is what the check knows.
type leases struct {
	e       *Env
	memory  *verbs.MR // of the server: the lease's word
	holders []*leaseHolder
	grants  uint64
	uses    uint64
}

// leaseHolder is a client. What it holds is in its memory: a crash loses it.
type leaseHolder struct {
	*leases
	m     *Machine
	until int64 // end of the lease that it holds, us on its clock; 0 = none
}

func buildLease(e *Env) error {
	l := &leases{e: e}
	server, err := e.AddMachine(MachineConfig{Boot: func(m *Machine) (err error) {
		l.memory, err = m.Kept("lease", 8)
		return err
	}})
	if err != nil {
		return err
	}
	for range e.Nodes - 1 {
		h := &leaseHolder{leases: l}
		l.holders = append(l.holders, h)
		h.m, err = e.AddMachine(MachineConfig{Conns: 1, Depth: 4, Boot: func(m *Machine) error {
			h.m, h.until = m, 0
			return h.boot(server)
		}})
		if err != nil {
			return err
		}
	}
	e.AtEnd(func() {
		if l.grants == 0 {
			e.Fail("progress", "the lease was never granted")
		}
		e.Count("grants", l.grants)
		e.Count("uses", l.uses)
	})
	return nil
}

func (h *leaseHolder) boot(server *Machine) error {
	buffer, err := h.m.Memory(8)
	if err != nil {
		return err
	}
	h.m.Go(0, "holder", func(f *fiber.Fiber) error {
		link := h.m.NewLink(0, server)
		for !h.e.Over() {
			c, err := link.Conn(f)
			if err != nil {
				return err
			}
			if err := h.take(f, c, buffer); err != nil {
				continue // whether the lease was granted is unknown: it is not used
			}
			if err := h.use(f); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// margin is DELTA in microseconds.
func (l *leases) margin() int64 {
	if l.e.Mutated(mutationNoDelta) {
		return 0
	}
	return leaseDelta.Microseconds()
}

// expired and valid are the two sides of the margin: nobody takes a lease before it has expired
// on every clock, nobody uses one that has ended on any.
func (l *leases) expired(end, nowUs int64) bool { return nowUs > end+l.margin() }
func (l *leases) valid(end, nowUs int64) bool   { return nowUs+l.margin() < end }

// take looks at the lease, and takes it if it has expired.
func (h *leaseHolder) take(f *fiber.Fiber, c *fiber.Conn, buffer *verbs.MR) error {
	r := h.memory.Remote()
	if err := c.Read(f, buffer.SGE(0, 8), r.Addr, r.RKey); err != nil {
		return err
	}
	seen := word(buffer, 0)
	now := f.Now().Microseconds()
	if end := int64(seen & (1<<leaseShift - 1)); seen != 0 && !h.expired(end, now) {
		return f.Sleep(time.Duration(1+h.e.World.Rand("wait").Int64N(30)) * time.Microsecond)
	}
	end := now + leaseLength.Microseconds()
	old, err := c.CAS(f, r.Addr, r.RKey, seen, uint64(h.m.Index()+1)<<leaseShift|uint64(end))
	if err == nil && old == seen {
		h.until = end
		h.grants++
		h.check()
	}
	return err
}

// use uses the lease while it is valid.
func (h *leaseHolder) use(f *fiber.Fiber) error {
	for h.until > 0 && !h.e.Over() {
		if !h.valid(h.until, f.Now().Microseconds()) {
			h.until = 0
			break
		}
		h.uses++
		h.check()
		wait := time.Duration(1+h.e.World.Rand("use").Int64N(20)) * time.Microsecond
		if err := f.Sleep(wait); err != nil {
			return err
		}
	}
	return nil
}

// check finds two clients that would both see their lease valid now.
func (l *leases) check() {
	var who []string
	for _, h := range l.holders {
		n := h.m.Node
		if h.until > 0 && n.Up() && l.valid(h.until, n.Clock().Now().Microseconds()) {
			who = append(who, fmt.Sprintf("%s until %d us, its clock errs by %s", n.Name(), h.until,
				n.ClockError()))
		}
	}
	if len(who) > 1 {
		l.e.Fail("one-holder", "%d clients see their lease valid: %s (DELTA is %s)", len(who),
			strings.Join(who, "; "), leaseDelta)
	}
}
