// Package occtest measures what the instances of package occ send, for their tests. Transactions run in the
// simulator, one at a time, so that the counts are exact.
package occtest

import (
	"context"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/occ"
	"drtmd/proto/option"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/fiber"
)

// ValueBytes of every record: its entry takes one line.
const ValueBytes = micro.ValueBytes

// Shape is a transaction of node 0: Reads records that it reads, and Writes that it reads and writes, spread
// over the shards of so many other Nodes. Of each shard there are Replicas, and no node has one of two of them.
type Shape struct{ Reads, Writes, Nodes, Replicas int }

// Shapes are Xenic's O(0,1) and O(4,2) (§2.2.2), on one node and on two, and a transaction of one read; without
// backups, and with two.
func Shapes() (all []Shape) {
	for _, replicas := range []int{1, 3} {
		all = append(all, Shape{Writes: 1, Nodes: 1, Replicas: replicas}, Shape{Reads: 1, Nodes: 1, Replicas: replicas},
			Shape{Reads: 4, Writes: 2, Nodes: 1, Replicas: replicas}, Shape{Reads: 4, Writes: 2, Nodes: 2, Replicas: replicas})
	}
	return all
}

// Logs says how many nodes hold a log record of the transaction, and what the records take together: whole
// lines of 64 bytes for 56 bytes, 24 for each write, and the values of the writes on the node's shard.
func (s Shape) Logs() (holders, bytes int) {
	if s.Writes == 0 {
		return 0, 0
	}
	holders = s.Nodes * (s.Replicas - 1)
	one := 56 + 24*s.Writes + ValueBytes*s.Writes/s.Nodes
	return holders, holders * ((one + 63) / 64 * 64)
}

// Traffic by phase.
type Traffic [proto.PhaseEnd]proto.Traffic

// Count adds requests of a phase, and their bytes: all in flight at once.
func (t *Traffic) Count(p proto.Phase, requests, bytes int) {
	if requests > 0 {
		t[p].Add(proto.Traffic{Requests: uint64(requests), Bytes: uint64(bytes)})
		t[p].Trips = 1
	}
}

// Check compares a protocol's traffic with a table, for all shapes and both values of option "lock". The
// transaction that is measured comes second, when the places of its records are known.
func Check(t *testing.T, p node.Protocol, table func(lock string, s Shape) Traffic) {
	for _, lock := range []string{occ.LockEarly, occ.LockLate} {
		for _, s := range Shapes() {
			got, want := Measure(t, p, option.Settings{occ.OptLock: lock}, s)[1], table(lock, s)
			for _, p := range proto.Phases() {
				if got[p] != want[p] {
					t.Errorf("lock at %s, %+v, %v: %+v, want %+v", lock, s, p, got[p], want[p])
				}
			}
		}
	}
}

// Measure runs a transaction twice, and gives the traffic of each.
func Measure(t *testing.T, p node.Protocol, o option.Settings, s Shape) [2]Traffic {
	t.Helper()
	return measureShape(t, p, node.SimulatedConfig{Config: node.Config{Options: o}}, s)
}

// MeasureWithoutLineWords is Measure on devices that have none.
func MeasureWithoutLineWords(t *testing.T, p node.Protocol, o option.Settings, s Shape) [2]Traffic {
	t.Helper()
	return measureShape(t, p, node.SimulatedConfig{Config: node.Config{Options: o}, WithoutLineWords: true}, s)
}

func measureShape(t *testing.T, p node.Protocol, c node.SimulatedConfig, s Shape) [2]Traffic {
	t.Helper()
	var d proto.Decl
	s.Replicas = max(s.Replicas, 1)
	for i := range s.Reads + s.Writes {
		d.Accesses = append(d.Accesses, access(1+s.Replicas*(i%s.Nodes), i, i >= s.Reads))
	}
	c.Nodes, c.Replicas = max(1+s.Nodes*s.Replicas, 3), s.Replicas
	d.Kind = 1
	return measureRuns(t, p, c, func(f *fiber.Fiber, e proto.Engine) error { return run(f, e, &d) })
}

