package nics

import (
	"errors"
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/store/log"
	"drtmd/store/nicindex"
	"drtmd/store/robinhood"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// TableConfig is a table of every shard.
type TableConfig struct {
	robinhood.Config
	At     int // offset in the host's region, of the own shard's
	Budget int // NIC memory of its index
}

// Function is a program that NICs execute (§4.2.2): it is given what the records of a call are, in the order of its
// accesses, and the argument. It keeps nothing. HostPs is how long it takes on a core of the host, in picoseconds.
type Function struct {
	HostPs int64
	// Grows: Run may ask for more records. Such a call is executed at its coordinator only (§4.2.3).
	Grows bool
	Run   func(values []Value, argument []byte) Step
}

// Step is what a program comes to, once it knows some records.
type Step struct {
	// More are further accesses: their values are appended, and the program is executed again. A record that was read
	// may be there once more, to be written.
	More []Access
	// Abort ends the transaction without effect.
	Abort bool
	// Writes are the new values of the records that are written, nil elsewhere; Result is a function's.
	Writes [][]byte
	Result []byte
}

// Options are the parts of the design that have a switch (§5.7).
type Options struct {
	Caching  bool // values that DMAs bring stay in the NIC's memory
	Shipping bool // functions are executed on NICs, otherwise by the host of the coordinator
	MultiHop bool // a call on one other shard is executed there, and backups answer the coordinator (§4.2.3)
}

// Config of New. It is the same on all nodes, but for Node and what is the node's own.
type Config struct {
	Node, Nodes int
	Replicas    int
	Tables      []TableConfig
	Functions   map[uint16]Function
	// Shard is the node whose NIC has the locks of a record: its primary. Backups are the nodes behind it, in a ring.
	Shard func(Ref) int
	Options
	Mutation Mutation

	Cores  []*smartnic.Core
	Memory *verbs.MR // of the host: tables of the own shard, logs
	// Logs are those of the NIC's cores in that memory: where each is, and what the host has formatted.
	Logs []LogPlace
}

// LogPlace is a log that a core of the NIC appends to, and its host reads.
type LogPlace struct {
	At         int // offset in the host's region
	Capacity   int
	Generation uint64
}

// NIC is the program of one node's NIC. Its cores share it.
type NIC struct {
	Stats Stats

	cfg     Config
	indexes []*nicindex.Index
	views   []robinhood.View
	cores   []*core
	shipped map[uint64]*kept // calls that this NIC has executed and whose COMMIT has not come; looked up only
}

// Stats counts what a NIC did.
type Stats struct {
	Requests  uint64 // messages to other NICs, answers included
	Committed uint64 // as coordinator
	Aborted   uint64
	MultiHop  uint64 // calls that were executed at another node
	Lookups   uint64 // of records that are not in the cache
}

// core is what a core has of its own.
type core struct {
	nic      *NIC
	c        *smartnic.Core
	log      *log.Writer
	at       int          // offset of the log in the host's region
	appends  []*appending // that are not readable yet, in the order of the log
	readable fiber.Cond
	txs      map[uint64]*coordination
}

// kept is what a NIC has executed for another coordinator.
type kept struct {
	updates []Update
}

// Errors of New.
var (
	ErrReplicas = errors.New("replicas not possible")
	ErrFunction = errors.New("function not registered")
)

// New makes the program, and has the cores handle its messages.
func New(cfg Config) (*NIC, error) {
	if cfg.Replicas < 1 || cfg.Replicas > cfg.Nodes {
		return nil, fmt.Errorf("%w: %d replicas on %d nodes", ErrReplicas, cfg.Replicas, cfg.Nodes)
	}
	invariant.Assert(len(cfg.Logs) == len(cfg.Cores), "xenic: every core of a NIC has a log")
	n := &NIC{cfg: cfg, shipped: map[uint64]*kept{}}
	for _, t := range cfg.Tables {
		v := robinhood.MakeView(t.Config, t.At)
		x, err := nicindex.New(nicindex.Config{Name: t.Name, Segments: v.Segments(), ValueBytes: t.ValueBytes,
			Budget: t.Budget})
		if err != nil {
			return nil, err
		}
		n.views, n.indexes = append(n.views, v), append(n.indexes, x)
	}
	for i, c := range cfg.Cores {
		l := cfg.Logs[i]
		w, err := log.NewWriter(log.WriterConfig{Capacity: l.Capacity, Generation: l.Generation})
		if err != nil {
			return nil, err
		}
		x := &core{nic: n, c: c, log: w, at: l.At, txs: map[uint64]*coordination{}}
		n.cores = append(n.cores, x)
		x.handle()
	}
	return n, nil
}

// handle registers who takes which message.
func (x *core) handle() {
	c := x.c
	// start takes a request in a fiber of its own.
	start := func(kind uint8, serve func(f *fiber.Fiber, from int, d *decoder)) {
		c.Handle(kind, func(m *smartnic.Message) {
			from, d := m.From, &decoder{append([]byte(nil), m.Payload...)}
			c.Worker().Go("xenic", nil, func(f *fiber.Fiber) error { serve(f, from, d); return nil })
		})
	}
	start(msgExecute, x.onExecute)
	start(msgValidate, x.onValidate)
	start(msgLog, x.onLog)
	start(msgCommit, x.onCommit)
	start(msgShip, x.onShip)
	start(msgBegin, x.onBegin)
	c.Handle(msgUnlock, func(m *smartnic.Message) {
		d := &decoder{m.Payload}
		tx := d.u64()
		x.nic.unlock(tx, refs(d.accesses()))
	})
	for _, kind := range []uint8{msgExecuted, msgValidated, msgLogged, msgCommitted, msgRefused, msgReturned, msgFinish} {
		c.Handle(kind, func(m *smartnic.Message) {
			d := &decoder{append([]byte(nil), m.Payload...)}
			if t := x.txs[d.u64()]; t != nil {
				t.answer(m.Kind, m.From, d)
			}
		})
	}
	c.Handle(msgApplied, x.onApplied)
}

// send sends a message to the core of the same index on another node's NIC.
func (x *core) send(node int, kind uint8, e *encoder) {
	x.nic.Stats.Requests++
	x.c.Send(node, x.c.Index(), kind, e.b)
}

// backups are the nodes that have a replica of a shard, beside its primary.
func (n *NIC) backups(shard int) (nodes []int) {
	for i := 1; i < n.cfg.Replicas; i++ {
		nodes = append(nodes, (shard+i)%n.cfg.Nodes)
	}
	return nodes
}

func refs(list []Access) (r []Ref) {
	for _, a := range list {
		r = append(r, a.Ref)
	}
	return r
}

func (n *NIC) lacks(m Mutation) bool { return n.cfg.Mutation == m }
