package rtx_test

import (
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// clientVariable makes the test binary a client, on the fabric it names.
const clientVariable = "DRTMD_RTX_CLIENT"

// realTime counts from 1970.
type realTime struct{}

func (realTime) Now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// processTiming fits shared memory on a busy machine.
var processTiming = rtx.Timing{Op: 200 * time.Microsecond, Drift: 8 * time.Millisecond, Commit: 8 * time.Millisecond,
	Wait: 20 * time.Microsecond, MaxWait: time.Millisecond, Horizon: 50 * time.Millisecond}

// askParent asks for a session over the standard input and output.
func askParent(r memnode.Request) (reply memnode.Reply, err error) {
	if err = gob.NewEncoder(os.Stdout).Encode(r); err == nil {
		err = gob.NewDecoder(os.Stdin).Decode(&reply)
	}
	return reply, err
}

// clientProcess moves amounts between accounts until its standard input ends, or it is killed.
func clientProcess() int {
	err := func() error {
		c, err := shm.New(shm.Options{Dir: os.Getenv(clientVariable)}).Open("")
		if err != nil {
			return err
		}
		thread, err := fiber.NewThread(fiber.ThreadConfig{Drain: 50 * time.Millisecond})
		if err != nil {
			return err
		}
		p := process{device: c, thread: thread, ask: askParent}
		if err := p.join(0); err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
			thread.Stop()
		}()
		return p.run(func(c *rtx.Client, f *fiber.Fiber) error {
			source := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
			for f.Err() == nil {
				if err := transfer(c, f, source.IntN(accounts), source.IntN(accounts)); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	if err != nil && !errors.Is(err, fiber.ErrCancelled) {
		fmt.Fprintln(os.Stderr, "client:", err)
		return 1
	}
	return 0
}

// process is a client of a memory node in another process.
type process struct {
	device *verbs.Context
	thread *fiber.Thread
	ask    memnode.Ask
	worker *fiber.Worker
	way    *memnode.Way
}

func (p *process) join(id memnode.ClientID) error {
	pd, err := p.device.AllocPD()
	if err != nil {
		return err
	}
	if p.worker, err = p.thread.NewWorker(fiber.WorkerConfig{Name: "client", PD: pd}); err != nil {
		return err
	}
	p.way, err = memnode.Join(p.ask, id, []*fiber.Worker{p.worker}, verbs.ConnectAttr{})
	return err
}

// run runs a fiber with a client to its end.
func (p *process) run(body func(*rtx.Client, *fiber.Fiber) error) error {
	var ended error
	p.worker.Submit("client", func(f *fiber.Fiber) error {
		c, err := rtx.Attach(f, rtx.Config{Conn: p.way.Conns[0], PD: p.worker.PD(), Memory: p.way.Memory,
			Owner: int(p.way.Client) - 1, Clock: realTime{}, Timing: processTiming, Rand: rand.New(rand.NewPCG(1, 2))})
		if err != nil {
			return err
		}
		return body(c, f)
	}, func(err error) { ended = err; p.thread.Stop() })
	return errors.Join(fiber.Threads(context.Background(), p.thread), ended)
}

const accounts, opening = 4, 1000

// transfer moves an amount from one account to another: two objects, so it needs a log. If they are one, it has none.
func transfer(c *rtx.Client, f *fiber.Fiber, from, to int) error {
	le := binary.LittleEndian
	return c.Run(f, func(tx *rtx.Tx) error {
		for i, sign := range []int64{-1, 1} {
			v, err := tx.Update(c.Root([]int{from, to}[i]))
			if err != nil {
				return err
			}
			if v == nil {
				return errors.New("an account is gone")
			}
			le.PutUint64(v, uint64(int64(le.Uint64(v))+sign))
		}
		return nil
	})
}

// Clients in processes of their own are killed in the middle of whatever they do; others take their numbers, finish
// what they left, and go on. No amount is lost, no block leaks, and nobody stays locked.
func TestKilledProcessesAreRepaired(t *testing.T) {
	raceskip.Processes(t)
	dir := filepath.Join(t.TempDir(), "fabric")
	p := shm.New(shm.Options{Dir: dir})
	memory, err := p.Open("")
	must(t, err)
	t.Cleanup(func() { must(t, memory.Close()) })
	bytes, err := testShape.Bytes()
	must(t, err)
	server, err := memnode.NewServer(memory, memnode.Config{Bytes: bytes, Format: testShape.Format, Clients: 4})
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	own := func(body func(*rtx.Client, *fiber.Fiber) error) {
		t.Helper()
		device, err := p.Open("")
		must(t, err)
		thread, err := fiber.NewThread(fiber.ThreadConfig{Drain: 50 * time.Millisecond})
		must(t, err)
		x := process{device: device, thread: thread, ask: server.Admit}
		must(t, x.join(4))
		must(t, x.run(body))
		must(t, server.Leave(4))
		must(t, thread.Close())
		must(t, device.Close())
	}
	var account rtx.Ptr // the first one
	var opened uint64   // lease of the transaction that opened it
	own(func(c *rtx.Client, f *fiber.Fiber) error {
		err := c.Run(f, func(tx *rtx.Tx) error {
			for i := range accounts {
				v, err := tx.Write(c.Root(i), 0)
				if err != nil {
					return err
				}
				binary.LittleEndian.PutUint64(v, opening)
			}
			return nil
		})
		if err == nil {
			account = c.Root(0)
			opened, err = rtx.LastLease(server.Memory().Bytes(), account)
		}
		return err
	})
	type child struct {
		cmd *exec.Cmd
		in  io.WriteCloser
		id  memnode.ClientID
	}
	start := func() child {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), clientVariable+"="+dir)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		var r memnode.Request
		must(t, gob.NewDecoder(out).Decode(&r))
		reply, err := server.Admit(r)
		must(t, err)
		must(t, gob.NewEncoder(in).Encode(reply))
		return child{cmd, in, reply.Client}
	}
	children := []child{start(), start()}
	source := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	const kills = 5
	for i := range kills {
		time.Sleep(time.Duration(20+source.IntN(60)) * time.Millisecond)
		k := &children[i%len(children)]
		must(t, k.cmd.Process.Kill())
		_ = k.cmd.Wait()
		must(t, server.Leave(k.id))
		*k = start() // under the same number, which is the only free one but the parent's
	}
	time.Sleep(50 * time.Millisecond)
	last := opened
	for until := time.Now().Add(10 * time.Second); last <= opened; time.Sleep(time.Millisecond) {
		last, err = rtx.LastLease(server.Memory().Bytes(), account)
		must(t, err)
		if time.Now().After(until) {
			t.Fatal("no client has changed the first account")
		}
	}
	for _, k := range children {
		must(t, k.in.Close())
		must(t, k.cmd.Wait())
		must(t, server.Leave(k.id))
	}
	own(func(c *rtx.Client, f *fiber.Fiber) error {
		sum := uint64(0)
		err := c.Run(f, func(tx *rtx.Tx) error {
			sum = 0
			for i := range accounts {
				v, err := tx.Read(c.Root(i))
				if err != nil {
					return err
				}
				sum += binary.LittleEndian.Uint64(v)
			}
			return nil
		})
		if sum != accounts*opening {
			t.Errorf("the accounts have %d, not %d", sum, accounts*opening)
		}
		t.Logf("%+v", *c.Stats())
		return err
	})
	must(t, rtx.Audit(server.Memory().Bytes(), nil))
}
