package scenario

import (
	"fmt"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

const (
	crowdLines = 1024 // of each node's memory; line 0 is the counter
	crowdAdds  = 8    // one in so many operations adds to the counter
)

const mutationCountTwice = "count-twice"

// crowd is many fibers: what the simulator's own speed is measured with.
func crowd() *Scenario {
	return &Scenario{Name: "crowd", Nodes: 9, MinNodes: 2, MaxNodes: 256, Workers: 10, Fibers: 16,
		Doc:   "fibers of many workers READ 64 B from random nodes, one in 8 adds to a counter",
		Until: sim.Millisecond, EventLimit: 1e9,
		Mutations: []Mutation{{Name: mutationCountTwice, Doc: "one addition in 100 is made twice"}},
		Build:     buildCrowd}
}

type crowded struct {
	e        *Env
	machines []*Machine
	memory   []*verbs.MR
	added    []uint64
	reads    uint64
}

func buildCrowd(e *Env) error {
	x := &crowded{e: e, memory: make([]*verbs.MR, e.Nodes), added: make([]uint64, e.Nodes)}
	for i := range e.Nodes {
		m, err := e.AddMachine(MachineConfig{Workers: e.Workers, Conns: e.Nodes - 1,
			Depth: e.Fibers, Boot: func(m *Machine) error { return x.boot(m, i) }})
		if err != nil {
			return err
		}
		x.machines = append(x.machines, m)
	}
	e.AtEnd(func() {
		adds := uint64(0)
		for i, n := range x.added {
			adds += n
			if v := word(x.memory[i], 0); x.machines[i].Node.Up() && v != n {
				e.Fail("sum", "the counter of n%d is %d after %d additions", i, v, n)
			}
		}
		e.Count("reads", x.reads)
		e.Count("additions", adds)
	})
	return nil
}

// mark is what the first word of a line holds.
func mark(node, line int) uint64 { return uint64(node)<<32 | uint64(line) }

func (x *crowded) boot(m *Machine, i int) (err error) {
	if x.memory[i], err = m.Kept("crowd", crowdLines*verbs.LineBytes); err != nil {
		return err
	}
	for line := 1; line < crowdLines; line++ {
		setWord(x.memory[i], line*verbs.LineBytes, mark(i, line))
	}
	buffer, err := m.Memory(x.e.Workers * x.e.Fibers * verbs.LineBytes)
	if err != nil {
		return err
	}
	for w := range x.e.Workers {
		links := make([]*Link, x.e.Nodes)
		for k := range x.e.Fibers {
			at := (w*x.e.Fibers + k) * verbs.LineBytes
			m.Go(w, "crowd", func(f *fiber.Fiber) error {
				if k == 0 { // the machines that come after this one exist now
					for j := range links {
						links[j] = m.NewLink(w, x.machines[j])
					}
				}
				return x.run(f, links, i, buffer, at)
			})
		}
	}
	return nil
}

// run is a fiber's life. Its choices come from a generator of its own, which is small: there are
// tens of thousands.
func (x *crowded) run(f *fiber.Fiber, links []*Link, self int, buffer *verbs.MR, at int) error {
	state := uint64(self)<<32 + uint64(at) + x.e.World.Seed()*0x9E3779B97F4A7C15 + 1
	for !x.e.Over() {
		state ^= state << 13 // xorshift64
		state ^= state >> 7
		state ^= state << 17
		to := int(state>>8) % (len(links) - 1)
		if to >= self {
			to++
		}
		c, err := links[to].Conn(f)
		if err != nil {
			return err
		}
		r := x.memory[to].Remote()
		if state%crowdAdds == 0 {
			if _, err := c.FAA(f, r.Addr, r.RKey, 1); err != nil {
				return fmt.Errorf("adding on n%d: %w", to, err)
			}
			if x.added[to]++; x.e.Mutated(mutationCountTwice) && x.added[to]%100 == 0 {
				_, _ = c.FAA(f, r.Addr, r.RKey, 1)
			}
			continue
		}
		line := 1 + int(state>>40)%(crowdLines-1)
		err = c.Read(f, buffer.SGE(at, verbs.LineBytes), r.Addr+uint64(line)*verbs.LineBytes, r.RKey)
		if err != nil {
			return fmt.Errorf("reading from n%d: %w", to, err)
		}
		if v := word(buffer, at); v != mark(to, line) {
			x.e.Fail("read", "line %d of n%d holds %#x", line, to, v)
		}
		x.reads++
	}
	return nil
}
