package hardware

import (
	"errors"
	"fmt"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// ErrConfig refuses a node that cannot be built.
var ErrConfig = errors.New("impossible HADES node")

// Memory has the committed content of a node's lines.
type Memory interface {
	Load(line bloom.Line, to *Data)
	Store(line bloom.Line, from *Data)
}

// Hooks of a node. They may not call it.
type Hooks struct {
	// Send hands a message over, to be sent after so many cycles; messages to one node stay in order.
	Send func(m *Message, cycles int)
	// Later asks for Run with the step, after so many cycles.
	Later func(s Step, cycles int)
	// Fetched: lines that a transaction has asked for are there.
	Fetched func(tx directory.TX, request uint32)
	// Ended: a transaction is over, and its number is free.
	Ended func(tx directory.TX, end End)
	// Reserved: all that a transaction has reserved is locked, and it may execute. Only if Reserve is called.
	Reserved func(tx directory.TX)
	// Acked: call Validate for a transaction. Only with Config.Hybrid.
	Acked func(tx directory.TX)
	// Unlocked: accesses and commits of cores that were denied may be tried again. May be nil.
	Unlocked func()
	// Of nodes with replicas. Mail: another node's Mail has come; the bytes are the node's. Settled: Node.Unsettled has come
	// to 0. Marked: a step was taken at this node, for faults.
	Mail    func(from NodeID, body []byte)
	Settled func()
	Marked  func(k Kind)
}

// End of an attempt.
type End uint8

const (
	Committed    End = iota + 1
	LocalSquash      // a conflict with a local transaction, or an eviction
	RemoteSquash     // a conflict that another node has found
	LockFailed       // the directory of the own node is locked by a conflicting commit
	ByProgram        // Abort
	Invalid          // HADES-H: a local record has changed
	Moved            // the members of the cluster change
)

func (e End) String() string {
	return [...]string{"?", "committed", "squashed by its own node", "squashed by another node", "not locked",
		"aborted by its program", "a local record has changed", "ended by a change of the members"}[e]
}

// Cycles are costs of the NIC, in cycles of a core.
type Cycles struct {
	Line int // inserting a line, or comparing it with all filters
	Lock int // taking or giving back a Locking Buffer
	Keep int // making a record durable at a replica
}

// Config of a Node.
type Config struct {
	Node  NodeID
	Nodes int
	// Directory: all nodes have the same. Its Hooks are the node's; 0 Buffers are one for each pair of filters.
	Directory directory.Config
	// Hybrid makes it a node of HADES-H: local records have versions and are validated by software.
	Hybrid    bool
	VersionAt int            // HADES-H: where the header line of a record has its version, of 8 bytes
	Pairs     int            // of filters of remote transactions; 0: one for each transaction of another node
	Filter    bloom.Geometry // of these; the zero value is bloom.Plain
	Cycles    Cycles
	Memory    Memory
	Pool      *Pool
	Hooks     Hooks
	// Replicas has the replicas of the node; nil: there are none. Life of the node counts from 0.
	Replicas Replicas
	Life     uint32
	Mutation Mutation // leaves a step out; 0: none. For tests of checks
}

const maxNodes = 1 << 10

// check says what is wrong, and fills in what is left to it.
func (c *Config) check() error {
	others := (c.Nodes - 1) * c.Directory.Transactions()
	if c.Pairs == 0 {
		c.Pairs = max(1, others)
	}
	if c.Filter == (bloom.Geometry{}) {
		c.Filter = bloom.Plain()
	}
	if c.Directory.Buffers == 0 {
		c.Directory.Buffers = c.Directory.Transactions() + c.Pairs
	}
	switch {
	case c.Nodes < 1 || c.Nodes > maxNodes || c.Node < 0 || int(c.Node) >= c.Nodes:
		return fmt.Errorf("%w: number %d of %d nodes; there are 1 to %d", ErrConfig, c.Node, c.Nodes, maxNodes)
	case c.Life > MaxLife:
		return fmt.Errorf("%w: life %d of node %d, where messages tell lives 0 to %d apart: start the cluster anew", ErrConfig,
			c.Life, c.Node, MaxLife)
	case c.Pairs < 0:
		return fmt.Errorf("%w: %d pairs of filters in the NIC", ErrConfig, c.Pairs)
	case c.Cycles.Line < 0 || c.Cycles.Lock < 0 || c.Cycles.Keep < 0:
		return fmt.Errorf("%w: a NIC that takes %+v cycles", ErrConfig, c.Cycles)
	case c.Hybrid && (c.VersionAt < 0 || c.VersionAt+8 > len(Data{})):
		return fmt.Errorf("%w: a node of HADES-H with the version at byte %d of a header line", ErrConfig, c.VersionAt)
	}
	if err := c.Filter.Check(); err != nil {
		return fmt.Errorf("%w: filters of the NIC: %w", ErrConfig, err)
	}
	return nil
}

// Check says what is wrong with the sizes of a node.
func (c Config) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	return c.Directory.Check()
}

// complete says what a node lacks.
func (c *Config) complete() error {
	switch {
	case c.Memory == nil || c.Pool == nil || c.Hooks.Send == nil || c.Hooks.Later == nil || c.Hooks.Fetched == nil ||
		c.Hooks.Ended == nil:
		return fmt.Errorf("%w: it lacks its memory, its pool, or a hook that all nodes need", ErrConfig)
	case c.Replicas != nil && (c.Hooks.Mail == nil || c.Hooks.Settled == nil || c.Hooks.Marked == nil):
		return fmt.Errorf("%w: a node with replicas without the hooks Mail, Settled and Marked", ErrConfig)
	case c.Hybrid && c.Hooks.Acked == nil:
		return fmt.Errorf("%w: a node of HADES-H without the hook Acked", ErrConfig)
	}
	return nil
}

