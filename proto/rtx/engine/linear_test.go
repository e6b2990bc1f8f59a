package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

// Clients do this many calls each, on as many keys: few, so that they meet.
const (
	linearClients = 3
	linearKeys    = 2
)

// calls has a client do calls on an index, one by one, and takes them down. Records have no versions.
func calls(e *engine.Engine, f *fiber.Fiber, all *rtxtest.Calls, client, n int, r *rand.Rand) error {
	var value [8]byte
	modes := map[rtxtest.Kind]proto.Mode{rtxtest.Get: proto.ModeRead, rtxtest.Insert: proto.ModeInsert,
		rtxtest.Put: proto.ModeWrite, rtxtest.Delete: proto.ModeDelete}
	kinds := []rtxtest.Kind{rtxtest.Get, rtxtest.Insert, rtxtest.Put, rtxtest.Delete}
	for i := range n {
		c := rtxtest.Call{Kind: kinds[r.IntN(len(kinds))], Key: r.Uint64N(linearKeys), Value: uint64(client)<<32 | uint64(i+1)}
		err := all.Do(client, c, func() (a rtxtest.Answer, err error) {
			d := proto.Decl{ReadOnly: c.Kind == rtxtest.Get, Accesses: []proto.Access{{Table: 1, Mode: modes[c.Kind],
				Key: proto.Key(c.Key)}}}
			err = once(e, f, &d, func(tx proto.Tx) error {
				binary.LittleEndian.PutUint64(value[:], c.Value)
				switch c.Kind {
				case rtxtest.Get:
					return tx.Read(1, proto.Key(c.Key), value[:])
				case rtxtest.Insert:
					return tx.Insert(1, proto.Key(c.Key), value[:])
				case rtxtest.Put:
					return tx.Write(1, proto.Key(c.Key), value[:])
				}
				return tx.Delete(1, proto.Key(c.Key))
			})
			if errors.Is(err, proto.ErrNotFound) || errors.Is(err, proto.ErrExists) {
				return rtxtest.Answer{}, nil
			}
			a.Done = err == nil
			if c.Kind == rtxtest.Get {
				a.Value = binary.LittleEndian.Uint64(value[:])
			}
			return a, err
		})
		if err == nil {
			err = f.Sleep(time.Duration(r.IntN(10)) * time.Microsecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// linearEngine makes the engine of a client, with records that have no versions.
func linearEngine(f *fiber.Fiber, s rtxtest.Seat, index engine.IndexSpec, timing rtx.Timing,
	mutation string) (*engine.Engine, error) {
	return engine.New(f, engine.Config{Worker: s.Worker, Conn: s.Way.Conns[0], Memory: s.Way.Memory,
		Owner: int(s.Way.Client) - 1, Fibers: 1, Clock: s.Clock, Timing: timing,
		Rand: rand.New(rand.NewPCG(9, uint64(s.Way.Client))), System: "rtx", Index: index.Name, Placement: everywhere{}, Nodes: 1,
		Specs:         []proto.TableSpec{{ID: 1, Name: "t", ValueBytes: 8, Capacity: 100, Ordered: index.Ordered}},
		RecorderClock: s.Worker.PD().Context().Clock(), Mutation: mutation})
}

// simulatedTiming has leases of some round trips.
var simulatedTiming = rtx.Timing{Op: 8 * time.Microsecond, Drift: 24 * time.Microsecond, Commit: 32 * time.Microsecond,
	Wait: time.Microsecond, MaxWait: 16 * time.Microsecond, Horizon: 100 * time.Microsecond}

// linearBytes is the memory of such a test.
const linearBytes = 2 << 20

// simulatedCalls runs clients in virtual time, with late requests and clocks that differ, so that transactions that live
// are repaired.
func simulatedCalls(seed uint64, index engine.IndexSpec, mutation string) (*rtxtest.Calls, error) {
	system, _ := engine.FindSystem("rtx")
	format, err := system.Format(linearBytes, linearClients, &index, engine.Number{})
	if err != nil {
		return nil, err
	}
	world, err := rtxtest.NewWorldOf(seed, linearBytes, format)
	if err != nil {
		return nil, err
	}
	all := &rtxtest.Calls{}
	r := rand.New(rand.NewPCG(seed, 1))
	var faults sim.Schedule
	for i := range linearClients {
		name := fmt.Sprintf("n%d", i+1)
		faults = append(faults, sim.Fault{Kind: sim.StepClock, At: 1, Node: name,
			Shift: time.Duration(r.IntN(100)) * time.Microsecond})
		for range 20 {
			faults = append(faults, sim.Fault{Kind: sim.DelayRC, At: 1 + sim.Time(r.Int64N(int64(2*sim.Millisecond))), From: name,
				To: "n0", By: 1 + sim.Time(r.Int64N(int64(50*sim.Microsecond))), Times: 1 + r.IntN(3)})
		}
		source := rand.New(rand.NewPCG(seed, uint64(i+2)))
		err := world.Machine(func(f *fiber.Fiber, s rtxtest.Seat) error {
			e, err := linearEngine(f, s, index, simulatedTiming, mutation)
			if err != nil {
				return err
			}
			return calls(e, f, all, i, 60, source)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, world.RunUnder(faults)
}

// Without versions in the records, what clients see of each key is linearizable, by the values alone; and a bug is found.
func TestSingleKeysAreLinearizableInTheSimulator(t *testing.T) {
	raceskip.Simulated(t)
	for _, index := range engine.Indexes() {
		const seeds = 10
		for seed := range uint64(seeds) {
			all, err := simulatedCalls(seed+1, index, "")
			must(t, err)
			if got := all.Linearizable(); got != porcupine.Ok {
				t.Errorf("%s, seed %d: %d calls are %v", index.Name, seed+1, all.Len(), got)
			}
		}
		mutation := map[string]string{"sherman": "hint-trusted", "race": "delete-cas-without-compare"}[index.Name]
		caught := uint64(0)
		for seed := uint64(1); seed <= seeds && caught == 0; seed++ {
			if all, err := simulatedCalls(seed, index, mutation); err != nil || all.Linearizable() == porcupine.Illegal {
				caught = seed
			}
		}
		if caught == 0 {
			t.Errorf("%s: mutation %s is not found in %d seeds", index.Name, mutation, seeds)
		}
		t.Logf("%s: mutation %s is found by seed %d", index.Name, mutation, caught)
	}
}

// The same with threads on shared memory.
func TestSingleKeysAreLinearizable(t *testing.T) {
	system, _ := engine.FindSystem("rtx")
	for _, index := range engine.Indexes() {
		t.Run(index.Name, func(t *testing.T) {
			format, err := system.Format(linearBytes, linearClients, &index, engine.Number{})
			must(t, err)
			over := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
			p := rtxtest.NewParent(t, over, memnode.Config{Bytes: linearBytes, Clients: linearClients, Format: format})
			all := &rtxtest.Calls{}
			var running sync.WaitGroup
			errs := make([]error, linearClients)
			for i := range linearClients {
				x, err := rtxtest.NewProcess(over, p.Server.Admit, 0)
				must(t, err)
				running.Go(func() {
					errs[i] = x.Run(func(f *fiber.Fiber) error {
						e, err := linearEngine(f, rtxtest.Seat{Worker: x.Worker, Way: x.Way, Clock: rtxtest.RealTime{}}, index,
							rtxtest.ProcessTiming, "")
						if err != nil {
							return err
						}
						return calls(e, f, all, i, 400, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i))))
					})
				})
				t.Cleanup(func() { must(t, errors.Join(p.Server.Leave(x.Way.Client), x.Close())) })
			}
			running.Wait()
			must(t, errors.Join(errs...))
			if got := all.Linearizable(); got != porcupine.Ok {
				t.Errorf("%d calls are %v", all.Len(), got)
			}
		})
	}
}
