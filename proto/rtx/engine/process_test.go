package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/rtx/race"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/proto/rtx/sherman"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// Environment of the processes that are killed: the fabric, the index, and the file of their tallies.
const (
	clientVariable = "DRTMD_ENGINE_CLIENT"
	indexVariable  = "DRTMD_ENGINE_INDEX"
	tallyVariable  = "DRTMD_ENGINE_TALLY"
)

// counters are the keys that all clients count up; the file of tallies has what they have begun and what they know to
// be committed. Other keys come and go, so that nodes split and subtables are rehashed.
const (
	counters   = 6
	firstOther = 100
	tallyBytes = 4096
)

// tallies are shared by all processes, and outlive them.
type tallies struct{ begun, committed [counters]atomic.Uint64 }

func openTallies(path string) (*tallies, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, tallyBytes); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(fd, 0, tallyBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*tallies)(unsafe.Pointer(&b[0])), nil
}

// engineOf makes an engine of a client in its process.
func engineOf(p *rtxtest.Process, f *fiber.Fiber, index string) (*engine.Engine, error) {
	spec, _ := engine.FindIndex(index)
	return engine.New(f, engine.Config{Worker: p.Worker, Conn: p.Way.Conns[0], Memory: p.Way.Memory,
		Owner: int(p.Way.Client) - 1, Fibers: 1, Clock: rtxtest.RealTime{}, Timing: rtxtest.ProcessTiming,
		Rand: rand.New(rand.NewPCG(uint64(os.Getpid()), 2)), System: "rtx", Index: index, Placement: everywhere{}, Nodes: 1,
		Specs:         []proto.TableSpec{{ID: 1, Name: "t", ValueBytes: 8, Capacity: 4000, Ordered: spec.Ordered}},
		RecorderClock: p.Device.Clock()})
}

// countingProcess counts keys up until its parent ends it, and inserts and deletes others.
func countingProcess() int {
	return rtxtest.Child(shm.New(shm.Options{Dir: os.Getenv(clientVariable)}), func(p *rtxtest.Process, f *fiber.Fiber) error {
		t, err := openTallies(os.Getenv(tallyVariable))
		if err != nil {
			return err
		}
		e, err := engineOf(p, f, os.Getenv(indexVariable))
		source := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(time.Now().UnixNano())))
		for err == nil && f.Err() == nil {
			if n := source.IntN(counters + 2); n < counters {
				t.begun[n].Add(1)
				if err = count(e, f, proto.Key(n)); err == nil {
					t.committed[n].Add(1)
				}
				continue
			}
			if err = comeAndGo(e, f, firstOther+proto.Key(source.IntN(600))); err == nil {
				err = f.Yield() // operations on shared memory end at once, and the end of the run is to be seen
			}
		}
		return err
	})
}

// count adds one to a key.
func count(e *engine.Engine, f *fiber.Fiber, k proto.Key) error {
	d := proto.Decl{Accesses: []proto.Access{{Table: 1, Mode: proto.ModeWrite, Key: k}}}
	var value [8]byte
	return once(e, f, &d, func(tx proto.Tx) error {
		if err := tx.GetForUpdate(1, k, value[:]); err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(value[:], binary.LittleEndian.Uint64(value[:])+1)
		return tx.Write(1, k, value[:])
	})
}

// comeAndGo inserts a key, or deletes it if it is there.
func comeAndGo(e *engine.Engine, f *fiber.Fiber, k proto.Key) error {
	var value [8]byte
	d := proto.Decl{Accesses: []proto.Access{{Table: 1, Mode: proto.ModeInsert, Key: k}}}
	err := once(e, f, &d, func(tx proto.Tx) error { return tx.Insert(1, k, value[:]) })
	if !errors.Is(err, proto.ErrExists) {
		return err
	}
	d.Accesses[0].Mode = proto.ModeDelete
	err = once(e, f, &d, func(tx proto.Tx) error { return tx.Delete(1, k) })
	if errors.Is(err, proto.ErrNotFound) {
		return nil
	}
	return err
}

