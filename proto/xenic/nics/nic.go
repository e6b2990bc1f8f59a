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
	// Room is how many records the own shard's table takes, and Loaded how many it has; Room 0: nothing is inserted.
	Room, Loaded int
	Index        nicindex.Mutation
}

// Function is a program that NICs execute (§4.2.2): it is given the accesses of a call, what the records are, in the same
// order, and the argument. It keeps nothing. HostPs is how long it takes on a core of the host, in picoseconds, and
// RecordPs what each record adds.
type Function struct {
	HostPs, RecordPs int64
	// Grows: Run may ask for more records. Such a call is executed at its coordinator only (§4.2.3).
	Grows bool
	Run   func(list []Access, values []Value, argument []byte) Step
}

// ps is the time of an execution on a core of the host.
func (f *Function) ps(records int) int64 { return f.HostPs + int64(records)*f.RecordPs }

// Step is what a program comes to, once it knows some records.
type Step struct {
	// More are further accesses: their values are appended, and the program is executed again. A record that was read
	// may be there once more, to be written.
	More []Access
	Ends Ends
	// Writes are what becomes of the records, in the order of the accesses; of those that are only read it is Keep. None
	// at all: all are kept. Result is a function's.
	Writes []Write
	Result []byte
}

// Ends is how a transaction ends.
type Ends uint8

// Ends of a transaction.
const (
	Commits Ends = iota
	Aborts       // without effect: it is told so if what it has read was there at one moment
	Drops        // without effect, and nobody hears of it
)

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
	Memory *verbs.MR // of the host: tables of the own shard
	// Logs are those of the NIC's cores in LogMemory: where each is, and what the host has formatted.
	Logs      []LogPlace
	LogMemory *verbs.MR
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
	records []records
	shipped map[uint64]*kept // calls that this NIC has executed and whose COMMIT has not come; looked up only
}

// records is what a NIC knows of how many records a table of the own shard has.
type records struct {
	room, entries int
	inserted      int    // insertions that are committed and that the host has not reported
	deleted       uint32 // no deletion had an incarnation above
}

// Stats counts what a NIC did.
type Stats struct {
	Requests  uint64 // messages to other NICs, answers included
	Committed uint64 // as coordinator
	Aborted   uint64
	MultiHop  uint64 // calls that were executed at another node
	Shipped   uint64 // executions of functions at their coordinator
	Lookups   uint64 // of records that are not in the cache
	Local     uint64 // transactions that their host has executed on its own tables (§4.2.4)
	Malformed uint64 // messages that no NIC sends: nothing was done
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
	ending   int // of txs: their host has been told
}

// kept is what a NIC has executed for another coordinator.
type kept struct {
	updates []Update
	locks   []Ref // also of what it keeps as it was
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
	if cfg.LogMemory == nil {
		cfg.LogMemory = cfg.Memory
	}
	n := &NIC{cfg: cfg, shipped: map[uint64]*kept{}}
	for _, t := range cfg.Tables {
		v := robinhood.MakeView(t.Config, t.At)
		x, err := nicindex.New(nicindex.Config{Name: t.Name, Segments: v.Segments(), ValueBytes: t.ValueBytes,
			Budget: t.Budget, Mutation: t.Index})
		if err != nil {
			return nil, err
		}
		n.records = append(n.records, records{room: t.Room, entries: t.Loaded})
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
			from, d := m.From, &decoder{b: append([]byte(nil), m.Payload...)}
			c.Worker().Go("xenic", nil, func(f *fiber.Fiber) error { serve(f, from, d); return nil })
		})
	}
	start(msgExecute, x.onExecute)
	start(msgValidate, x.onValidate)
	start(msgLog, x.onLog)
	start(msgCommit, x.onCommit)
	start(msgShip, x.onShip)
	c.Handle(msgBegin, func(m *smartnic.Message) { x.onBegin(&decoder{b: m.Payload}) })
	c.Handle(msgLocal, func(m *smartnic.Message) { x.onLocal(&decoder{b: m.Payload}) })
	c.Handle(msgUnlock, func(m *smartnic.Message) {
		d := &decoder{b: m.Payload}
		tx, list := d.u64(), d.accesses()
		if x.takes(d, list, nil) {
			x.nic.unlock(tx, refs(list))
		}
	})
	for _, kind := range []uint8{msgExecuted, msgValidated, msgLogged, msgCommitted, msgRefused, msgReturned, msgFinish} {
		c.Handle(kind, func(m *smartnic.Message) {
			d := &decoder{b: append([]byte(nil), m.Payload...)}
			if t := x.txs[d.u64()]; t != nil {
				t.answer(m.Kind, m.From, d)
			}
		})
	}
	c.Handle(msgApplied, x.onApplied)
}

// takes reports whether a message is one that a NIC or a host sends: it is whole, and its records can be.
func (x *core) takes(d *decoder, list []Access, updates []Update) bool {
	ok := !d.bad
	for _, a := range list {
		ok = ok && int(a.Table) < len(x.nic.indexes)
	}
	for _, u := range updates {
		ok = ok && int(u.Table) < len(x.nic.indexes) &&
			(len(u.Bytes) == 0 || u.Version.Live() && len(u.Bytes) == x.nic.cfg.Tables[u.Table].ValueBytes)
	}
	if !ok {
		x.nic.Stats.Malformed++
	}
	return ok
}

// Owed is how much is left to do of transactions that have ended for their clients: at this NIC, and by its host.
func (n *NIC) Owed() (owed int) {
	for _, x := range n.cores {
		owed += x.ending + len(x.appends)
		if x.log.Tail() != x.log.Head() {
			owed++
		}
	}
	for _, i := range n.indexes {
		owed += i.Stats.Pinned
	}
	return owed
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
