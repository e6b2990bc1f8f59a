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

	memory *htm.Memory
	lines  bloom.Line // of memory; those of buckets and pages come behind
	tables []table
	// versions are those of the buckets' and pages' lines, for HADES-H.
	versions []uint64
	region   *htm.Region // in which tables are changed
	// users counts, by place, the transactions that insert or delete a record: its entry stays.
	users map[int]int
	held  []held // of those that have ended
}

// newChip makes that of a member.
func newChip(e *protocol.ChipEnv, hybrid bool) (*Chip, error) {
	s, err := settingsOf(e.Sizes, e.First.Options, hybrid)
	if err != nil {
		return nil, err
	}
	c := &Chip{hybrid: hybrid, patient: s.patience, memory: e.First.Memory, users: map[int]int{},
		region: htm.NewRegion(htm.Config{Spins: -1})}
	c.lines = bloom.Line((len(c.memory.Bytes) + layout.LineBytes - 1) / layout.LineBytes)
	if err := c.openTables(e.First); err != nil {
		return nil, err
	}
	cfg := s.config
	cfg.Node, cfg.Memory, cfg.Pool = hardware.NodeID(e.Node), c, &hardware.Pool{}
	if err := c.mutate(&cfg, e.First.Mutation); err != nil {
		return nil, err
	}
	cfg.Hooks = hardware.Hooks{Fetched: c.fetched, Ended: c.ended, Reserved: c.woken, Acked: c.acked,
		Unlocked: c.unlocked}
	c.running = make([]*tx, cfg.Directory.Transactions())
	c.idle = make([][]*tx, cfg.Directory.Cores)
	c.Carried, err = hardware.Carry(cfg, hardware.CyclePs, e.Attach)
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
	if line < c.lines {
		n := copy(to[:], c.memory.Bytes[int(line)*layout.LineBytes:])
		clear(to[n:])
		return
	}
	*to = hardware.Data{}
	putVersion(to[:], c.versions[line-c.lines])
}

// Store implements hardware.Memory.
func (c *Chip) Store(line bloom.Line, from *hardware.Data) {
	if line < c.lines {
		copy(c.memory.Bytes[int(line)*layout.LineBytes:], from[:])
		return
	}
	c.versions[line-c.lines] = versionOf(from[:])
}

// chipOf is the chip of a node.
func chipOf(e *protocol.Env, n proto.NodeID) *Chip { return e.Chips[n].(*Chip) }
