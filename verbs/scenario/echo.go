package scenario

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/sim"
)

const (
	mutationForgetServed = "forget-served"
	mutationCallAgain    = "call-again"
)

// Types of requests.
const (
	typeEcho  rpc.Type = iota + 1 // answered at once
	typeSleep                     // answered by a fiber that sleeps before
	typeItem                      // see pipeline
)

const (
	echoCallers  = 4    // fibers per node
	echoMost     = 3000 // bytes of a request: some need several datagrams
	echoDeadline = 400 * time.Microsecond
)

// echoConfig has timeouts that fit a run of milliseconds. The incarnation is for boot to set.
func echoConfig(e *Env) rpc.Config {
	return rpc.Config{Peers: 2 * e.Nodes, Slots: 8, Window: 4, MaxMessage: 4096, SendDepth: 32,
		RTOMin: 20 * time.Microsecond, RTOFirst: 60 * time.Microsecond,
		RTOMax: 300 * time.Microsecond, PeerTimeout: 2 * time.Millisecond,
		ForgetServed: e.Mutated(mutationForgetServed)}
}

// rpcEcho has every node call every other one over datagrams.
func rpcEcho() *Scenario {
	return &Scenario{Name: "rpc-echo", Nodes: 3, MinNodes: 2, MaxNodes: 32,
		Doc:   "nodes call each other over datagrams that are lost, doubled, late and reordered",
		Until: 4 * sim.Millisecond, EventLimit: 20e6,
		Mutations: []Mutation{
			{Name: mutationForgetServed, Doc: "a server executes a request again that it has answered"},
			{Name: mutationCallAgain, Doc: "a caller repeats a call that failed, as if it had not run"}},
		Draw: draw(12, []weight{
			{sim.DropDatagrams, 4}, {sim.DuplicateDatagrams, 4}, {sim.ReorderDatagrams, 4},
			{sim.DelayDatagrams, 3}, {sim.CutLink, 1}, {sim.Partition, 1}, {sim.CrashNode, 2},
			{sim.PauseNode, 2}, {sim.PauseWorker, 1}, {sim.SlowNIC, 1}, {sim.StepClock, 1},
			{sim.DriftClock, 1},
		}),
		Build: buildEcho}
}

// echoes is what the checks know of every call, by its number.
type echoes struct {
	e         *Env
	addresses []rpc.Address
	executed  []int // times that the handler of a call ran
	answered  uint64
	failed    uint64
}

func buildEcho(e *Env) error {
	x := &echoes{e: e, addresses: make([]rpc.Address, e.Nodes)}
	for i := range e.Nodes {
		_, err := e.AddMachine(MachineConfig{Extra: echoConfig(e).Completions(),
			Boot: func(m *Machine) error { return x.boot(m, i) }})
		if err != nil {
			return err
		}
	}
	e.AtEnd(func() {
		if x.answered == 0 {
			e.Fail("progress", "no call was answered")
		}
		e.Count("calls", uint64(len(x.executed)))
		e.Count("answered", x.answered)
		e.Count("failed", x.failed)
	})
	return nil
}

func (x *echoes) boot(m *Machine, i int) error {
	cfg := echoConfig(x.e)
	cfg.Incarnation = uint64(i+1)<<32 + uint64(m.Node.Incarnation()) + 1
	port, err := rpc.NewPort(m.Workers[0], cfg)
	if err != nil {
		return err
	}
	x.addresses[i] = port.Address()
	random := x.e.World.Rand(fmt.Sprintf("echo n%d", i))
	port.Handle(typeEcho, x.serve)
	port.HandleFiber(typeSleep, func(f *fiber.Fiber, req, resp []byte) (int, error) {
		n, err := x.serve(req, resp) // counted first: the fiber may not live to see the end
		if err == nil {
			err = f.Sleep(time.Duration(random.Int64N(int64(200 * time.Microsecond))))
		}
		return n, err
	})
	for range echoCallers {
		m.Go(0, "caller", func(f *fiber.Fiber) error { return x.caller(f, port, i, random) })
	}
	return nil
}

// serve executes a request: the number of the call, and a pattern that depends on it.
func (x *echoes) serve(req, resp []byte) (int, error) {
	n := checkPattern(req)
	if n < 0 || n >= len(x.executed) {
		x.e.Fail("intact", "a request of %d bytes arrived damaged", len(req))
		return 0, fmt.Errorf("damaged")
	}
	if x.executed[n]++; x.executed[n] > 1 {
		x.e.Fail("at-most-once", "the request of call %d was executed %d times", n, x.executed[n])
	}
	return copy(resp, req), nil
}

// fillPattern writes a request of a call; checkPattern gives its number, or -1.
func fillPattern(b []byte, n int) {
	binary.LittleEndian.PutUint64(b, uint64(n))
	for i := 8; i < len(b); i++ {
		b[i] = byte(n*7 + i)
	}
}

func checkPattern(b []byte) int {
	if len(b) < 8 {
		return -1
	}
	n := int(binary.LittleEndian.Uint64(b))
	for i := 8; i < len(b); i++ {
		if b[i] != byte(n*7+i) {
			return -1
		}
	}
	return n
}

// caller calls the other nodes in turn until the run is over.
func (x *echoes) caller(f *fiber.Fiber, port *rpc.Port, self int, random *rand.Rand) error {
	var req, resp [echoMost]byte
	for !x.e.Over() {
		to := (self + 1 + random.IntN(x.e.Nodes-1)) % x.e.Nodes
		s, err := port.Connect(f, x.addresses[to], f.Now()+echoDeadline)
		if err != nil {
			if err := f.Sleep(retryInterval); err != nil {
				return err
			}
			continue
		}
		size := 8 + random.IntN(100)
		if random.IntN(6) == 0 {
			size = 8 + random.IntN(echoMost-7)
		}
		n := len(x.executed)
		x.executed = append(x.executed, 0)
		fillPattern(req[:size], n)
		x.call(f, s, n, req[:size], resp[:], random)
	}
	return nil
}

func (x *echoes) call(f *fiber.Fiber, s *rpc.Session, n int, req, resp []byte, random *rand.Rand) {
	typ := typeEcho
	if random.IntN(4) == 0 {
		typ = typeSleep
	}
	deadline := time.Duration(0)
	if random.IntN(2) == 0 {
		deadline = f.Now() + echoDeadline
	}
	got, err := s.Call(f, typ, req, resp, deadline)
	if err != nil && x.e.Mutated(mutationCallAgain) {
		got, err = s.Call(f, typ, req, resp, deadline)
	}
	switch {
	case err != nil:
		x.failed++
	case got != len(req) || checkPattern(resp[:got]) != n:
		x.e.Fail("answer", "call %d of %d bytes got a wrong answer of %d bytes", n, len(req), got)
	case x.executed[n] != 1:
		x.e.Fail("executed", "call %d was answered and executed %d times", n, x.executed[n])
	default:
		x.answered++
	}
}
