package nics

import (
	"errors"
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto/placement"
	"drtmd/proto/recovery"
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
	// Ordered tables are scanned: the NIC has the order of their keys. Everywhere: nobody writes to the table, and every
	// node has all of it.
	Ordered, Everywhere bool
	Index               nicindex.Mutation
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
	// Range, of a host's program: it wants keys of an ordered table, and goes on when it has them. nil: none.
	Range *Range
}

// Ends is how a transaction ends.
type Ends uint8

// Ends of a transaction.
const (
	Commits  Ends = iota
	Aborts        // without effect: it is told so if what it has read was there at one moment
	Drops         // without effect, and nobody hears of it
	Outdated      // without effect: the program's plan does not hold any more, and it is to be tried again
)

// Options are the parts of the design that have a switch (§5.7).
type Options struct {
	Caching  bool // values that DMAs bring stay in the NIC's memory
	Shipping bool // functions are executed on NICs, otherwise by the host of the coordinator
	MultiHop bool // a call on one other shard is executed there, and backups answer the coordinator (§4.2.3)
	// Separate: every record is read by a request of its own and validated by another one, and what is written is locked
	// behind the program (§5.7: the baseline). Nothing is executed at another node then.
	Separate bool
}

// Config of New. It is the same on all nodes, but for Node and what is the node's own.
type Config struct {
	Node, Nodes int
	Replicas    int
	Tables      []TableConfig
	Functions   map[uint16]Function
	// Shard is that of a record. The NIC of its primary has the locks; where that is, and where backups are, the
	// placement says: at first placement.Initial.
	Shard func(Ref) int
	Options
	Mutation Mutation

	Cores  []*smartnic.Core
	Memory *verbs.MR // of the host: tables of the own shard
	// Logs are those of the NIC's cores in LogMemory: where each is, and what the host has formatted.
	Logs      []LogPlace
	LogMemory *verbs.MR
	// Yard is what the host's threads know together; nil: nothing recovers.
	Yard *Yard
	// Take gives the tables of a shard whose primary the node has become, for Adopt. Decided is told what was decided
	// about a transaction of a node that is gone, with what it writes. nil: nodes do not die.
	Take func(shard int) (Served, error)
	// Keys are those of a table of a shard that have a record in the host's memory now; false: somebody is changing it. nil:
	// no table is ordered.
	Keys    func(shard, table int) ([]uint64, bool)
	Decided func(tx uint64, d recovery.Decision, updates []Update)
	// Ended is told of a function that is committed, before the host is: of nodes that die nobody else knows what their
	// functions have written. nil: nobody wants to know.
	Ended func(tx uint64, updates []Update)
}

// Served is what a NIC needs to serve a shard: its tables, and the host's memory that has them.
type Served struct {
	Tables []TableConfig
	Memory *verbs.MR
	// Deleted is an incarnation, by table, above which no deletion of the shard has been.
	Deleted []uint32
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
	shards  []*shard // by id; nil: not served here
	cores   []*core
	shipped map[uint64]*kept // calls that this NIC has executed and whose COMMIT has not come; looked up only
	members
}

// shard is what a NIC has of a shard that it serves.
type shard struct {
	indexes   []*nicindex.Index
	views     []robinhood.View
	records   []records
	orders    []*nicindex.Order // by table; nil: it is not ordered
	claims    []claim
	memory    *verbs.MR
	restoring bool // locks of undecided transactions are not all taken yet: nobody else may lock
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
	News      uint64 // messages to other NICs of what is decided, beside Requests: when no LOG could take that
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
	kinds    map[uint8]smartnic.Handler
	settling
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
	if cfg.Yard == nil {
		cfg.Yard = &Yard{}
	}
	n := &NIC{cfg: cfg, shipped: map[uint64]*kept{}, shards: make([]*shard, cfg.Nodes)}
	n.begin(placement.Initial(cfg.Nodes, cfg.Replicas))
	var err error
	if n.shards[cfg.Node], err = serve(Served{Tables: cfg.Tables, Memory: cfg.Memory}); err != nil {
		return nil, err
	}
	if !n.order(cfg.Node) {
		return nil, errors.New("xenic: tables are changed while a NIC looks at them")
	}
	for i, c := range cfg.Cores {
		l := cfg.Logs[i]
		w, err := log.NewWriter(log.WriterConfig{Capacity: l.Capacity, Generation: l.Generation})
		if err != nil {
			return nil, err
		}
		x := &core{nic: n, c: c, log: w, at: l.At, txs: map[uint64]*coordination{}, kinds: map[uint8]smartnic.Handler{}}
		n.cores = append(n.cores, x)
		x.handle()
	}
	return n, nil
}

// serve makes the indexes of a shard, with nothing in them.
func serve(d Served) (*shard, error) {
	s := &shard{memory: d.Memory}
	for i, t := range d.Tables {
		v := robinhood.MakeView(t.Config, t.At)
		x, err := nicindex.New(nicindex.Config{Name: t.Name, Segments: v.Segments(), ValueBytes: t.ValueBytes,
			Budget: t.Budget, Mutation: t.Index})
		if err != nil {
			return nil, err
		}
		s.orders = append(s.orders, nil)
		r := records{room: t.Room, entries: t.Loaded}
		if d.Deleted != nil {
			r.deleted = d.Deleted[i]
		}
		s.records, s.views, s.indexes = append(s.records, r), append(s.views, v), append(s.indexes, x)
	}
	return s, nil
}

// raise notes the incarnation of a deletion.
func (r *records) raise(incarnation uint32) { r.deleted = max(r.deleted, incarnation) }

// at is a shard that the NIC serves, and that a transaction may reach; nil: it does not.
func (n *NIC) at(r Ref) *shard {
	if s := n.shards[n.cfg.Shard(r)]; s != nil && (!s.restoring || n.lacks(ServeEarly)) {
		return s
	}
	return nil
}

