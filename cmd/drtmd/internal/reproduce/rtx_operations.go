package reproduce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"drtmd/proto/memnode"
	paper "drtmd/proto/rtx"
	"drtmd/proto/rtx/dtx"
	"drtmd/proto/rtx/inplace"
	"drtmd/proto/rtx/optimal"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// changes updates some objects in one transaction.
type changes func(f *fiber.Fiber, objects int) error

// counted counts what updates of 1, 2 and 3 objects of 1 KB are, on memory of a format. attach gives what makes
// the updates.
func counted(bytes int, format func([]byte) error,
	attach func(f *fiber.Fiber, way *memnode.Way, w *fiber.Worker, clock verbs.Clock) (changes, error)) ([]sim.TrafficBytes, error) {
	seen := sim.Traffic{Node: "n0"}
	world, err := sim.New(sim.Config{Seed: 1, OnEvent: seen.Note})
	if err != nil {
		return nil, err
	}
	var contexts []*verbs.Context
	var machines []*sim.Node
	for range 2 {
		m, err := world.AddNode(sim.NodeConfig{ClockOffset: 56 * 365 * 24 * time.Hour})
		if err != nil {
			return nil, err
		}
		c, err := m.Open()
		if err != nil {
			return nil, err
		}
		machines, contexts = append(machines, m), append(contexts, c)
	}
	server, err := memnode.NewServer(contexts[0], memnode.Config{Bytes: bytes, Format: format})
	if err != nil {
		return nil, err
	}
	pd, err := contexts[1].AllocPD()
	if err != nil {
		return nil, err
	}
	core := fiber.NewCore(machines[1].Timeline(0))
	defer core.Kill()
	w, err := core.NewWorker(fiber.WorkerConfig{PD: pd})
	if err != nil {
		return nil, err
	}
	way, err := memnode.Join(server.Admit, 1, []*fiber.Worker{w}, verbs.ConnectAttr{})
	if err != nil {
		return nil, err
	}
	var all []sim.TrafficBytes
	var ended error
	w.Submit("updates", func(f *fiber.Fiber) error {
		update, err := attach(f, way, w, machines[1].Clock())
		if err != nil {
			return err
		}
		for n := range 3 { // the objects are there then, and blocks to be used again
			if err := update(f, 3); err != nil {
				return fmt.Errorf("update %d: %w", n, err)
			}
		}
		for n := 1; n <= 3; n++ {
			before := seen.Bytes
			if err := update(f, n); err != nil {
				return err
			}
			all = append(all, seen.Bytes.Minus(before))
		}
		return nil
	}, func(err error) { ended = err })
	return all, errors.Join(world.Run(), ended)
}

// repairableUpdates counts those of rTX.
func repairableUpdates() ([]sim.TrafficBytes, error) {
	shape := paper.Shape{Owners: 1, Slots: 12, Roots: 4, Objects: 32,
		Classes: []paper.Class{{Bytes: 64, Blocks: 64}, {Bytes: 1024, Blocks: 64}}}
	bytes, err := shape.Bytes()
	if err != nil {
		return nil, err
	}
	return counted(bytes, shape.Format, func(f *fiber.Fiber, way *memnode.Way, w *fiber.Worker, clock verbs.Clock) (changes,
		error) {
		c, err := paper.Attach(f, paper.Config{Conn: way.Conns[0], PD: w.PD(), Memory: way.Memory, Clock: clock,
			Rand: rand.New(rand.NewPCG(1, 2))})
		return func(f *fiber.Fiber, n int) error {
			return c.Run(f, func(tx *paper.Tx) error {
				for i := range n {
					v, err := tx.Update(c.Root(i))
					if v == nil && err == nil {
						v, err = tx.Write(c.Root(i), 1)
					}
					if err != nil {
						return err
					}
					v[0]++
				}
				return nil
			})
		}, err
	})
}

// writing is what the baselines' transactions have in common.
type writing interface {
	Alloc(class int) (paper.Ptr, []byte, error)
	Update(paper.Ptr) ([]byte, error)
}

// changeNodes changes the first n of the nodes, and makes those that are missing.
func changeNodes(tx writing, nodes *[]paper.Ptr, n int) error {
	for i := range n {
		var v []byte
		var err error
		if len(*nodes) <= i {
			var p paper.Ptr
			p, v, err = tx.Alloc(1)
			*nodes = append(*nodes, p)
		} else {
			v, err = tx.Update((*nodes)[i])
		}
		if err != nil {
			return err
		}
		v[0]++
	}
	return nil
}

// optimalUpdates counts those of the baseline.
func optimalUpdates() ([]sim.TrafficBytes, error) {
	const bytes = 1 << 20
	shape, err := optimal.Kind.ShapeFor(bytes, 1, 4)
	if err != nil {
		return nil, err
	}
	return counted(bytes, shape.Format, func(f *fiber.Fiber, way *memnode.Way, w *fiber.Worker, _ verbs.Clock) (changes,
		error) {
		c, err := optimal.Attach(f, inplace.Config{Conn: way.Conns[0], PD: w.PD(), Memory: way.Memory,
			Rand: rand.New(rand.NewPCG(1, 2)), Wait: time.Microsecond, MaxWait: time.Millisecond}, optimal.Parts{})
		if err != nil {
			return nil, err
		}
		var nodes []paper.Ptr
		return func(f *fiber.Fiber, n int) error {
			tx, err := c.Begin(f)
			if err == nil {
				err = changeNodes(tx, &nodes, n)
			}
			if err != nil {
				return err
			}
			return tx.Commit()
		}, nil
	})
}

