package reproduce

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/fiber"
)

// Table 4 of Dandelion: which replicas each step of a commit reaches, and the trips before the client is told.

const (
	commitNodes = 1 + 2*copies // the coordinator, the replicas of what is read, and those of what is written
	readShard   = 1
	writeShard  = readShard + copies
	table4      = "Table 4"
	// answersCome is how long all that is sent takes to be answered; no host is told what is decided before.
	answersCome = 50 * time.Microsecond
)

// phases is what a transaction has sent.
type phases [proto.PhaseEnd]proto.Traffic

// minus is what was sent since.
func (p phases) minus(o phases) phases {
	for i := range p {
		p[i].Requests -= o[i].Requests
		p[i].Records -= o[i].Records
		p[i].Trips -= o[i].Trips
		p[i].Bytes -= o[i].Bytes
	}
	return p
}

// commitTrips are the trips from the commit on.
func (p phases) commitTrips() (n uint64) {
	for _, x := range []proto.Phase{proto.PhaseLock, proto.PhaseValidate, proto.PhaseLog, proto.PhaseCommit} {
		n += p[x].Trips
	}
	return n
}

// onCluster runs a program on node 0 of a simulated cluster with replicas.
func (r *Run) onCluster(protocol string, nodes int, program func(f *fiber.Fiber, w *node.Worker) error) error {
	m, err := micro.New(micro.Default(nodes))
	if err != nil {
		return err
	}
	return r.onClusterOf(m, protocol, nodes, program)
}