// Figure7 is the traffic of the transaction of Xenic's Figure 7(a): of six nodes with three replicas of each
// record, it writes a record of its own node's shard and one of another, whose backups are others again.
func Figure7(t *testing.T, p node.Protocol, o option.Settings) Traffic {
	t.Helper()
	d := &proto.Decl{Accesses: []proto.Access{access(0, 0, true), access(3, 0, true)}}
	return measure(t, p, o, node.Config{Nodes: 6, Replicas: 3}, d)[1]
}

// MeasureOf runs a transaction of node 0 twice on a cluster, and gives the traffic of the second.
func MeasureOf(t *testing.T, p node.Protocol, c node.Config, d *proto.Decl) Traffic {
	t.Helper()
	return measure(t, p, c.Options, c, d)[1]
}

// Access is one to record i of a shard that has a value.
func Access(shard, i int, writes bool) proto.Access { return access(shard, i, writes) }

// Messages are all that a transaction has sent and been answered, and the delays until its client is told.
func (t Traffic) Messages() (messages, delays uint64) {
	for _, p := range proto.Phases() {
		messages += 2 * t[p].Requests
		if p < proto.PhaseCommit {
			delays += 2 * t[p].Trips
		}
	}
	return messages, delays
}

// MeasureProgram runs a program of node 0 twice on a cluster, whose transactions declare nothing, and gives the traffic of
// the second.
func MeasureProgram(t *testing.T, p node.Protocol, c node.Config, program func(tx proto.Txn) error) Traffic {
	t.Helper()
	return measureRuns(t, p, node.SimulatedConfig{Config: c}, func(f *fiber.Fiber, e proto.Engine) error {
		tx, err := e.Begin(f, &proto.Decl{Kind: 1}, 0)
		if err != nil {
			return err
		}
		if err := program(tx); err != nil {
			return err
		}
		return tx.Commit()
	})[1]
}

// measure runs a transaction twice on node 0.
func measure(t *testing.T, p node.Protocol, o option.Settings, c node.Config, d *proto.Decl) [2]Traffic {
	t.Helper()
	d.Kind = 1
	c.Options = o
	return measureRuns(t, p, node.SimulatedConfig{Config: c},
		func(f *fiber.Fiber, e proto.Engine) error { return run(f, e, d) })
}

// measureRuns runs a function twice on node 0.
func measureRuns(t *testing.T, p node.Protocol, c node.SimulatedConfig,
	run func(*fiber.Fiber, proto.Engine) error) (got [2]Traffic) {
	t.Helper()
	m, err := micro.New(micro.Default(c.Nodes))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c.Protocol, c.Workload = p, m
	cluster, err := node.NewSimulated(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = cluster.Start("measure", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 {
			return nil
		}
		var before Traffic
		for i := range got {
			if err := run(f, w.Engine); err != nil {
				return err
			}
			if err := f.Sleep(answersCome); err != nil {
				return err
			}
			now := Traffic(w.Engine.Stats().Phases)
			got[i] = now.minus(before)
			before = now
		}
		return nil
	}).Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (t Traffic) minus(o Traffic) Traffic {
	for p := range t {
		t[p].Requests -= o[p].Requests
		t[p].Trips -= o[p].Trips
		t[p].Bytes -= o[p].Bytes
	}
	return t
}

// answersCome is how long what no transaction waits for has to be answered: less than until a host is told what is
// decided.
const answersCome = 50 * time.Microsecond

// access is one to a record of a shard that has a value.
func access(shard, i int, writes bool) proto.Access {
	a := proto.Access{Table: micro.Items, Mode: proto.ModeRead, Key: proto.Key(shard)<<48 | proto.Key(2*i)}
	if writes {
		a.Mode = proto.ModeWrite
	}
	return a
}

// run runs one attempt.
func run(f *fiber.Fiber, e proto.Engine, d *proto.Decl) error {
	tx, err := e.Begin(f, d, 0)
	if err != nil {
		return err
	}
	value := make([]byte, ValueBytes)
	for _, a := range d.Accesses {
		if err := tx.Read(a.Table, a.Key, value); err != nil {
			return err
		}
		if a.Mode == proto.ModeWrite {
			if err := tx.Write(a.Table, a.Key, value); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}