// Clients in processes of their own are killed in the middle of whatever they do on an index, or stopped for longer than
// all leases and continued: every count that a client was told of is there, no other one but those that were begun,
// who goes on finds no lock that stays, the index is whole, and nothing leaks.
func TestClientsAreKilledAndStopped(t *testing.T) {
	raceskip.Processes(t)
	system, _ := engine.FindSystem("rtx")
	for _, index := range engine.Indexes() {
		t.Run(index.Name, func(t *testing.T) {
			const bytes, clients = 4 << 20, 4
			format, err := system.Format(bytes, clients, &index, engine.Number{})
			must(t, err)
			dir := filepath.Join(t.TempDir(), "fabric")
			p := rtxtest.NewParent(t, shm.New(shm.Options{Dir: dir}),
				memnode.Config{Bytes: bytes, Clients: clients, Format: format})
			tally := filepath.Join(t.TempDir(), "tally")
			shared, err := openTallies(tally)
			must(t, err)
			own := func(body func(*engine.Engine, *fiber.Fiber) error) {
				t.Helper()
				p.Own(clients, func(x *rtxtest.Process, f *fiber.Fiber) error {
					e, err := engineOf(x, f, index.Name)
					if err != nil {
						return err
					}
					return body(e, f)
				})
			}
			own(func(e *engine.Engine, f *fiber.Fiber) error {
				x := e.Fill(f, 1, func(proto.Key, layout.Version, []byte) {})
				for k := range proto.Key(counters) {
					if err := x.Put(k, make([]byte, 8)); err != nil {
						return err
					}
				}
				return x.Flush()
			})
			env := []string{clientVariable + "=" + dir, indexVariable + "=" + index.Name, tallyVariable + "=" + tally}
			children := []*rtxtest.Client{p.Start(env...), p.Start(env...), p.Start(env...)}
			source := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
			for i := range rtxtest.Kills(t) {
				time.Sleep(time.Duration(10+source.IntN(50)) * time.Millisecond)
				children[i%2].Kill()
				children[2].Pause(30 * time.Millisecond)
			}
			for _, k := range children {
				k.End()
			}
			own(func(e *engine.Engine, f *fiber.Fiber) error { return settled(t, e, f, shared) })
			p.Own(clients, func(x *rtxtest.Process, f *fiber.Fiber) error {
				return audited(x, f, index.Name, p.Server.Memory().Bytes())
			})
		})
	}
}

// settled compares what an index has in the end with what its clients know.
func settled(t *testing.T, e *engine.Engine, f *fiber.Fiber, shared *tallies) error {
	begun, found := uint64(0), 0
	err := e.Each(f, 1, func(k proto.Key, _ layout.Version, value []byte) {
		if k >= counters {
			return
		}
		found++
		v := binary.LittleEndian.Uint64(value)
		from, to := shared.committed[k].Load(), shared.begun[k].Load()
		if v < from || v > to {
			t.Errorf("key %d has %d: %d counts were told, %d were begun", k, v, from, to)
		}
		begun += to
	})
	if err == nil && found != counters {
		err = fmt.Errorf("%d counters of %d are there", found, counters)
	}
	// Whoever has a lock is gone: it can be had at once, or when its lease has ended.
	for k := proto.Key(0); k < firstOther+600 && err == nil; k++ {
		if k < counters {
			err = count(e, f, k)
		} else if k >= firstOther {
			err = comeAndGo(e, f, k)
		}
	}
	t.Logf("%d counts were begun; %+v", begun, e.Transactions())
	return err
}

// audited repairs what clients that were ended have left, and checks the structure of an index, and that no block and no
// object leaks.
func audited(x *rtxtest.Process, f *fiber.Fiber, index string, memory []byte) error {
	var c *rtx.Client
	for owner := range x.Way.Clients {
		var err error
		if c, err = rtx.Attach(f, rtx.Config{Conn: x.Way.Conns[0], PD: x.Worker.PD(), Memory: x.Way.Memory, Owner: owner,
			Clock: rtxtest.RealTime{}, Timing: rtxtest.ProcessTiming, Rand: rand.New(rand.NewPCG(1, 2)),
			Installed: race.Installed}); err != nil {
			return err
		}
	}
	small, large := c.Class(64), c.Class(sherman.NodeBytes)
	if index == "race" {
		table, err := race.Open(f, c, race.Config{Records: small, Tables: large})
		if err != nil {
			return err
		}
		all, err := table.Check(f)
		if err != nil {
			return err
		}
		return rtx.AuditRecords(memory, all.Objects, all.Records)
	}
	tree, err := sherman.Open(c, sherman.Config{Class: large})
	if err != nil {
		return err
	}
	nodes, err := tree.Check(func(p rtx.Ptr) (value []byte, err error) {
		err = c.View(f, func(tx *rtx.Tx) error {
			b, err := tx.Read(p)
			value = slices.Clone(b)
			return err
		})
		return value, err
	})
	if err != nil {
		return err
	}
	return rtx.Audit(memory, nodes)
}
