package reproduce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/memnode"
	paper "drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Figure 18 with real clocks: the clients run on threads of this machine, which share its clock. What lets leases expire
// here are threads that the machine stops while they hold locks.

// timeOfDay is the machine's clock, since 1970.
type timeOfDay struct{}

func (timeOfDay) Now() time.Duration { return time.Duration(time.Now().UnixNano()) }

// mostLeaseThreads bounds the threads that the clients are on.
const mostLeaseThreads = 4

// leaseThreads is how many there are.
func leaseThreads() int { return min(runtime.NumCPU(), mostLeaseThreads) }

// wallClients are the clients of a run.
type wallClients struct {
	*leaseLoad
	threads []*wallThread
	clients []*paper.Client
	length  time.Duration

	ready   atomic.Int32 // clients that are attached
	until   atomic.Int64 // the end, since 1970; 0: not all are ready
	mu      sync.Mutex
	expired map[uint64]struct{} // guarded by mu
	begin   []paper.Stats
	failed  error // guarded by mu
}

// wallThread has some of the clients.
type wallThread struct {
	*clientThread
	left  int           // clients that run
	last  time.Duration // when one of its transactions has ended
	pause time.Duration // the longest time between two of those
}

// over is rtx.Config.GiveUp.
func (x *wallClients) over() bool {
	end := x.until.Load()
	return end != 0 && timeOfDay{}.Now() >= time.Duration(end)
}

func (x *wallClients) note(word uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expired[word] = struct{}{}
}

func (x *wallClients) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed = errors.Join(x.failed, err)
}

// measured runs the load on shared memory, and gives the longest pause of a thread, too.
func (l *leaseLoad) measured(ctx context.Context, length time.Duration, seed uint64) (_ leaseRates, pause time.Duration,
	err error) {
	dir, err := os.MkdirTemp("", "drtmd-leases-")
	if err != nil {
		return leaseRates{}, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	over, err := transport.New("shm", transport.Options{RunDir: dir})
	if err != nil {
		return leaseRates{}, 0, err
	}
	x := &wallClients{leaseLoad: l, length: length, clients: make([]*paper.Client, leaseClients), expired: map[uint64]struct{}{},
		begin: make([]paper.Stats, leaseClients)}
	device, err := over.Open("")
	if err != nil {
		return leaseRates{}, 0, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	shape := l.shape(leaseClients)
	bytes, err := shape.Bytes()
	if err != nil {
		return leaseRates{}, 0, err
	}
	server, err := memnode.NewServer(device, memnode.Config{Bytes: bytes, Format: shape.Format})
	if err != nil {
		return leaseRates{}, 0, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	defer func() { err = errors.Join(err, x.close()) }()
	for n := range leaseThreads() {
		if err := x.addThread(over, server, n, seed); err != nil {
			return leaseRates{}, 0, err
		}
	}
	var threads []*fiber.Thread
	for _, t := range x.threads {
		threads = append(threads, t.thread)
	}
	if err := errors.Join(fiber.Threads(ctx, threads...), x.failed); err != nil {
		return leaseRates{}, 0, err
	}
	var before, after paper.Stats
	for i, c := range x.clients {
		before.Add(&x.begin[i])
		after.Add(c.Stats())
	}
	for _, t := range x.threads {
		pause = max(pause, t.pause)
	}
	rates, err := leaseShares(before, after, len(x.expired))
	return rates, pause, err
}

// addThread makes a thread with its share of the clients.
func (x *wallClients) addThread(over verbs.Provider, server *memnode.Server, n int, seed uint64) error {
	c, way, err := joinOnThread(over, 0, func(w []*fiber.Worker) (*memnode.Way, error) {
		return memnode.Join(server.Admit, 0, w, verbs.ConnectAttr{})
	})
	if err != nil {
		return err
	}
	t := &wallThread{clientThread: c}
	x.threads = append(x.threads, t)
	for owner := n; owner < leaseClients; owner += leaseThreads() {
		t.left++
		t.worker.Submit("client", func(f *fiber.Fiber) error {
			c, err := paper.Attach(f, paper.Config{Conn: way.Conns[0], PD: t.worker.PD(), Memory: way.Memory, Owner: owner, Clock: timeOfDay{},
				Rand: rand.New(rand.NewPCG(seed, uint64(owner))), Timing: x.timing, Objects: x.updates, GiveUp: x.over, OnExpired: x.note})
			if err != nil {
				return err
			}
			x.clients[owner] = c
			return x.client(f, t, owner, rand.New(rand.NewPCG(seed, uint64(leaseClients+owner))))
		}, func(err error) {
			if err != nil {
				x.fail(err)
			}
			if t.left--; t.left == 0 || err != nil {
				t.thread.Stop()
			}
		})
	}
	return nil
}

// client runs one, when all are ready.
func (x *wallClients) client(f *fiber.Fiber, t *wallThread, owner int, source *rand.Rand) error {
	c := x.clients[owner]
	if owner == 0 {
		if err := x.fill(f, c); err != nil {
			return err
		}
	}
	if x.ready.Add(1) == leaseClients {
		x.until.Store(int64(timeOfDay{}.Now() + x.length))
	}
	for x.until.Load() == 0 {
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
	}
	x.begin[owner] = *c.Stats()
	if now := f.Now(); t.last == 0 {
		t.last = now
	}
	return x.update(f, c, source, func() {
		now := f.Now()
		t.pause, t.last = max(t.pause, now-t.last), now
	})
}

// close frees what the clients had, which have ended.
func (x *wallClients) close() error {
	var errs []error
	for _, t := range x.threads {
		errs = append(errs, t.close())
	}
	return errors.Join(errs...)
}

// leaseExpiryMeasured is Figure 18 with real clocks.
func leaseExpiryMeasured(r *Run) (*Outcome, error) {
	length := pick(r, 300*time.Millisecond, 20*time.Millisecond)
	longest := time.Duration(0)
	x := &leaseFigure{r: r, suffix: "measured", o: &Outcome{Conditions: fmt.Sprintf("a memory node and %d clients on %d threads of "+
		"this machine, on shared memory with its clock, all alive; %v each; objects of 8 bytes; %s", leaseClients, leaseThreads(),
		length, r.seedsText())}}
	x.missed = func() string {
		return fmt.Sprintf("threads of %d clients each: what else runs on the machine stops them while they hold locks; the longest "+
			"time in which a thread ended no transaction was %v", leaseClients/leaseThreads(), longest.Round(10*time.Microsecond))
	}
	x.run = func(l *leaseLoad, seed uint64) (leaseRates, error) {
		rates, pause, err := l.measured(r.ctx, length, seed)
		longest = max(longest, pause)
		return rates, err
	}
	total := 2*len(x.drifts()) + 2*len(x.sizes())
	if err := x.single(total); err != nil {
		return nil, err
	}
	err := x.many(&leaseRegulation{"(b) many objects in a transaction, drift 8 ms", leaseTimes(leaseDrift, 0),
		leaseTimes(leaseDrift, leaseOp), true}, missesRegulationHere, total)
	x.o.Rows = append(x.o.Rows, number{what: "longest time in which a thread ended no transaction", unit: "ms", digits: 1}.
		seen(longest.Seconds()*1e3))
	return x.o, err
}

// missesRegulationHere is why leases of one length are long enough on shared memory.
const missesRegulationHere = "a transaction of 80 objects takes no network trips on shared memory, so that only a thread that is " +
	"stopped holds locks for 8 ms; the paper's takes up to 100 us for each object"
