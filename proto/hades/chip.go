package hades

import (
	"fmt"

	"drtmd/htm"
	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
)

// Chip is a member's node of the model, with what engines know of its memory.
type Chip struct {
	*hardware.Carried
	hybrid  bool
	bug     bug
	patient int // squashes of a transaction before it locks all that it will need
	// running are the transactions by their number; those of nobody are nil.
	running []*tx
	// idle are transactions that wait for a number, by core, in order.
	idle [][]*tx

	first *protocol.Env // of the member's first worker
	banks []*bank       // by shard; nil: the node does not serve it. The own shard's has the first lines
	// bankBits is how many bits of a line's number are of its place in a bank.
	bankBits int
	region   *htm.Region // in which tables are changed
	held     []held      // of transactions that have ended
	view     *view       // nil: records have one copy
}

// newChip makes that of a member.
func newChip(e *protocol.ChipEnv, hybrid bool) (*Chip, error) {
	s, err := settingsOf(e.Sizes, e.First.Options, hybrid)
	if err != nil {
		return nil, err
	}
	c := &Chip{hybrid: hybrid, patient: s.patience, first: e.First, banks: make([]*bank, e.Nodes), bankBits: bankBits(e.First),
		region: htm.NewRegion(htm.Config{Spins: -1})}
	c.open(proto.ShardID(e.Node))
	cfg := s.config
	cfg.Node, cfg.Memory, cfg.Pool = hardware.NodeID(e.Node), c, &hardware.Pool{}
	if err := c.mutate(&cfg, e.First.Mutation); err != nil {
		return nil, err
	}
	cfg.Hooks = hardware.Hooks{Fetched: c.fetched, Ended: c.ended, Reserved: c.woken, Acked: c.acked,
		Unlocked: c.unlocked}
	cfg.Life = e.First.Life
	if e.First.Placed.Map().Replicas > 1 {
		c.newView(e)
		cfg.Replicas = c.view
		cfg.Hooks.Mail, cfg.Hooks.Settled, cfg.Hooks.Marked = c.view.mail, c.view.settledOwn, c.view.marked
	}
	c.running = make([]*tx, cfg.Directory.Transactions())
	c.idle = make([][]*tx, cfg.Directory.Cores)
	if c.Carried, err = hardware.Carry(cfg, hardware.CyclePs, e.Attach); err == nil && c.view != nil && e.First.Life > 0 {
		for n := range e.Nodes { // a node that is back hears of others when it has a placement
			c.Fence(hardware.NodeID(n), n != int(e.Node), 0)
		}
	}
	return c, err
}

// mutate finds a deliberate bug of the engines or of their hardware.
func (c *Chip) mutate(cfg *hardware.Config, name string) (err error) {
	if c.bug, err = bugs.Find(name); err == nil {
		return nil
	}
	if cfg.Mutation, err = hardware.Mutations().Find(name); err == nil {
		return nil
	}
	if cfg.Directory.Mutation, err = directory.Mutations().Find(name); err != nil {
		return fmt.Errorf("hades: %w", err)
	}
	return nil
}

// Hooks of the model.

func (c *Chip) fetched(n directory.TX, _ uint32) {
	x := c.running[n]
	x.open--
	x.wake()
}

func (c *Chip) woken(n directory.TX) {
	c.running[n].locked = true
	c.running[n].wake()
}

func (c *Chip) acked(n directory.TX) {
	c.running[n].acked = true
	c.running[n].wake()
}

func (c *Chip) ended(n directory.TX, how hardware.End) {
	x := c.running[n]
	invariant.Assert(x != nil || how == hardware.RemoteSquash, "hades: an end of no transaction")
	if x == nil {
		return // a mutation of the hardware
	}
	c.running[n] = nil
	x.end = how
	x.wake()
	if waiting := c.idle[x.core()]; len(waiting) > 0 {
		waiting[0].wake()
	}
}

func (c *Chip) unlocked() {
	for _, x := range c.running {
		if x != nil && x.denied {
			x.wake()
		}
	}
}

// Load implements hardware.Memory.
func (c *Chip) Load(line bloom.Line, to *hardware.Data) {
	b, line := c.bankAt(line)
	if line < b.lines {
		n := copy(to[:], b.memory.Bytes[int(line)*layout.LineBytes:])
		clear(to[n:])
		return
	}
	*to = hardware.Data{}
	putVersion(to[:], b.versions[line-b.lines])
}

// Store implements hardware.Memory.
func (c *Chip) Store(line bloom.Line, from *hardware.Data) {
	b, line := c.bankAt(line)
	if line < b.lines {
		copy(b.memory.Bytes[int(line)*layout.LineBytes:], from[:])
		return
	}
	b.versions[line-b.lines] = versionOf(from[:])
}

// chipOf is the chip of a node.
func chipOf(e *protocol.Env, n proto.NodeID) *Chip { return e.Chips[n].(*Chip) }
