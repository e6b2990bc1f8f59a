package reproduce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto"
	"drtmd/proto/memnode"
	"drtmd/proto/node/memory"
	paper "drtmd/proto/rtx"
	"drtmd/proto/rtx/engine"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Bounds of a run: the bins of a tally, and the time for which clients insert whose end nobody sets.
const (
	longestRun = 2 * wallDeadline
	mostBins   = int(longestRun / wallBin)
)

// tally is shared by all processes of a run, and outlives them: a file that each maps.
type tally struct {
	ready      atomic.Int32
	begin, end atomic.Int64                             // since 1970; 0: not all are ready, nobody was killed yet
	leave      atomic.Int64                             // since 1970: when the victim ends by itself; 0: it does not
	preferred  atomic.Int32                             // clients that run before other programs
	late       atomic.Int64                             // how late an insertion has begun at most, in ns
	inside     atomic.Int32                             // fibers of the victim that are in the middle of an insertion
	repairs    atomic.Uint64                            // expired locks that clients have met
	waited     atomic.Int64                             // the longest time for which one met a lock of another, in ns
	bins       [wallClientCount][mostBins]atomic.Uint64 // insertions
}

func openTally(path string) (*tally, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	const size = int(unsafe.Sizeof(tally{}))
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*tally)(unsafe.Pointer(&b[0])), nil
}

func (t *tally) close() error {
	return unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(t)), unsafe.Sizeof(*t)))
}

// clientThread is a thread with one worker, which has joined a memory node on shared memory.
type clientThread struct {
	device *verbs.Context
	thread *fiber.Thread
	worker *fiber.Worker
}

// joinOnThread makes one. spin is that of fiber.ThreadConfig.
func joinOnThread(over verbs.Provider, spin time.Duration, join func([]*fiber.Worker) (*memnode.Way, error)) (_ *clientThread, _ *memnode.Way,
	err error) {
	t := &clientThread{}
	if t.device, err = over.Open(""); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.thread, err = fiber.NewThread(fiber.ThreadConfig{Spin: spin}); err != nil {
		return nil, nil, err
	}
	pd, err := t.device.AllocPD()
	if err != nil {
		return nil, nil, err
	}
	if t.worker, err = t.thread.NewWorker(fiber.WorkerConfig{Name: "client", PD: pd}); err != nil {
		return nil, nil, err
	}
	way, err := join([]*fiber.Worker{t.worker})
	return t, way, err
}

// close frees what it has, of which nothing is in flight.
func (t *clientThread) close() error {
	var err error
	if t.thread != nil {
		err = t.thread.Close()
	}
	return errors.Join(err, t.device.Close())
}

// run runs fibers to their end.
func (t *clientThread) run(bodies ...func(*fiber.Fiber) error) error {
	var failed error
	left := len(bodies)
	for _, body := range bodies {
		t.worker.Submit("client", body, func(err error) {
			failed = errors.Join(failed, err)
			if left--; left == 0 || err != nil {
				t.thread.Stop()
			}
		})
	}
	return errors.Join(fiber.Threads(context.Background(), t.thread), failed)
}

// engine makes that of a client.
func (x *killed) engine(f *fiber.Fiber, t *clientThread, way *memnode.Way) (*engine.Engine, error) {
	timing := paper.DefaultTiming()
	return engine.New(f, engine.Config{Worker: t.worker, Conn: way.Conns[0], Memory: way.Memory,
		Owner: (int(way.Client) - 1) * wallFibers, Fibers: wallFibers, Clock: timeOfDay{}, Timing: timing,
		Rand: rand.New(rand.NewPCG(x.seed, uint64(way.Client))), System: x.system, Index: treeIndex, Specs: treeSpecs(treeIndex),
		Placement: allOnOne{}, Nodes: 1, RecorderClock: t.device.Clock()})
}

// Insert is main of a client process: it inserts at a steady rate, when all are ready.
// The first of them loads the keys before.
func Insert(ctx context.Context, dir, system string, n int, seed uint64, keys int) (err error) {
	if n < 0 || n >= wallClientCount {
		return fmt.Errorf("client %d of %d", n, wallClientCount)
	}
	tally, err := openTally(filepath.Join(dir, tallyName))
	if err != nil {
		return err
	}
	x := &killed{system: system, seed: seed}
	var session *memory.Session
	over, err := transport.New("shm", transport.Options{RunDir: filepath.Join(dir, fabricName)})
	if err != nil {
		return err
	}
	t, way, err := joinOnThread(over, -1, func(w []*fiber.Worker) (way *memnode.Way, err error) {
		way, session, err = memory.Join(ctx, "unix:"+filepath.Join(dir, setUpName), memnode.ClientID(n+1), w, verbs.ConnectAttr{})
		return way, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close(), t.close(), tally.close()) }()
	var e *engine.Engine
	inserts := func(i int) func(*fiber.Fiber) error {
		return func(f *fiber.Fiber) (err error) {
			if i == 0 {
				e, err = x.engine(f, t, way)
				if n == 0 && err == nil {
					err = loadKeys(e, f, keys)
				}
				if err != nil {
					return err
				}
				if preferSelf() {
					tally.preferred.Add(1)
				}
				tally.ready.Add(1)
			}
			for begin := f.Now(); tally.begin.Load() == 0; {
				if f.Now()-begin > wallDeadline {
					return errors.New("whoever has started this client is gone")
				}
				if err := f.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			return tally.insert(f, e, n, rand.New(rand.NewPCG(seed, uint64(n<<8|i))))
		}
	}
	var bodies []func(*fiber.Fiber) error
	for i := range wallFibers {
		bodies = append(bodies, inserts(i))
	}
	err = t.run(bodies...)
	if err == nil {
		s := e.Transactions()
		tally.repairs.Add(s.Repairs)
		raise(&tally.waited, int64(s.LongestWait))
	}
	return err
}

// insert is a fiber of a client.
func (t *tally) insert(f *fiber.Fiber, e *engine.Engine, n int, source *rand.Rand) error {
	begin := time.Duration(t.begin.Load())
	end := func() time.Duration {
		if leave := t.leave.Load(); n == victim && leave != 0 {
			return time.Duration(leave)
		}
		if end := t.end.Load(); end != 0 {
			return time.Duration(end)
		}
		return begin + longestRun
	}
	over := func() bool { return timeOfDay{}.Now() >= end() }
	next := begin + time.Duration(source.Int64N(int64(wallPeriod))) // fibers of a client take turns
	for ; next < end(); next += wallPeriod {
		if early := next - (timeOfDay{}).Now(); early > 0 {
			if err := f.Sleep(early); err != nil {
				return err
			}
		}
		raise(&t.late, int64(timeOfDay{}.Now()-next))
		if n == victim {
			t.inside.Add(1)
		}
		if _, err := insertUntil(f, e, proto.Key(source.Uint64N(1<<63)), source, over); err != nil {
			return err
		}
		if n == victim {
			t.inside.Add(-1)
		}
		if i := int((timeOfDay{}.Now() - begin) / wallBin); i >= 0 && i < mostBins && !over() {
			t.bins[n][i].Add(1)
		}
	}
	return nil
}

// raise makes a maximum at least v.
func raise(most *atomic.Int64, v int64) {
	for was := most.Load(); v > was && !most.CompareAndSwap(was, v); was = most.Load() {
	}
}
