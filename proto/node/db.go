package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/option"
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
	// Protocol is a name of Protocols; "" is DefaultProtocol.
	Protocol string
	// Own is a protocol of the program's, to run instead of one of Protocols; nil: none.
	Own *Protocol
	// Settings are values of the protocol's options, by name; the others have their defaults.
	Settings option.Settings
	// Place returns the node on which a record lives; nil: its key modulo the number of nodes. It is
	// called for each access, from any thread, and must always return the same node.
	Place func(t proto.TableID, k proto.Key) proto.NodeID
	// Load puts the initial records; nil: none. It is called once for each node, which keeps the records
	// that live there; value is copied.
	Load func(put func(t proto.TableID, k proto.Key, value []byte) error) error
	// Provider of the devices; nil is shared memory. Device "" is its first one with an active port.
	Provider verbs.Provider
	Device   string
	Threads  int // OS threads that run the nodes; 0 = 1
	Fibers   int // transactions of a node that run at the same time; 0 = 16, others wait
	// Record keeps the history of all transactions in memory, for package check: see DB.Cluster.
	Record bool
}

// DB is a cluster for a program that embeds one: Run runs a transaction. Any goroutine may call its methods.
type DB struct {
	cluster *Cluster
	workers []*Worker       // by node
	slots   []chan struct{} // by node: one for each transaction that runs
	turn    atomic.Uint64
}

// Open builds a cluster in this process, loads its tables, connects its members, and starts it. The caller
// closes it.
func Open(ctx context.Context, o Options) (*DB, error) {
	protocol, err := o.protocol()
	if err != nil {
		return nil, err
	}
	cfg := LocalConfig{Config: Config{Protocol: protocol, Options: o.Settings, Nodes: max(o.Nodes, 1),
		Fibers: o.Fibers, Seed: rand.Uint64(), Workload: newEmbedded(&o)},
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

// protocol is the one that the options name, or the program's own.
func (o *Options) protocol() (Protocol, error) {
	switch {
	case o.Own == nil:
		return FindProtocol(cmp.Or(o.Protocol, DefaultProtocol().Name))
	case o.Own.Name == "" || o.Own.New == nil:
		return Protocol{}, fmt.Errorf("protocol %q of Options.Own: it needs a Name and New", o.Own.Name)
	case o.Protocol != "" && o.Protocol != o.Own.Name:
		return Protocol{}, fmt.Errorf("Options name protocol %s, and their own is %s: leave one out", o.Protocol,
			o.Own.Name)
	}
	if _, err := FindProtocol(o.Own.Name); err == nil {
		return Protocol{}, fmt.Errorf("protocol %s of Options.Own has the name of a built-in protocol: give it "+
			"another name", o.Own.Name)
	}
	return FindProtocol(o.Own.Name, *o.Own)
}

// Cluster returns the cluster of the DB, for everything that a DB does not offer. With Options.Record, its
// methods Stop and History return the history that package check proves strictly serializable.
func (db *DB) Cluster() *Cluster { return db.cluster }

// Run runs a transaction on some node: see RunAt.
func (db *DB) Run(ctx context.Context, program func(tx proto.Txn) error) error {
	turn := db.turn.Add(1)
	return db.RunAt(ctx, proto.NodeID(turn%uint64(len(db.slots))), program)
}

// RunAt runs a transaction on a node until it is committed, and then returns nil. It may call program any
// number of times, on the node's thread, also on an inconsistent view that will abort. So program has no
// effect except through tx, its loops are bounded, it does not wait, and it returns errors of tx at once. If
// program returns an error of its own, such as proto.ErrRollback, RunAt rolls the transaction back and returns
// that error. RunAt returns a *proto.Abort if the transaction could not be committed, proto.ErrUnknownOutcome
// if its outcome is unknown, and the error of ctx if that ended before: then the transaction ends where it waits.
//
// For protocols that need a transaction's records before it begins, RunAt finds them by a run of program on
// unprotected reads (reconnaissance, DrTM §7.4).
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
	var scope *fiber.Scope // of the worker's thread
	var err error
	w.Worker.Submit("transaction", func(f *fiber.Fiber) error {
		scope = w.Worker.NewScope()
		t := w.Worker.Go("transaction", scope, func(f *fiber.Fiber) error {
			return runOne(ctx, f, w, db.cluster.Config.Protocol.Declared, program)
		})
		err = f.Join(t, 0)
		return nil
	}, task.ended)
	// When ctx ends, the transaction waits for nothing more. What it has begun to commit ends first.
	stop := context.AfterFunc(ctx, func() {
		w.Worker.Submit("cancel", func(*fiber.Fiber) error {
			scope.Cancel(context.Cause(ctx))
			return nil
		}, nil)
	})
	defer stop()
	// Wait even if ctx ends: program must not run after RunAt has returned.
	if stopped := task.Wait(context.WithoutCancel(ctx)); stopped != nil {
		return stopped
	}
	return err
}

// Close ends the transactions in progress, and frees everything. It may be called twice.
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

func (embedded) Check(proto.NodeID, workload.Contents) (initial, final workload.Quantities, err error) {
	return initial, final, nil
}

// idle is a client whose transactions do nothing.
type idle struct{}

func (idle) Next() (*proto.Decl, proto.Program) {
	return &proto.Decl{Kind: 1, ReadOnly: true}, funcProgram(func(proto.Txn) error { return nil })
}
func (idle) Done(proto.Outcome)     {}
func (idle) AddTo(*workload.Ledger) {}
