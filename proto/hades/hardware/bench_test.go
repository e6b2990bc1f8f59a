package hardware

import (
	"math/rand/v2"
	"testing"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// The cluster of HADES §VII: 5 nodes of 5 cores, two transactions on each core.
const (
	benchNodes, benchCores, benchPerCore = 5, 5, 2
	benchRequests                        = 5
	benchLines                           = 1 << 20 // of each node
)

// bench runs transactions on the cluster, over the simulated network.
type bench struct {
	b                   *testing.B
	world               *sim.World
	draw                *rand.Rand
	nodes               []*Carried
	clients             [benchNodes][benchCores * benchPerCore]*benchClient // by local transaction
	committed, squashed int
}

// benchClient runs one transaction after the other.
type benchClient struct {
	bench   *bench
	node    int
	core    int
	tx      directory.TX
	active  bool
	woken   bool
	turn    func() // bound once
	done    int    // requests
	drawn   bool   // the next one:
	home    NodeID
	line    [1]bloom.Line
	write   bool
	content Data
}

func newBench(b *testing.B) *bench {
	b.Helper()
	cost, err := sim.Preset("hades")
	if err != nil {
		b.Fatal(err)
	}
	x := &bench{b: b, draw: rand.New(rand.NewPCG(1, 1))}
	if x.world, err = sim.New(sim.Config{Seed: 1, Cost: cost, KeepEvents: -1}); err != nil {
		b.Fatal(err)
	}
	pool := &Pool{}
	for i := range benchNodes {
		node, err := x.world.AddNode(sim.NodeConfig{})
		if err != nil {
			b.Fatal(err)
		}
		c := TableIII(benchNodes, benchCores, benchPerCore)
		c.Node, c.Memory, c.Pool = NodeID(i), flat{}, pool
		c.Hooks.Fetched = func(tx directory.TX, _ uint32) { x.clients[i][tx].wake(0) }
		c.Hooks.Ended = func(tx directory.TX, e End) { x.clients[i][tx].ended(e) }
		n, err := Carry(c, CyclePs, func(r smartnic.Receiver) (smartnic.NIC, error) { return node.Attach(r) })
		if err != nil {
			b.Fatal(err)
		}
		x.nodes = append(x.nodes, n)
	}
	for i := range benchNodes {
		for k := range benchCores * benchPerCore {
			c := &benchClient{bench: x, node: i, core: k % benchCores}
			c.turn = c.advance
			c.wake(0)
		}
	}
	return x
}

func (c *benchClient) wake(after sim.Time) {
	if !c.woken {
		c.woken = true
		c.bench.world.After(after, c.turn)
	}
}

func (c *benchClient) ended(e End) {
	c.active = false
	if e == Committed {
		c.bench.committed++
	} else {
		c.bench.squashed++
	}
	c.wake(0)
}

// advance goes on until the transaction waits.
func (c *benchClient) advance() {
	c.woken = false
	x, n := c.bench, c.bench.nodes[c.node]
	if !c.active {
		tx, ok := n.Begin(c.core)
		if !ok {
			x.b.Fatal("no pair of filters is free")
		}
		c.tx, c.active, c.done, c.drawn = tx, true, 0, false
		x.clients[c.node][tx] = c
	}
	if n.txs[c.tx].phase == committing {
		return
	}
	for cycles := 0; c.done < benchRequests; c.done++ {
		if !c.drawn {
			c.home, c.line[0] = NodeID(x.draw.IntN(benchNodes)), bloom.Line(x.draw.IntN(benchLines))
			c.write, c.drawn = x.draw.IntN(2) == 0, true
		}
		switch {
		case int(c.home) == c.node:
			a := n.Read(c.tx, c.line[0], &c.content)
			if c.write && a.Verdict == directory.Granted {
				a = n.Write(c.tx, c.line[0], 0, c.content[:1])
			}
			if cycles += a.Cycles; a.Verdict != directory.Granted {
				c.wake(sim.Time(cycles) * CyclePs)
				return
			}
		case !n.Copy(c.tx, c.home, c.line[0], &c.content):
			n.Fetch(c.tx, c.home, c.line[:], c.write)
			return
		case c.write:
			n.Update(c.tx, c.home, c.line[0], 0, c.content[:1])
		}
		c.drawn = false
	}
	n.Commit(c.tx)
}

// BenchmarkCluster runs transactions of five requests that read a line or write part of one, a fifth of them local. An
// operation is a committed transaction; the model has to do 100,000 in a minute.
func BenchmarkCluster(b *testing.B) {
	x := newBench(b)
	b.ReportAllocs()
	for b.Loop() {
		for was := x.committed; x.committed == was; {
			if !x.world.RunOne(sim.Forever) {
				b.Fatal("no event is pending")
			}
		}
	}
	b.ReportMetric(float64(x.committed)/b.Elapsed().Minutes(), "txn/min")
	b.ReportMetric(float64(x.squashed)/float64(x.committed), "squashes/txn")
}

// flat is memory without content.
type flat struct{}

func (flat) Load(bloom.Line, *Data)  {}
func (flat) Store(bloom.Line, *Data) {}
