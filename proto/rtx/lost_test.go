package rtx_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// pair is two memory nodes, n0 and n1, with a client machine n2 in virtual time.
type pair struct {
	t       *testing.T
	world   *sim.World
	machine [2]*sim.Node
	servers [2]*memnode.Server
	worker  *fiber.Worker
	clock   verbs.Clock
	shape   rtx.Shape
	copies  *rtx.Copies // of all clients
}

func newPair(t *testing.T) *pair {
	raceskip.Simulated(t)
	p := &pair{t: t, shape: testShape}
	p.shape.Nodes, p.shape.Roots = 2, lostRoots
	size, err := p.shape.Bytes()
	must(t, err)
	p.world, err = sim.New(sim.Config{Seed: 1})
	must(t, err)
	var device *verbs.Context
	for i := range 3 {
		n, err := p.world.AddNode(sim.NodeConfig{})
		must(t, err)
		c, err := n.Open()
		must(t, err)
		if i == 2 {
			device, p.clock = c, wall{n.Clock()}
			core := fiber.NewCore(n.Timeline(0))
			t.Cleanup(func() { must(t, core.Close()) })
			pd, err := device.AllocPD()
			must(t, err)
			p.worker, err = core.NewWorker(fiber.WorkerConfig{PD: pd})
			must(t, err)
			continue
		}
		shape := p.shape
		shape.Node, p.machine[i] = i, n
		p.servers[i], err = memnode.NewServer(c, memnode.Config{Bytes: size, QueuePairs: 1, Format: shape.Format})
		must(t, err)
	}
	return p
}

// attach makes a client of an owner, with queue pairs that give up soon.
func (p *pair) attach(f *fiber.Fiber, owner int) (*rtx.Client, error) {
	soon := verbs.ConnectAttr{RTS: verbs.RTSAttr{Timeout: 5, RetryCount: 2, RNRRetry: 1}}
	var ways []rtx.Remote
	for _, s := range p.servers {
		w, err := memnode.Join(s.Admit, memnode.ClientID(owner+1), []*fiber.Worker{p.worker}, soon)
		if err != nil {
			return nil, err
		}
		ways = append(ways, rtx.Remote{Conn: w.Conns[0], Memory: w.Memory})
	}
	return rtx.Attach(f, rtx.Config{Conn: ways[0].Conn, Memory: ways[0].Memory, More: ways[1:], PD: p.worker.PD(), Owner: owner,
		Clock: p.clock, Rand: rand.New(rand.NewPCG(1, uint64(owner))), EarlyLocks: owner == 0, Hints: rtx.NewHints(1 << 10),
		Copies: p.copies, Attempts: 100})
}

const lostRoots = 16

// A memory node that is lost takes what needs it along, with an error that names it, and at once: objects and blocks that
// it has, and commits of owners whose logs it has. All else goes on, and nobody is broken.
func TestALostMemoryNodeLeavesTheRest(t *testing.T) {
	p := newPair(t)
	var ended error
	p.worker.Submit("test", func(f *fiber.Fiber) error {
		first, err := p.attach(f, 0)
		if err != nil {
			return err
		}
		second, err := p.attach(f, 1)
		if err != nil {
			return err
		}
		for i := range lostRoots {
			c := []*rtx.Client{first, second}[i/2%2]
			err := c.Run(f, func(tx *rtx.Tx) error { _, err := tx.Write(c.Root(i), 1); return err })
			if err != nil {
				return err
			}
		}
		var memories [][]byte
		for _, s := range p.servers {
			memories = append(memories, bytes.Clone(s.Memory().Bytes()))
		}
		p.machine[1].Crash(false)
		start, well := f.Now(), 0
		for i := range lostRoots {
			block, err := rtx.BlockNode(memories, first.Root(i))
			if err != nil {
				return err
			}
			needs := i%2 == 1 || block == 1
			if !needs {
				well++
			}
			for name, c := range map[string]*rtx.Client{"first": first, "second": second} {
				read := c.View(f, func(tx *rtx.Tx) error { _, err := tx.Read(c.Root(i)); return err })
				if told(read) != needs || !needs && read != nil {
					t.Errorf("%s reads root %d, with its block on node %d: %v", name, i, block+1, read)
				}
				for range 20 { // the client's blocks on the node that is lost are left alone
					update := c.Run(f, func(tx *rtx.Tx) error { return bump(c, tx, i) })
					if want := needs || c == second; told(update) != want || !want && update != nil {
						t.Fatalf("%s updates root %d, with its block on node %d: %v", name, i, block+1, update)
					}
				}
			}
		}
		for i := 0; i < lostRoots; i += 2 { // a program that goes on in the same attempt is told again
			for name, c := range map[string]*rtx.Client{"first": first, "second": second} {
				block, err := rtx.BlockNode(memories, c.Root(i))
				if err != nil {
					return err
				}
				if err := again(f, c, i); told(err) != (block == 1) || block != 1 && err != nil {
					t.Errorf("%s asks twice for root %d, with its block on node %d: %v", name, i, block+1, err)
				}
			}
		}
		both := first.Run(f, func(tx *rtx.Tx) error {
			_, _, err := tx.Alloc(0)
			return errors.Join(err, bump(first, tx, 0))
		})
		if block, err := rtx.BlockNode(memories, first.Root(0)); err != nil || told(both) != (block == 1) {
			t.Errorf("a new object, and root 0, with its block on node %d: %v", block+1, both)
		}
		if took := f.Now() - start; took > 100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		if first.Broken() != nil || second.Broken() != nil || well < 2 || first.Stats().Repairs > 0 {
			t.Errorf("broken: %v, %v; %d roots of %d are well; %+v", first.Broken(), second.Broken(), well, lostRoots, *first.Stats())
		}
		_, err = p.attach(f, 2)
		if err == nil {
			t.Error("a client attaches without a memory node")
		}
		return nil
	}, func(err error) { ended = err })
	must(t, p.world.Run())
	must(t, ended)
	memories := [][]byte{p.servers[0].Memory().Bytes(), nil}
	unaudited, err := rtx.AuditSurvivors(memories, nil, nil)
	if err != nil || len(unaudited) != 2 || !strings.HasPrefix(unaudited[0], "memory node 2: its ") {
		t.Errorf("the audit says %v, and could not look at %q", err, unaudited)
	}
	if _, err := rtx.AuditSurvivors([][]byte{nil, nil}, nil, nil); !errors.Is(err, rtx.ErrNodeLost) {
		t.Errorf("without any node, the audit says %v", err)
	}
}

