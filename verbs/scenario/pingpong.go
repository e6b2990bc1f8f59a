package scenario

import (
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// A ball is a message of ballLines lines in memory that the peer polls:
//
//	line 0 .. ballLines-2   the number of the ball in each word
//	last line               the number in its last word, the others as above
//
// A WRITE's lines become visible in ascending order, so that whoever sees the number in the last
// word has the whole ball.
const (
	ballLines = 5
	ballBytes = ballLines * verbs.LineBytes
	// ballWait is how long a player waits before it sends its last ball again: the link that
	// carried it, or the peer's answer, may have failed.
	ballWait = 500 * time.Microsecond
)

const mutationFirstWord = "first-word"

// pingPong has pairs of nodes send a ball to and fro by WRITE, with the receiver polling memory.
func pingPong() *Scenario {
	return &Scenario{Name: "ping-pong", Nodes: 2, MinNodes: 2, MaxNodes: 64, Even: true,
		Doc:   "pairs of nodes WRITE a numbered message of 5 lines into each other's memory",
		Until: 3 * sim.Millisecond, EventLimit: 20e6,
		Mutations: []Mutation{{Name: mutationFirstWord,
			Doc: "the receiver looks at the first word of a message, not at the last"}},
		Draw: draw(8, []weight{
			{sim.DelayRC, 3}, {sim.CutLink, 3}, {sim.Partition, 1}, {sim.BreakQPs, 3},
			{sim.PauseNode, 2}, {sim.PauseWorker, 1}, {sim.SlowNIC, 2}, {sim.StepClock, 1},
			{sim.DriftClock, 1},
		}),
		Build: buildPingPong}
}

// player is one side of a pair.
type player struct {
	e     *Env
	peer  *player
	m     *Machine
	in    *verbs.MR // where the peer's ball lands
	out   *verbs.MR
	link  *Link
	balls uint64 // received
	last  uint64 // number of the last ball received
}

func buildPingPong(e *Env) error {
	var players []*player
	for i := range e.Nodes {
		p := &player{e: e}
		if i%2 == 1 {
			p.peer, players[i-1].peer = players[i-1], p
		}
		players = append(players, p)
		m, err := e.AddMachine(MachineConfig{Conns: 1, Boot: func(m *Machine) error {
			return p.boot(m, i%2 == 0)
		}})
		if err != nil {
			return err
		}
		p.m = m
	}
	e.AtEnd(func() {
		total := uint64(0)
		for i, p := range players {
			total += p.balls
			if p.balls == 0 {
				e.Fail("progress", "n%d has received no message", i)
			}
		}
		e.Count("messages", total)
	})
	return nil
}

func (p *player) boot(m *Machine, serves bool) (err error) {
	if p.in, err = m.Kept("in", ballBytes); err != nil {
		return err
	}
	if p.out, err = m.Kept("out", ballBytes); err != nil {
		return err
	}
	for at := 0; at < ballBytes && word(p.in, at) == 0; at += 8 {
		setWord(p.in, at, p.last) // memory that a crash lost holds no message
	}
	m.Go(0, "player", func(f *fiber.Fiber) error {
		p.link = m.NewLink(0, p.peer.m)
		if serves && p.last == 0 {
			p.send(f, 1)
		}
		for !p.e.Over() {
			if err := p.turn(f); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

// turn waits for the next ball and answers it, or sends the last one again. Side 0 sends odd
// numbers, side 1 even ones.
func (p *player) turn(f *fiber.Fiber) error {
	at := ballBytes - 8
	if p.e.Mutated(mutationFirstWord) {
		at = 0
	}
	n, err := f.AwaitWord(p.in, at, p.last, f.Now()+ballWait)
	if err != nil {
		if f.Err() != nil {
			return err
		}
		if p.last > 0 { // nothing came: what was sent may be lost
			p.send(f, p.last+1)
		} else if p.m.Index()%2 == 0 {
			p.send(f, 1)
		}
		return nil
	}
	p.receive(n)
	p.send(f, n+1)
	return nil
}

// receive checks that a ball is the one after the last, and whole.
func (p *player) receive(n uint64) {
	want := p.last + 2
	if p.last == 0 {
		want = uint64(2 - p.m.Index()%2)
	}
	if n != want {
		p.e.Fail("order", "%s received message %d, not %d", p.m.Node.Name(), n, want)
	}
	for at := 0; at < ballBytes; at += 8 {
		if v := word(p.in, at); v != n {
			p.e.Fail("whole", "%s received message %d, but its word %d is of message %d",
				p.m.Node.Name(), n, at/8, v)
			break
		}
	}
	p.last = n
	p.balls++
}

// send writes a ball. If the link fails, turn sends it again.
func (p *player) send(f *fiber.Fiber, n uint64) {
	c, err := p.link.Conn(f)
	if err != nil {
		return // over: the loop ends
	}
	for at := 0; at < ballBytes; at += 8 {
		setWord(p.out, at, n)
	}
	r := p.peer.in.Remote()
	_ = c.Write(f, p.out.SGE(0, ballBytes), r.Addr, r.RKey) // lost: see turn
}