// distributedUpdates counts those of DTX.
func distributedUpdates() ([]sim.TrafficBytes, error) {
	const bytes = 1 << 20
	shape, err := dtx.Kind.ShapeFor(bytes, 1, 4)
	if err != nil {
		return nil, err
	}
	return counted(bytes, shape.Format, func(f *fiber.Fiber, way *memnode.Way, w *fiber.Worker, _ verbs.Clock) (changes,
		error) {
		c, err := dtx.Attach(f, dtx.Config{Config: inplace.Config{Conn: way.Conns[0], PD: w.PD(), Memory: way.Memory,
			Rand: rand.New(rand.NewPCG(1, 2)), Wait: time.Microsecond, MaxWait: time.Millisecond}})
		if err != nil {
			return nil, err
		}
		var nodes []paper.Ptr
		return func(f *fiber.Fiber, n int) error {
			tx, err := c.Begin(f, false)
			if err == nil && len(nodes) == 0 { // what is new counts with something that leads to it
				_, err = tx.Write(c.Root(0), 0)
			}
			if err == nil {
				err = changeNodes(tx, &nodes, n)
			}
			if err != nil {
				return err
			}
			return tx.Commit()
		}, nil
	})
}

// Table 2: what an insertion into so many nodes of 1 KB costs.
func insertionBytes(r *Run) (*Outcome, error) {
	o := &Outcome{Conditions: "updates of 1, 2 and 3 objects of 1 KB by one client of a simulated memory node, counted by class; " +
		"nothing is drawn"}
	const metaBytes, logBytes, wordBytes = 16, 24, 8
	for _, s := range []struct {
		name  string
		run   func() ([]sim.TrafficBytes, error)
		paper func(n int) sim.TrafficBytes
		extra func(n int) sim.TrafficBytes // what ours has besides
		why   [3]string
	}{
		{"rTX", repairableUpdates, func(n int) sim.TrafficBytes {
			x := sim.TrafficBytes{Read: (1024 + 16) * n, Write: 1024 * n, CAS: 3 * 8 * n}
			if n > 1 {
				x.Write += 16 * n
			}
			return x
		}, func(n int) sim.TrafficBytes {
			x := sim.TrafficBytes{Read: metaBytes * n, CAS: wordBytes * n}
			if n > 1 {
				x.Write, x.CAS = (logBytes-16)*n+logBytes, x.CAS+3*wordBytes
			}
			return x
		}, [3]string{"and 16 n more: the metadata, READ before the data, which the paper leaves out",
			"without the 8 bytes for which nobody could find a use; for n > 1, 8 n more, as an entry of the log has 24 bytes, " +
				"and 24 before the entries",
			"and 8 n more, for each block that may be used again; for n > 1, 24 more on the log's header, which the paper leaves " +
				"out"}},
		{"DTX", distributedUpdates, func(n int) sim.TrafficBytes {
			return sim.TrafficBytes{Read: (1024 + 16) * n, Write: 2*1024*n + 8, CAS: 8 * n}
		},
			func(n int) sim.TrafficBytes {
				return sim.TrafficBytes{Write: logBytes - wordBytes*n, CAS: wordBytes * n}
			},
			[3]string{"", "and 24 more, before the entries of the log, less 8 n: the lock word is not written with the data",
				"and 8 n more: the CAS that unlocks"}},
		{"Optimal", optimalUpdates, func(n int) sim.TrafficBytes { return sim.TrafficBytes{Read: 1024 * n, Write: 1024 * n, CAS: 8 * n} },
			func(n int) sim.TrafficBytes { return sim.TrafficBytes{CAS: wordBytes * n} },
			[3]string{"", "without the WRITE of 8 bytes that unlocks", "and 8 n more: the CAS that unlocks, a WRITE of 8 bytes there"}},
	} {
		if err := r.step(len(o.Rows), 27); err != nil {
			return nil, err
		}
		got, err := s.run()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for i, g := range got {
			n := i + 1
			want, net := s.paper(n), g.Minus(s.extra(n))
			for j, x := range []struct {
				class       string
				paper, ours int
			}{{"READ", want.Read, net.Read}, {"WRITE", want.Write, net.Write}, {"CAS", want.CAS, net.CAS}} {
				o.Rows = append(o.Rows, number{what: fmt.Sprintf("%s, n = %d: %s", s.name, n, x.class), unit: "B", section: "Table 2",
					printed: fmt.Sprint(x.paper), paper: float64(x.paper), limit: within(0), reading: s.why[j]}.seen(float64(x.ours)))
			}
		}
	}
	return o, nil
}