// node is the node of a record's primary; -1: its shard is lost.
func (n *NIC) node(r Ref) int { return n.primary[n.cfg.Shard(r)] }

// serves reports whether the node is the primary of some records, and may lock them.
func (n *NIC) serves(list []Access) bool {
	for _, a := range list {
		if n.node(a.Ref) != n.cfg.Node || n.at(a.Ref) == nil {
			return false
		}
	}
	return true
}

// handle registers who takes which message.
func (x *core) handle() {
	c, n := x.c, x.nic
	// take has a message of the present view handled; one of a later view waits for that, and one of an older is dropped.
	take := func(kind uint8, serve func(m *smartnic.Message)) {
		x.kinds[kind] = func(m *smartnic.Message) {
			if n.admits(x, m) {
				serve(m)
			}
		}
		c.Handle(kind, x.kinds[kind])
	}
	// start takes a request in a fiber of its own.
	start := func(kind uint8, serve func(f *fiber.Fiber, from int, d *decoder)) {
		take(kind, func(m *smartnic.Message) {
			from, d := m.From, &decoder{b: append([]byte(nil), m.Payload...)}
			n.run(x, func(f *fiber.Fiber) { serve(f, from, d) })
		})
	}
	start(msgExecute, x.onExecute)
	start(msgValidate, x.onValidate)
	start(msgRead, x.onRead)
	start(msgLock, x.onLock)
	start(msgKeys, x.onKeys)
	start(msgLog, x.onLog)
	start(msgCommit, x.onCommit)
	start(msgShip, x.onShip)
	start(msgSettle, x.onSettle)
	c.Handle(msgBegin, func(m *smartnic.Message) { x.onBegin(&decoder{b: m.Payload}) })
	c.Handle(msgLocal, func(m *smartnic.Message) { x.onLocal(&decoder{b: m.Payload}, Commits) })
	c.Handle(msgRefuse, func(m *smartnic.Message) { x.onLocal(&decoder{b: m.Payload}, Aborts) })
	take(msgUnlock, func(m *smartnic.Message) {
		d := &decoder{b: m.Payload}
		tx, list := d.u64(), d.accesses()
		if x.takes(d, list, nil) {
			n.unlock(tx, refs(list))
		}
	})
	take(msgSettled, func(m *smartnic.Message) { x.onSettled(m.From, &decoder{b: m.Payload}) })
	for _, kind := range []uint8{msgExecuted, msgHas, msgFound, msgValidated, msgHeld, msgLogged, msgCommitted, msgRefused, msgReturned, msgFinish} {
		take(kind, func(m *smartnic.Message) {
			d := &decoder{b: append([]byte(nil), m.Payload...)}
			if t := x.txs[d.u64()]; t != nil {
				t.answer(m.Kind, m.From, d)
			}
		})
	}
	c.Handle(msgApplied, x.onApplied)
	c.Handle(msgAsk, func(m *smartnic.Message) { n.onAsk(m.From, append([]byte(nil), m.Payload...)) })
	c.Handle(msgSay, func(m *smartnic.Message) { n.onSay(m.From, append([]byte(nil), m.Payload...)) })
}

// run runs something in a fiber of a core. A change of the members waits for its end.
func (n *NIC) run(x *core, body func(f *fiber.Fiber)) {
	n.busy++
	x.c.Worker().Go("xenic", nil, func(f *fiber.Fiber) error {
		defer func() { n.busy-- }()
		body(f)
		return nil
	})
}

// takes reports whether a message is one that a NIC or a host sends: it is whole, and its records can be.
func (x *core) takes(d *decoder, list []Access, updates []Update) bool {
	ok := !d.bad
	for _, a := range list {
		ok = ok && int(a.Table) < len(x.nic.cfg.Tables)
	}
	for _, u := range updates {
		ok = ok && int(u.Table) < len(x.nic.cfg.Tables) &&
			(len(u.Bytes) == 0 || u.Version.Live() && len(u.Bytes) == x.nic.cfg.Tables[u.Table].ValueBytes)
	}
	if !ok {
		x.nic.Stats.Malformed++
	}
	return ok
}

// BusyPs is the CPU time of all cores in the simulator, in picoseconds; 0 elsewhere.
func (n *NIC) BusyPs() (ps uint64) {
	for _, x := range n.cores {
		ps += x.c.Worker().Stats.BusyPs
	}
	return ps
}

// Owed is how much is left to do of transactions that have ended for their clients: at this NIC, and by its host.
func (n *NIC) Owed() (owed int) {
	for _, x := range n.cores {
		owed += x.ending + len(x.appends) + len(x.untold)
		for i := range x.nodes {
			owed += len(x.nodes[i].forget) + len(x.nodes[i].sent)
		}
		if x.log.Tail() != x.log.Head() {
			owed++
		}
	}
	for _, s := range n.shards {
		if s != nil {
			for _, i := range s.indexes {
				owed += i.Stats.Pinned
				i.EachLocked(func(_ int, _ uint64, by nicindex.Owner) {
					if n.views(uint64(by)) < 0 {
						owed++ // others are of transactions under way
					}
				})
			}
		}
	}
	return owed + len(n.cfg.Yard.held) + len(n.left) + len(n.owed)
}

// send sends a message to the core of the same index on another node's NIC.
func (x *core) send(node int, kind uint8, e *encoder) {
	x.nic.Stats.Requests++
	x.c.Send(node, x.c.Index(), kind, e.b)
}

func refs(list []Access) (r []Ref) {
	for _, a := range list {
		r = append(r, a.Ref)
	}
	return r
}

func (n *NIC) lacks(m Mutation) bool { return n.cfg.Mutation == m }