// onClusterOf is onCluster with the tables of a workload.
func (r *Run) onClusterOf(m workload.Workload, protocol string, nodes int,
	program func(f *fiber.Fiber, w *node.Worker) error) (err error) {
	p, err := node.FindProtocol(protocol)
	if err != nil {
		return err
	}
	c, err := node.NewSimulated(r.ctx, node.SimulatedConfig{Config: node.Config{Protocol: p, Workload: m, Nodes: nodes,
		Replicas: copies}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.Start("reproduce", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 {
			return nil
		}
		return program(f, w)
	}).Wait(r.ctx)
}

// accessTo is one to the first item of a shard, which exists.
func accessTo(shard int, writes bool) proto.Access {
	a := proto.Access{Table: micro.Items, Mode: proto.ModeRead, Key: proto.Key(shard) << 48}
	if writes {
		a.Mode = proto.ModeWrite
	}
	return a
}

// execute begins a transaction, and reads and writes what it declares.
func execute(f *fiber.Fiber, e proto.Engine, d *proto.Decl) (proto.Tx, error) {
	tx, err := e.Begin(f, d, 0)
	if err != nil {
		return nil, err
	}
	value := make([]byte, micro.ValueBytes)
	for _, a := range d.Accesses {
		if err := tx.Read(a.Table, a.Key, value); err != nil {
			return nil, err
		}
		if a.Mode == proto.ModeWrite {
			if err := tx.Write(a.Table, a.Key, value); err != nil {
				return nil, err
			}
		}
	}
	return tx, nil
}

// commitSteps are what a transaction sends that reads a record, and writes another or reads that, too; and one that
// aborts because what it has read was changed.
func (r *Run) commitSteps(protocol string, writes bool) (committed, aborted phases, err error) {
	d := &proto.Decl{Kind: 1, Accesses: []proto.Access{accessTo(readShard, false), accessTo(writeShard, writes)}}
	change := &proto.Decl{Kind: 1, Accesses: []proto.Access{accessTo(writeShard, true)}}
	err = r.onCluster(protocol, commitNodes, func(f *fiber.Fiber, w *node.Worker) error {
		sent := func() (phases, error) { return phases(w.Engine.Stats().Phases), f.Sleep(answersCome) }
		commit := func(d *proto.Decl) error {
			tx, err := execute(f, w.Engine, d)
			if err == nil {
				err = tx.Commit()
			}
			return err
		}
		before, _ := sent()
		if err := commit(d); err != nil {
			return err
		}
		if err := f.Sleep(answersCome); err != nil {
			return err
		}
		after, err := sent()
		if committed = after.minus(before); err != nil {
			return err
		}
		tx, err := execute(f, w.Engine, d)
		if err == nil {
			err = commit(change)
		}
		if err == nil {
			err = f.Sleep(answersCome)
		}
		if err != nil {
			return err
		}
		before, _ = sent()
		if err := tx.Commit(); proto.AbortReason(err) == 0 {
			return errors.Join(errCommits, err)
		}
		after, err = sent()
		aborted = after.minus(before)
		return err
	})
	return committed, aborted, err
}

// localReads is the share in percent of the reads of one record at each shard for which EXECUTE sends no request:
// each a transaction of its own (GetOne), or all of one.
func (r *Run) localReads(protocol string, nodes int, alone bool) (percent float64, err error) {
	err = r.onCluster(protocol, nodes, func(f *fiber.Fiber, w *node.Worker) error {
		reads := make([]proto.Access, nodes)
		for shard := range reads {
			reads[shard] = accessTo(shard, false)
		}
		each := nodes
		if alone {
			each = 1
		}
		before := w.Engine.Stats().Phases[proto.PhaseExecute].Requests
		for together := range slices.Chunk(reads, each) {
			tx, err := execute(f, w.Engine, &proto.Decl{Kind: 1, Accesses: together})
			if err == nil {
				err = tx.Commit()
			}
			if err != nil {
				return err
			}
		}
		remote := w.Engine.Stats().Phases[proto.PhaseExecute].Requests - before
		percent = 100 * float64(nodes-int(remote)) / float64(nodes)
		return nil
	})
	return percent, err
}

// errCommits is of a transaction that should have aborted.
var errCommits = errors.New("a transaction whose read was changed meanwhile does not abort")

// commitRow is a row of Table 4 as requests: of one record that is read and one that is written, with three replicas.
type commitRow struct {
	name, protocol                  string
	inLog                           bool // the log record is the request to lock
	lock, validate, replicate, undo float64
	trips, abort                    float64 // abort 0: the paper does not say
}

// dandelionTable4 counts requests and trips.
func dandelionTable4(r *Run) (*Outcome, error) {
	o := &Outcome{Conditions: fmt.Sprintf("%d simulated nodes, %d replicas; a transaction of node 0 reads a record of one "+
		"shard and writes one of another, without local replicas; nothing is drawn, so there are no seeds", commitNodes, copies)}
	rows := []commitRow{{"Dnl-4", dnl4Name, false, 1, 1, copies - 1, 1, 4, 0},
		{"Dnl-2", dnl2Name, false, 2, 0, copies, 2, 2, 0},
		{"Dnl-1", dnl1Name, true, 2 * copies, 0, 0, 2 * copies, 1, 2}}
	// A read that is alone in its transaction has no request with Dnl-2; with Dnl-4 it has one, which validates it, too.
	locals := []struct {
		protocol, what string
		nodes          int
		alone          bool
	}{{dnl2Name, "Dnl-2: single reads without a request", 5, true}, {dnl2Name, "Dnl-2: single reads without a request", 50, true},
		{dnl4Name, "Dnl-4: reads of one transaction, executed without a request", 5, false},
		{dnl4Name, "Dnl-4: reads of one transaction, executed without a request", 50, false}}
	for i, x := range rows {
		if err := r.step(i, len(rows)+len(locals)+1); err != nil {
			return nil, err
		}
		got, aborted, err := r.commitSteps(x.protocol, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
		lock, replicate := got[proto.PhaseLock], got[proto.PhaseLog]
		if x.inLog {
			lock, replicate = replicate, lock
		}
		o.count(x.name+": requests of locking", x.lock, lock.Requests)
		o.count(x.name+": requests of validation", x.validate, got[proto.PhaseValidate].Requests)
		o.count(x.name+": requests of replication", x.replicate, replicate.Requests)
		o.count(x.name+": requests of unlocking", x.undo, got[proto.PhaseCommit].Requests)
		o.count(x.name+": trips until the client knows", x.trips, got.commitTrips())
		if x.abort > 0 {
			o.count(x.name+": trips of an abort", x.abort, aborted.commitTrips())
		}
	}
	got, _, err := r.commitSteps(dnl4Name, false)
	if err != nil {
		return nil, fmt.Errorf("Dnl-RO: %w", err)
	}
	o.count("Dnl-RO: requests of validation", 2, got[proto.PhaseValidate].Requests)
	o.count("Dnl-RO: requests of all other steps", 0, got[proto.PhaseLock].Requests+got[proto.PhaseLog].Requests+
		got[proto.PhaseCommit].Requests)
	for i, x := range locals {
		if err := r.step(len(rows)+1+i, len(rows)+len(locals)+1); err != nil {
			return nil, err
		}
		percent, err := r.localReads(x.protocol, x.nodes, x.alone)
		if err != nil {
			return nil, err
		}
		want := 100 * float64(copies) / float64(x.nodes)
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("%s, %d machines", x.what, x.nodes), unit: "%",
			section: "§4.3", printed: fixed(want, 0), paper: want, limit: within(0), reading: "R/N; one read at each shard"}.
			seen(percent))
	}
	return o, nil
}

// count adds a row of a count that Table 4 says.
func (o *Outcome) count(what string, paper float64, ours uint64) {
	o.Rows = append(o.Rows, number{what: what, section: table4, printed: fixed(paper, 0), paper: paper,
		limit: within(0), reading: "P is one replica, B are two; R and W are one record each"}.seen(float64(ours)))
}