// Node is one of a cluster.
type Node struct {
	cfg      Config
	dir      *directory.Directory
	txs      []transaction // local ones: module (4b)
	attempts uint32
	pairs    []pair     // module (4a)
	pairOf   []int32    // index of pairs by node and local number; -1: none
	stalled  []*Message // denied by a Locking Buffer, in order of arrival
	dropped  []squashed // by the directory, in the present call
	unlocked bool       // a Locking Buffer was given back in the present call
	// Filters and lines of the own node on their way to a Locking Buffer, where no transaction has them: of HADES-H, and of a
	// transaction that reserves. Those of HADES-H are the equivalent of a core's pair (§V-D), and as large.
	reads, writes *bloom.Filter
	written       []bloom.Line
	header        Data // of a record that is looked at
	stats         Stats
	// Of transactions with replicas: see replica.go.
	tails  []*tail
	spares []*tail
	late   []*Message // Truncates whose records could not be applied
	fence  []fenced   // by node
}

type squashed struct {
	tx  directory.TX
	why directory.Reason
}

// Stats of a node, beside those of its directory.
type Stats struct {
	Sent           [kindEnd]uint64
	Checks         uint64 // of a line against a filter of a remote transaction
	FalseConflicts uint64 // of these, positive by mistake
	Compared       uint64 // lines, each with all filters of remote transactions at once
	Exhausted      uint64 // requests that found no free pair of filters
	Stalled        uint64 // requests that had to be tried again
}

// New makes a node without transactions.
func New(c Config) (*Node, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	n := &Node{cfg: c, attempts: c.Life << lifeShift, fence: make([]fenced, c.Nodes)}
	c.Directory.Hooks = directory.Hooks{
		Squashed: func(tx directory.TX, why directory.Reason) { n.dropped = append(n.dropped, squashed{tx, why}) },
		Unlocked: func() { n.unlocked = true },
	}
	var err error
	if n.dir, err = directory.New(c.Directory); err != nil {
		return nil, err
	}
	n.txs = make([]transaction, c.Directory.Transactions())
	n.pairs = make([]pair, c.Pairs)
	for i := range n.pairs {
		p := &n.pairs[i]
		p.owner = directory.Owner(len(n.txs) + i)
		if p.read, err = bloom.New(c.Filter); err != nil {
			return nil, err
		}
		if p.write, err = bloom.New(c.Filter); err != nil {
			return nil, err
		}
	}
	read, write := c.Filter, c.Filter
	if c.Hybrid {
		read, write = n.dir.Geometries()
	}
	if n.reads, err = bloom.New(read); err != nil {
		return nil, err
	}
	if n.writes, err = bloom.New(write); err != nil {
		return nil, err
	}
	n.pairOf = make([]int32, c.Nodes*len(n.txs))
	for i := range n.pairOf {
		n.pairOf[i] = -1
	}
	return n, nil
}

// Directory of the node, for its statistics.
func (n *Node) Directory() *directory.Directory { return n.dir }

// Stats of the node.
func (n *Node) Stats() Stats { return n.stats }

// Idle reports whether nothing of a transaction is left in the node.
func (n *Node) Idle() bool {
	for i := range n.txs {
		if n.txs[i].phase != 0 {
			return false
		}
	}
	for i := range n.pairs {
		if n.pairs[i].used {
			return false
		}
	}
	return len(n.stalled) == 0 && n.dir.Buffers().Held() == 0
}

// Unheard is how many transactions of another node have ended there, and have a pair of filters here.
func (n *Node) Unheard(of *Node) (count int) {
	for i := range n.pairs {
		if p := &n.pairs[i]; p.used && p.id.Node == of.cfg.Node && of.attempt(p.id) == nil {
			count++
		}
	}
	return count
}

// send hands a message over.
func (n *Node) send(m *Message, cycles int) {
	m.From = n.cfg.Node
	n.stats.Sent[m.Kind]++
	n.cfg.Hooks.Send(m, cycles)
}

// message takes an empty one.
func (n *Node) message(k Kind, to NodeID, id ID) *Message {
	m := n.cfg.Pool.get()
	m.Kind, m.To, m.ID = k, to, id
	return m
}

// settle does what a call has caused: it ends transactions that the directory has dropped, and tries again what
// Locking Buffers have denied.
func (n *Node) settle() {
	told := false
	for len(n.dropped) > 0 || n.unlocked {
		for len(n.dropped) > 0 {
			s := n.dropped[0]
			n.dropped = n.dropped[:copy(n.dropped, n.dropped[1:])]
			end := LocalSquash
			if s.why == directory.Asked {
				end = RemoteSquash
			}
			n.drop(s.tx, end)
		}
		if !n.unlocked {
			continue
		}
		n.unlocked, told = false, true
		for i, waiting := 0, len(n.stalled); i < waiting; i++ {
			m := n.stalled[0]
			n.stalled = n.stalled[:copy(n.stalled, n.stalled[1:])]
			n.again(m) // joins the list's end if it is denied again
		}
		for i := range n.txs {
			if t := &n.txs[i]; t.phase == reserving && t.waits {
				n.reserveNext(directory.TX(i))
			}
		}
	}
	if told && n.cfg.Hooks.Unlocked != nil {
		n.cfg.Hooks.Unlocked()
	}
}
