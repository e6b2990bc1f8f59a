package rtx_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// clientVariable makes the test binary a client, on the fabric it names.
const clientVariable = "DRTMD_RTX_CLIENT"

// clientProcess moves amounts between accounts.
func clientProcess() int {
	return rtxtest.Child(shm.New(shm.Options{Dir: os.Getenv(clientVariable)}), func(p *rtxtest.Process, f *fiber.Fiber) error {
		c, err := attachProcess(p, f)
		source := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
		for err == nil && f.Err() == nil {
			if err = transfer(c, f, source.IntN(accounts), source.IntN(accounts)); err == nil {
				err = f.Yield() // operations on shared memory end at once, and the end of the run is to be seen
			}
		}
		return err
	})
}

func attachProcess(p *rtxtest.Process, f *fiber.Fiber) (*rtx.Client, error) {
	return rtx.Attach(f, rtx.Config{Conn: p.Way.Conns[0], PD: p.Worker.PD(), Memory: p.Way.Memory, Owner: int(p.Way.Client) - 1,
		Clock: rtxtest.RealTime{}, Timing: rtxtest.ProcessTiming, Rand: rand.New(rand.NewPCG(1, 2))})
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
	bytes, err := testShape.Bytes()
	must(t, err)
	dir := filepath.Join(t.TempDir(), "fabric")
	p := rtxtest.NewParent(t, shm.New(shm.Options{Dir: dir}), memnode.Config{Bytes: bytes, Format: testShape.Format, Clients: 4})
	server := p.Server
	own := func(body func(*rtx.Client, *fiber.Fiber) error) {
		t.Helper()
		p.Own(4, func(x *rtxtest.Process, f *fiber.Fiber) error {
			c, err := attachProcess(x, f)
			if err != nil {
				return err
			}
			return body(c, f)
		})
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
	env := clientVariable + "=" + dir
	children := []*rtxtest.Client{p.Start(env), p.Start(env)}
	source := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for i := range rtxtest.Kills(t) {
		time.Sleep(time.Duration(20+source.IntN(60)) * time.Millisecond)
		children[i%len(children)].Kill() // another one has the same number, the only one that is free but the parent's
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
		k.End()
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
