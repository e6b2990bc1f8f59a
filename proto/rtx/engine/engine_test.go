package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

func TestMain(m *testing.M) {
	if os.Getenv(clientVariable) != "" {
		os.Exit(countingProcess())
	}
	goleak.VerifyTestMain(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// everywhere places all records on node 0.
type everywhere struct{}

func (everywhere) Locate(proto.TableID, proto.Key) proto.Location { return proto.Location{} }

const fibers = 2

// bed is a memory node with one client, on shared memory.
type bed struct {
	t      testing.TB
	server *memnode.Server
	worker *fiber.Worker
	thread *fiber.Thread
	way    *memnode.Way
	fibers int // of an engine
	index  engine.IndexSpec
	parts  engine.Options
}

// each runs a test on every system with every index.
func each(t *testing.T, test func(t *testing.T, system engine.System, index engine.IndexSpec)) {
	for _, system := range engine.Systems() {
		for _, index := range engine.Indexes() {
			t.Run(system.Name+"/"+index.Name, func(t *testing.T) { test(t, system, index) })
		}
	}
}

func newBed(t *testing.T, system engine.System, index engine.IndexSpec) *bed {
	return newBedOn(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")}), system, index)
}

func newBedOn(t testing.TB, p verbs.Provider, system engine.System, index engine.IndexSpec) *bed {
	var contexts []*verbs.Context
	for range 2 {
		c, err := p.Open("")
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		contexts = append(contexts, c)
	}
	format, err := system.Format(4<<20, fibers, &index, engine.Number{})
	must(t, err)
	b := &bed{t: t, fibers: fibers, index: index}
	b.server, err = memnode.NewServer(contexts[0], memnode.Config{Bytes: 4 << 20, Clients: 1, Format: format})
	must(t, err)
	b.thread, err = fiber.NewThread(fiber.ThreadConfig{Drain: 500 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() { must(t, b.thread.Close()) })
	pd, err := contexts[1].AllocPD()
	must(t, err)
	b.worker, err = b.thread.NewWorker(fiber.WorkerConfig{Name: "client", PD: pd})
	must(t, err)
	b.way, err = memnode.Join(b.server.Admit, 1, []*fiber.Worker{b.worker}, verbs.ConnectAttr{})
	must(t, err)
	return b
}

// run has a fiber run a body with an engine, which must succeed.
func (b *bed) run(system string, body func(*engine.Engine, *fiber.Fiber) error) error {
	var ended error
	b.worker.Submit("test", func(f *fiber.Fiber) error {
		e, err := engine.New(f, engine.Config{Worker: b.worker, Conn: b.way.Conns[0], Memory: b.way.Memory, Fibers: b.fibers,
			Clock: rtxtest.RealTime{}, Timing: rtx.DefaultTiming(), Rand: rand.New(rand.NewPCG(1, 2)), System: system,
			Index: b.index.Name, Specs: []proto.TableSpec{{ID: 1, Name: "t", ValueBytes: 8, Capacity: 1000,
				Ordered: b.index.Ordered}},
			Placement: everywhere{}, Nodes: 1, Options: b.parts, RecorderClock: b.worker.PD().Context().Clock()})
		if err != nil {
			return err
		}
		return body(e, f)
	}, func(err error) { ended = err; b.thread.Stop() })
	return errors.Join(fiber.Threads(b.t.Context(), b.thread), ended)
}

// once runs one operation as a transaction.
func once(e *engine.Engine, f *fiber.Fiber, d *proto.Decl, op func(proto.Tx) error) error {
	for attempt := 0; ; attempt++ {
		tx, err := e.Begin(f, d, attempt)
		if err != nil {
			return err
		}
		if err = op(tx); err == nil {
			err = tx.Commit()
		} else if invalid := tx.Rollback(); invalid != nil {
			err = invalid
		}
		if proto.AbortReason(err) == 0 {
			return err
		}
	}
}

// Every system gives what a map gives, and what a walk over the index gives.
func TestTablesAreMaps(t *testing.T) {
	each(t, func(t *testing.T, system engine.System, index engine.IndexSpec) {
		b := newBed(t, system, index)
		must(t, b.run(system.Name, func(e *engine.Engine, f *fiber.Fiber) error {
			return operations(e, f, map[proto.Key]uint64{}, rand.New(rand.NewPCG(3, 4)))
		}))
	})
}

// Parts of rTX that are switched off, or that a baseline has, change what operations cost, and nothing else.
func TestTablesAreMapsWithPartsOfRTX(t *testing.T) {
	for name, x := range map[string]struct {
		system string
		parts  engine.Options
	}{
		"optimal, optimistic":         {"optimal", engine.Options{Optimistic: true}},
		"optimal, idempotent":         {"optimal", engine.Options{Optimistic: true, Idempotent: true}},
		"dtx, idempotent":             {"dtx", engine.Options{Idempotent: true}},
		"rtx, logged":                 {"rtx", engine.Options{Logged: true}},
		"rtx, logged, late, no hints": {"rtx", engine.Options{Logged: true, LateLocks: true, NoHints: true}},
	} {
		t.Run(name, func(t *testing.T) {
			system, _ := engine.FindSystem(x.system)
			index, _ := engine.FindIndex("sherman")
			b := newBed(t, system, index)
			b.parts = x.parts
			must(t, b.run(system.Name, func(e *engine.Engine, f *fiber.Fiber) error {
				err := operations(e, f, map[proto.Key]uint64{}, rand.New(rand.NewPCG(3, 4)))
				if s := e.Transactions(); x.parts.Logged && (s.Unlogged != 0 || s.Commits == 0) {
					t.Errorf("%d of %d commits had no log", s.Unlogged, s.Commits)
				}
				return err
			}))
		})
	}
}

func operations(e *engine.Engine, f *fiber.Fiber, model map[proto.Key]uint64, r *rand.Rand) error {
	var value [8]byte
	get := func() uint64 { return binary.LittleEndian.Uint64(value[:]) }
	for i := range 4000 {
		k, v := proto.Key(r.Uint64N(300)), r.Uint64()
		was, there := model[k]
		kind := r.IntN(5)
		if kind == 4 && i < 2000 {
			kind = 1 // most deletions come late
		}
		modes := []proto.Mode{proto.ModeRead, proto.ModeInsert, proto.ModeWrite, proto.ModeWrite, proto.ModeDelete}
		d := proto.Decl{ReadOnly: kind == 0, Accesses: []proto.Access{{Table: 1, Mode: modes[kind], Key: k}}}
		err := once(e, f, &d, func(tx proto.Tx) error {
			switch binary.LittleEndian.PutUint64(value[:], v); kind {
			case 0:
				return tx.Read(1, k, value[:])
			case 1:
				return tx.Insert(1, k, value[:])
			case 4:
				return tx.Delete(1, k)
			}
			return tx.Write(1, k, value[:])
		})
		want := map[bool]error{true: nil, false: proto.ErrNotFound}[there]
		if kind == 1 {
			want = map[bool]error{true: proto.ErrExists, false: nil}[there]
		}
		if err != want || kind == 0 && there && get() != was {
			return fmt.Errorf("step %d, kind %d of key %d: %v with %d; the map has %d, %v", i, kind, k, err, get(), was, there)
		}
		switch {
		case err != nil || kind == 0:
		case kind == 4:
			delete(model, k)
		default:
			model[k] = v
		}
	}
	found := 0
	err := e.Each(f, 1, func(k proto.Key, _ layout.Version, value []byte) {
		if v, ok := model[k]; ok && v == binary.LittleEndian.Uint64(value) {
			found++
		}
	})
	if found != len(model) {
		return fmt.Errorf("a walk finds %d of %d records, %v", found, len(model), err)
	}
	return err
}

func TestOperationsAllocateNothing(t *testing.T) {
	raceskip.Counted(t)
	each(t, func(t *testing.T, system engine.System, index engine.IndexSpec) {
		b := newBed(t, system, index)
		must(t, b.run(system.Name, func(e *engine.Engine, f *fiber.Fiber) error {
			x := e.Fill(f, 1, func(proto.Key, layout.Version, []byte) {})
			for k := range proto.Key(200) {
				must(t, x.Put(k, make([]byte, 8)))
			}
			must(t, x.Flush())
			read := &proto.Decl{ReadOnly: true, Accesses: []proto.Access{{Table: 1, Mode: proto.ModeRead, Key: 77}}}
			write := &proto.Decl{Accesses: []proto.Access{{Table: 1, Mode: proto.ModeWrite, Key: 78}}}
			value := make([]byte, 8)
			look := func(tx proto.Tx) error { return tx.Read(1, 77, value) }
			put := func(tx proto.Tx) error { return tx.Write(1, 78, value) }
			insert := &proto.Decl{Accesses: []proto.Access{{Table: 1, Mode: proto.ModeInsert, Key: 5000}}}
			remove := &proto.Decl{Accesses: []proto.Access{{Table: 1, Mode: proto.ModeDelete, Key: 5000}}}
			add := func(tx proto.Tx) error { return tx.Insert(1, 5000, value) }
			gone := func(tx proto.Tx) error { return tx.Delete(1, 5000) }
			scan := func(tx proto.Tx) error {
				return tx.Scan(1, 10, 100, func(proto.Key, []byte) bool { return true })
			}
			var failed error
			for name, op := range map[string]func(){
				"read":  func() { failed = errors.Join(failed, once(e, f, read, look)) },
				"write": func() { value[0]++; failed = errors.Join(failed, once(e, f, write, put)) },
				"insert and delete": func() {
					failed = errors.Join(failed, once(e, f, insert, add), once(e, f, remove, gone))
				},
				"peek": func() { failed = errors.Join(failed, e.Peek(f, 1, 77, value)) },
				"peek at the absent": func() {
					if err := e.Peek(f, 1, 1000, value); err != proto.ErrNotFound {
						failed = errors.Join(failed, fmt.Errorf("a peek at the absent: %w", err))
					}
				},
				"scan": func() {
					if index.Ordered {
						failed = errors.Join(failed, once(e, f, &proto.Decl{ReadOnly: true}, scan))
					}
				},
			} {
				if n := testing.AllocsPerRun(100, op); n != 0 {
					t.Errorf("%s: %v allocations", name, n)
				}
			}
			return failed
		}))
	})
}

// Memory that is laid out for another system, or not at all, is refused in words.
func TestMemoryOfAnotherSystemIsRefused(t *testing.T) {
	systems := engine.Systems()
	for i, system := range systems {
		b := newBed(t, system, engine.Indexes()[0])
		other := systems[(i+1)%len(systems)].Name
		err := b.run(other, func(*engine.Engine, *fiber.Fiber) error { return nil })
		if !errors.Is(err, rtx.ErrLayout) || !strings.Contains(err.Error(), "it begins with 0x") {
			t.Errorf("%s on memory of %s: %v", other, system.Name, err)
		}
	}
}

// A walk would use a client in the middle of a transaction.
func TestAWalkIsRefusedWhileTransactionsRun(t *testing.T) {
	each(t, func(t *testing.T, system engine.System, index engine.IndexSpec) {
		b := newBed(t, system, index)
		must(t, b.run(system.Name, func(e *engine.Engine, f *fiber.Fiber) error {
			walk := func() error { return e.Each(f, 1, func(proto.Key, layout.Version, []byte) {}) }
			fill := func() error {
				x := e.Fill(f, 1, func(proto.Key, layout.Version, []byte) {})
				return errors.Join(x.Put(1, make([]byte, 8)), x.Flush())
			}
			tx, err := e.Begin(f, &proto.Decl{ReadOnly: true}, 0)
			if err != nil {
				return err
			}
			if err := walk(); !errors.Is(err, rtx.ErrUsage) {
				t.Errorf("%s: a walk in the middle of a transaction: %v", system.Name, err)
			}
			if err := fill(); !errors.Is(err, rtx.ErrUsage) {
				t.Errorf("%s: a filler in the middle of a transaction: %v", system.Name, err)
			}
			return errors.Join(tx.Rollback(), fill(), walk())
		}))
	})
}

// What is registered for clients is freed when a later one cannot be attached.
func TestAnEngineThatFailsLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, system engine.System, index engine.IndexSpec) {
		b := newBed(t, system, index)
		b.fibers = fibers + 1
		err := b.run(system.Name, func(*engine.Engine, *fiber.Fiber) error { return nil })
		if !errors.Is(err, rtx.ErrUsage) || !strings.Contains(err.Error(), "owner 2, and the memory has 2") {
			t.Errorf("%s with more clients than the memory has owners: %v", system.Name, err)
		}
		must(t, b.thread.Close())
		if err := b.worker.PD().Close(); err != nil {
			t.Errorf("%s: memory is left: %v", system.Name, err)
		}
	})
}

// An index whose operations are atomic by themselves has no transactions of several records.
func TestSingleIndexesRefuseSeveralRecords(t *testing.T) {
	each(t, func(t *testing.T, system engine.System, index engine.IndexSpec) {
		b := newBed(t, system, index)
		must(t, b.run(system.Name, func(e *engine.Engine, f *fiber.Fiber) error {
			d := &proto.Decl{Accesses: []proto.Access{{Table: 1, Mode: proto.ModeInsert, Key: 1},
				{Table: 1, Mode: proto.ModeInsert, Key: 2}}}
			err := once(e, f, d, func(tx proto.Tx) error {
				return errors.Join(tx.Insert(1, 1, make([]byte, 8)), tx.Insert(1, 2, make([]byte, 8)))
			})
			if errors.Is(err, proto.ErrUnsupported) != index.Single || !index.Single && err != nil {
				t.Errorf("a transaction of two records: %v", err)
			}
			return nil
		}))
	})
}
