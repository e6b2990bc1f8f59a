package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Options of Open. Zero fields take the defaults named.
type Options struct {
	// Tables of the database; Open numbers them from 1, in this order. Each needs a name, the size of
	// its values, and a Capacity per node.
	Tables []proto.TableSpec
	Nodes  int // members, all in this process; 0 = 1
	// Protocol is a name of Protocols; "" is "drtm".
	Protocol string
	// Place says on which node a record lives; nil: its key modulo the number of nodes. It is called
	// for each access, from any thread, and always gives the same answer.
	Place func(t proto.TableID, k proto.Key) proto.NodeID
	// Load puts the records that there are in the beginning; nil: none. It is called once for each
	// node, which keeps those that live there; value is copied.
	Load func(put func(t proto.TableID, k proto.Key, value []byte) error) error
	// Provider of the devices; nil is shared memory. Device "" is its first one with an active port.
	Provider verbs.Provider
	Device   string
	Threads  int // OS threads that run the nodes; 0 = 1
	Fibers   int // transactions of a node that run at the same time; 0 = 16, others wait
	// Record keeps the history of all transactions in memory, for package check: see DB.Cluster.
	Record bool
}

// DB is a cluster for a program that embeds one: Run is all that it takes to run a transaction. Its
// methods may be called from any goroutine.
type DB struct {
	cluster *Cluster
	workers []*Worker       // by node
	slots   []chan struct{} // by node: one for each transaction that runs
	turn    atomic.Uint64
}

// Open makes a cluster in this process, loads its tables, connects its members, and starts it. The
// caller closes it.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Protocol == "" {
		o.Protocol = Protocols()[0].Name
	}
	protocol, err := FindProtocol(o.Protocol)
	if err != nil {
		return nil, err
	}
	cfg := LocalConfig{Config: Config{Protocol: protocol, Nodes: max(o.Nodes, 1), Fibers: o.Fibers,
		Seed: rand.Uint64(), Workload: newEmbedded(&o)},
		Provider: o.Provider, Device: o.Device, Threads: o.Threads}
	if o.Record {
		cfg.Record = &Recording{}
	}
	cluster, err := NewLocal(ctx, cfg)
	if err != nil {
		return nil, err
	}
	db := &DB{cluster: cluster}
	for _, m := range cluster.Members {
		db.workers = append(db.workers, m.Workers[0])
		db.slots = append(db.slots, make(chan struct{}, cluster.Config.Fibers))
	}
	return db, nil
}

// Cluster is what the DB stands on, for what a DB does not offer. With Options.Record, its methods Stop
// and History give what package check proves strictly serializable.
func (db *DB) Cluster() *Cluster { return db.cluster }

// Run runs a transaction on some node: see RunAt.
func (db *DB) Run(ctx context.Context, program func(tx proto.Txn) error) error {
	turn := db.turn.Add(1)
	return db.RunAt(ctx, proto.NodeID(turn%uint64(len(db.slots))), program)
}

// RunAt runs a transaction on a node until it is committed, which is nil. program may be called
// any number of times, on the node's thread, and sees a view that may be doomed to abort: it has no
// effect but through tx, its loops are bounded, it does not wait, and it returns the errors of tx at
// once. If it returns an error of its own, such as proto.ErrRollback, the transaction is rolled back
// and RunAt returns that error. A *proto.Abort is returned if the transaction could not be committed,
// proto.ErrUnknownOutcome if nobody can tell, and ctx's error if it ended before.
//
// Protocols that need to know a transaction's records before it begins are told by a run of program
// on unprotected reads (reconnaissance, DrTM §7.4).
func (db *DB) RunAt(ctx context.Context, n proto.NodeID, program func(tx proto.Txn) error) error {
	if int(n) >= len(db.slots) {
		return fmt.Errorf("node %d: the nodes are 0 to %d", n, len(db.slots)-1)
	}
	select {
	case db.slots[n] <- struct{}{}:
		defer func() { <-db.slots[n] }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w := db.workers[n]
	task := newTasks(db.cluster.host, 1)
	var err error
	w.Worker.Submit("transaction", func(f *fiber.Fiber) error {
		err = runOne(ctx, f, w, db.cluster.Config.Protocol.Declared, program)
		return nil
	}, task.ended)
	// It is waited for whatever ctx says: program must not run when the caller has gone on.
	if stopped := task.Wait(context.WithoutCancel(ctx)); stopped != nil {
		return stopped
	}
	return err
}

// Close ends the transactions under way, and frees everything. It may be called twice.
func (db *DB) Close() error { return db.cluster.Close() }

// runOne runs a transaction on a fiber of a worker.
func runOne(ctx context.Context, f *fiber.Fiber, w *Worker, declared bool,
	program func(tx proto.Txn) error) error {
	r := proto.Runner{Engine: w.Engine, Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		GiveUp: func() bool { return ctx.Err() != nil }}
	var p proto.Program = funcProgram(program)
	if declared {
		p = &scout{program: program, specs: w.Specs}
	}
	result, err := r.Run(f, &proto.Decl{Kind: 1}, p)
	if result.Outcome == proto.RolledBack {
		return proto.ErrRollback
	}
	if proto.AbortReason(err) != 0 && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// funcProgram is a program of a protocol that takes any access.
type funcProgram func(tx proto.Txn) error

func (p funcProgram) Execute(tx proto.Txn) error { return p(tx) }

// embedded is the workload of a DB: tables and their content. Its transactions come from the program.
type embedded struct{ o *Options }

func newEmbedded(o *Options) embedded {
	tables := append([]proto.TableSpec(nil), o.Tables...)
	for i := range tables {
		tables[i].ID = proto.TableID(i + 1)
	}
	own := *o
	own.Tables, own.Nodes = tables, max(o.Nodes, 1)
	return embedded{&own}
}

func (embedded) Name() string                 { return "embedded" }
func (e embedded) Tables() []proto.TableSpec  { return e.o.Tables }
func (e embedded) Placement() proto.Placement { return e }
func (embedded) Kinds() []string              { return []string{"transaction"} }
func (embedded) Sums() []string               { return nil }

func (e embedded) Locate(t proto.TableID, k proto.Key) proto.Location {
	if e.o.Place != nil {
		return proto.Location{Primary: e.o.Place(t, k)}
	}
	return proto.Location{Primary: proto.NodeID(uint64(k) % uint64(e.o.Nodes))}
}

func (e embedded) Load(n proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error {
	if e.o.Load == nil {
		return nil
	}
	return e.o.Load(func(t proto.TableID, k proto.Key, value []byte) error {
		if int(t) < 1 || int(t) > len(e.o.Tables) {
			return proto.UnknownTable(t, k, len(e.o.Tables))
		}
		if want := e.o.Tables[t-1].ValueBytes; len(value) != want {
			return proto.WrongSize(t, k, len(value), want)
		}
		home, err := proto.Home(e, t, k, e.o.Nodes)
		if err != nil || home != n {
			return err
		}
		return put(t, k, value)
	})
}

func (embedded) NewClient(proto.NodeID, *rand.Rand) workload.Client { return idle{} }

func (embedded) Count(proto.NodeID, func(proto.TableID, proto.Key, []byte) error) (
	initial, final workload.Quantities, err error) {
	return initial, final, nil
}

// idle is a client whose transactions do nothing.
type idle struct{}

func (idle) Next() (*proto.Decl, proto.Program) {
	return &proto.Decl{Kind: 1, ReadOnly: true}, funcProgram(func(proto.Txn) error { return nil })
}
func (idle) Done(proto.Outcome)     {}
func (idle) AddTo(*workload.Ledger) {}
