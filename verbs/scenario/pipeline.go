package scenario

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/sim"
)

const (
	mutationTwoSenders = "two-senders"
	mutationDropLate   = "drop-late"
)

const (
	pipelineItems = 300
	pipelineQueue = 4                     // items that a queue holds
	pipelineGap   = 16 * time.Microsecond // at most, between items at the source
	pipelineLate  = 100 * time.Microsecond
	itemBytes     = 16
)

// pipeline passes items through queues of fibers on each node, and from node to node by RPC.
func pipeline() *Scenario {
	return &Scenario{Name: "pipeline", Nodes: 3, MinNodes: 2, MaxNodes: 32,
		Doc:   "items pass bounded queues of fibers on each node, and RPCs between the nodes",
		Until: 3 * sim.Millisecond, EventLimit: 20e6,
		Mutations: []Mutation{
			{Name: mutationTwoSenders, Doc: "two fibers take from the queue that leads to the next node"},
			{Name: mutationDropLate, Doc: "an item that waits long for room in a queue is dropped"}},
		Draw: draw(10, []weight{
			{sim.DropDatagrams, 3}, {sim.DuplicateDatagrams, 3}, {sim.ReorderDatagrams, 3},
			{sim.DelayDatagrams, 2}, {sim.CutLink, 1}, {sim.PauseNode, 3},
			{sim.PauseWorker, 2}, {sim.SlowNIC, 2},
		}),
		Build: buildPipeline}
}

// item has a number and a value that each node changes in a way of its own.
type item struct{ number, value uint64 }

// pass is what node i does to a value.
func pass(value uint64, i int) uint64 { return value*31 + uint64(i) + 1 }

// stage is a node of the pipeline.
type stage struct {
	*line
	index    int
	in, out  *fiber.Queue[item]
	address  rpc.Address
	received uint64 // by the last stage
}

// line is the whole pipeline.
type line struct {
	e      *Env
	stages []*stage
}

func buildPipeline(e *Env) error {
	l := &line{e: e}
	for i := range e.Nodes {
		s := &stage{line: l, index: i}
		l.stages = append(l.stages, s)
		_, err := e.AddMachine(MachineConfig{
			Extra: rpc.Config{Peers: 2, Incarnation: 1}.Completions(), Boot: s.boot})
		if err != nil {
			return err
		}
	}
	e.AtEnd(func() {
		n := l.stages[len(l.stages)-1].received
		if n != pipelineItems {
			e.Fail("complete", "%d of %d items came out", n, pipelineItems)
		}
		e.Count("items", n)
	})
	return nil
}

func (s *stage) last() bool { return s.index == len(s.stages)-1 && s.index == s.e.Nodes-1 }

// boot starts the fibers of a stage. Its peers never give up: no item is sent twice by a caller.
func (s *stage) boot(m *Machine) error {
	port, err := rpc.NewPort(m.Workers[0], rpc.Config{Peers: 2,
		Incarnation: uint64(m.Node.Incarnation()) + 1, RTOMin: 20 * time.Microsecond,
		RTOFirst: 60 * time.Microsecond, RTOMax: 300 * time.Microsecond,
		PeerTimeout: 10 * time.Second, Tries: 1 << 16})
	if err != nil {
		return err
	}
	s.address = port.Address()
	s.in = fiber.NewQueue[item](pipelineQueue)
	s.out = fiber.NewQueue[item](pipelineQueue)
	random := s.e.World.Rand(fmt.Sprintf("stage %d", s.index))
	port.HandleFiber(typeItem, func(f *fiber.Fiber, req, _ []byte) (int, error) {
		return 0, s.accept(f, req)
	})
	if s.index == 0 {
		m.Go(0, "source", func(f *fiber.Fiber) error { return s.source(f, random) })
	}
	m.Go(0, "work", func(f *fiber.Fiber) error { return s.work(f, random) })
	if s.last() {
		m.Go(0, "sink", s.sink)
		return nil
	}
	senders := 1
	if s.e.Mutated(mutationTwoSenders) {
		senders = 2
	}
	for range senders {
		m.Go(0, "sender", func(f *fiber.Fiber) error { return s.send(f, port) })
	}
	return nil
}

func (s *stage) source(f *fiber.Fiber, random *rand.Rand) error {
	for i := range uint64(pipelineItems) {
		if err := s.put(f, s.in, item{i, i}); err != nil {
			return err
		}
		if err := f.Sleep(time.Duration(random.Int64N(int64(pipelineGap)))); err != nil {
			return err
		}
	}
	s.in.Close()
	return nil
}

// put waits for room: that is how a slow stage holds back those before it.
func (s *stage) put(f *fiber.Fiber, q *fiber.Queue[item], x item) error {
	deadline := time.Duration(0)
	if s.e.Mutated(mutationDropLate) {
		deadline = f.Now() + pipelineLate
	}
	err := q.Put(f, x, deadline)
	if errors.Is(err, fiber.ErrDeadline) {
		return nil // the bug: the item is gone
	}
	if q.Len() > pipelineQueue {
		s.e.Fail("bound", "a queue of n%d holds %d items", s.index, q.Len())
	}
	return err
}

// accept takes an item from the stage before; an empty request is the end.
func (s *stage) accept(f *fiber.Fiber, req []byte) error {
	if len(req) != itemBytes {
		s.in.Close()
		return nil
	}
	return s.put(f, s.in, item{binary.LittleEndian.Uint64(req),
		binary.LittleEndian.Uint64(req[8:])})
}

// work spends CPU time on each item.
func (s *stage) work(f *fiber.Fiber, random *rand.Rand) error {
	for {
		x, err := s.in.Get(f, 0)
		if err != nil {
			s.out.Close()
			return ended(err)
		}
		f.Charge(random.Int64N(int64(2 * sim.Microsecond)))
		x.value = pass(x.value, s.index)
		if err := s.put(f, s.out, x); err != nil {
			return err
		}
	}
}

// ended is nil for the end of a queue.
func ended(err error) error {
	if errors.Is(err, fiber.ErrQueueClosed) {
		return nil
	}
	return err
}

// send passes the items on, each when the next node has room for it.
func (s *stage) send(f *fiber.Fiber, port *rpc.Port) error {
	session, err := port.Connect(f, s.stages[s.index+1].address, 0)
	if err != nil {
		return err
	}
	var req [itemBytes]byte
	for {
		x, err := s.out.Get(f, 0)
		if err != nil {
			if err = ended(err); err == nil {
				_, err = session.Call(f, typeItem, nil, nil, 0)
			}
			return err
		}
		binary.LittleEndian.PutUint64(req[:], x.number)
		binary.LittleEndian.PutUint64(req[8:], x.value)
		if _, err := session.Call(f, typeItem, req[:], nil, 0); err != nil {
			return err
		}
	}
}

// sink checks that items come out whole, in order, none lost and none twice.
func (s *stage) sink(f *fiber.Fiber) error {
	for {
		x, err := s.out.Get(f, 0)
		if err != nil {
			return ended(err)
		}
		if x.number != s.received {
			s.e.Fail("order", "item %d came out in the place of item %d", x.number, s.received)
		}
		want := x.number
		for i := range s.stages {
			want = pass(want, i)
		}
		if x.value != want {
			s.e.Fail("value", "item %d came out as %#x, not %#x", x.number, x.value, want)
		}
		s.received++
	}
}