// again reads an object to update it, and asks for it once more whatever the first answer was.
func again(f *fiber.Fiber, c *rtx.Client, root int) error {
	given := errors.New("given up")
	err := c.Run(f, func(tx *rtx.Tx) error {
		_, first := tx.ReadToUpdate(c.Root(root))
		_, second := tx.Update(c.Root(root))
		if (first == nil) != (second == nil) {
			return fmt.Errorf("first %v, then %v", first, second)
		}
		return errors.Join(first, second, given)
	})
	if told(err) {
		return err
	}
	if errors.Is(err, given) {
		return nil
	}
	return fmt.Errorf("neither done nor told: %w", err)
}

// Copies are kept of blocks that were read before their metadata by one queue pair: of what is on two memory nodes, a
// block may be newer than the metadata says.
func TestCopiesAreOfWhatWasConfirmed(t *testing.T) {
	p := newPair(t)
	var ended error
	p.worker.Submit("test", func(f *fiber.Fiber) error {
		writer, err := p.attach(f, 1)
		if err != nil {
			return err
		}
		for i := range lostRoots {
			err := writer.Run(f, func(tx *rtx.Tx) error { _, err := tx.Write(writer.Root(i), 1); return err })
			if err != nil {
				return err
			}
		}
		p.copies = rtx.NewCopies(64, p.shape.Classes[1].Bytes)
		reader, err := p.attach(f, 0)
		if err != nil {
			return err
		}
		memories := [][]byte{p.servers[0].Memory().Bytes(), p.servers[1].Memory().Bytes()}
		together := uint64(0)
		for i := range lostRoots {
			block, err := rtx.BlockNode(memories, reader.Root(i))
			if err != nil {
				return err
			}
			before := reader.Stats().Copied
			for range 3 { // a hint, a copy, and its use
				if err := reader.View(f, func(tx *rtx.Tx) error { _, err := tx.Read(reader.Root(i)); return err }); err != nil {
					return err
				}
			}
			used := reader.Stats().Copied - before
			if block == i%2 {
				together += used
			} else if used > 0 {
				t.Errorf("root %d has a copy of its block, which is on the other node", i)
			}
		}
		if together == 0 || together == lostRoots {
			t.Errorf("%d of %d roots had a copy", together, lostRoots)
		}
		return nil
	}, func(err error) { ended = err })
	must(t, p.world.Run())
	must(t, ended)
}

// told reports whether an error names the node that was lost.
func told(err error) bool {
	lost := (*rtx.LostError)(nil)
	return errors.Is(err, rtx.ErrNodeLost) && errors.As(err, &lost) && lost.Node == 1 &&
		strings.HasPrefix(err.Error(), fmt.Sprintf("memory node %d of 2 is lost", lost.Node+1))
}
