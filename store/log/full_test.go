package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simulated runs fibers of one node of a simulated world to their end.
func simulated(t *testing.T, seed uint64, start func(w *fiber.Worker)) {
	t.Helper()
	world, err := sim.New(sim.Config{Seed: seed, EventLimit: 10_000_000})
	must(t, err)
	n, err := world.AddNode(sim.NodeConfig{})
	must(t, err)
	ctx, err := n.Open()
	must(t, err)
	pd, err := ctx.AllocPD()
	must(t, err)
	core := fiber.NewCore(n.Timeline(0))
	w, err := core.NewWorker(fiber.WorkerConfig{Name: "node 0", PD: pd})
	must(t, err)
	start(w)
	must(t, world.Run())
	must(t, w.Fenced())
	must(t, core.Close())
	must(t, ctx.Close())
}

// backup is a log whose host reads it from time to time, and truncates what truncation records say.
type backup struct {
	log     *Log
	writer  *Writer
	pending map[uint64]bool // commits whose truncation record was not read
	end     uint64
}

func (b *backup) host() error {
	var r Record
	for b.log.Next(&r) == nil {
		if r.Type == 2 {
			delete(b.pending, r.ID)
		} else {
			b.pending[r.ID] = true
		}
		if b.end = b.log.Position(); len(b.pending) > 0 {
			continue
		}
		if err := b.log.Truncate(b.end); err != nil {
			return err
		}
	}
	return b.writer.Released(b.log.Head())
}

// Writers of logs that are far too small are slowed down, and all of them come to an end: each commit
// reserves in two logs, in one order, what it and its truncation take.
func TestAFullLogSlowsItsWritersDownAndNeverDeadlocks(t *testing.T) {
	const fibers, commits = 8, 30
	for seed := range uint64(5) {
		var logs [2]*backup
		for i := range logs {
			l, w := fresh(t, (4+2*i)*lineBytes, i == 1)
			logs[i] = &backup{log: l, writer: w, pending: map[uint64]bool{}}
		}
		done, waits := 0, uint64(0)
		simulated(t, seed, func(w *fiber.Worker) {
			for k := range fibers {
				w.Submit("writer", func(f *fiber.Fiber) error {
					for c := range commits {
						id := uint64(k*commits + c)
						if err := commit(f, logs[:], id); err != nil {
							return err
						}
						done++
					}
					return nil
				}, func(err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			w.Submit("host", func(f *fiber.Fiber) error {
				for done < fibers*commits {
					if f.Now() > time.Second {
						return fmt.Errorf("%d of %d commits after %v", done, fibers*commits, f.Now())
					}
					for _, b := range logs {
						if err := b.host(); err != nil {
							return err
						}
					}
					if err := f.Sleep(20 * time.Microsecond); err != nil {
						return err
					}
				}
				return nil
			}, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
		})
		for _, b := range logs {
			waits += b.writer.Stats.Waits
			if err := b.host(); err != nil || b.writer.Room() != b.log.Capacity() ||
				b.writer.Stats.Appended != 2*fibers*commits {
				t.Errorf("seed %d: room for %d bytes is left, %+v, %v", seed, b.writer.Room(), b.writer.Stats, err)
			}
		}
		if waits == 0 {
			t.Error("nobody waited: the test shows nothing")
		}
	}
}

// commit logs to every backup and truncates.
func commit(f *fiber.Fiber, logs []*backup, id uint64) error {
	res := make([]Reservation, len(logs))
	for i, b := range logs {
		if err := b.writer.Reserve(f, &res[i], 0, 20, 0); err != nil {
			return err
		}
	}
	for _, typ := range []Type{1, 2} {
		for i, b := range logs {
			body := body(id, 20)
			if typ == 2 {
				body = nil
			}
			if err := b.log.Append(b.writer, &res[i], &Record{ID: id, Type: typ, Body: body}); err != nil {
				return err
			}
		}
		if err := f.Sleep(5 * time.Microsecond); err != nil {
			return err
		}
	}
	for i, b := range logs {
		b.writer.Release(&res[i])
	}
	return nil
}

func TestReservationsWaitInOrderAndGiveUp(t *testing.T) {
	l, w := fresh(t, 4*lineBytes, false)
	var order []string
	simulated(t, 1, func(x *fiber.Worker) {
		x.Submit("holder", func(f *fiber.Fiber) error {
			var r Reservation
			if err := w.Reserve(f, &r, 0, 0, 0, 0); err != nil { // three of four lines
				return err
			}
			if err := f.Sleep(time.Millisecond); err != nil {
				return err
			}
			w.Release(&r)
			return nil
		}, nil)
		for i, c := range []struct {
			name     string
			lines    int
			deadline time.Duration
		}{{"long", 4, 0}, {"gives up", 2, 100 * time.Microsecond}, {"short", 1, 0}} {
			x.Submit(c.name, func(f *fiber.Fiber) error {
				if err := f.Sleep(time.Duration(i+1) * time.Microsecond); err != nil {
					return err
				}
				var r Reservation
				err := w.Reserve(f, &r, c.deadline, make([]int, c.lines)...)
				if c.deadline > 0 && !errors.Is(err, fiber.ErrDeadline) {
					t.Errorf("%s: %v", c.name, err)
				}
				order = append(order, c.name)
				w.Release(&r)
				return nil
			}, nil)
		}
	})
	if fmt.Sprint(order) != "[gives up long short]" || w.Room() != l.Capacity() {
		t.Errorf("%v, room for %d bytes", order, w.Room())
	}
}

// Who needs less than one before it that gave up need not wait for what that one waited for.
func TestReservationThatGivesUpLetsOthersPass(t *testing.T) {
	_, w := fresh(t, 4*lineBytes, false)
	simulated(t, 1, func(x *fiber.Worker) {
		var r [3]Reservation
		if ok, err := w.TryReserve(&r[0], 0, 0, 0); !ok { // never released
			t.Fatal(err)
		}
		x.Submit("long", func(f *fiber.Fiber) error {
			if err := w.Reserve(f, &r[1], 100*time.Microsecond, 0, 0); !errors.Is(err, fiber.ErrDeadline) {
				t.Errorf("long: %v", err)
			}
			return nil
		}, nil)
		x.Submit("short", func(f *fiber.Fiber) error {
			if err := f.Sleep(time.Microsecond); err != nil {
				return err
			}
			if err := w.Reserve(f, &r[2], time.Millisecond, 0); err != nil || f.Now() < 90*time.Microsecond {
				t.Errorf("short, at %v: %v", f.Now(), err)
			}
			return nil
		}, nil)
	})
}

// side is a node with a log in kept memory and one that writes to it.
type side struct {
	t      *testing.T
	worker *fiber.Worker
	conn   *fiber.Conn
	buffer *verbs.MR
}

const keptBytes = 16 * lineBytes

func keptMR(t *testing.T, pd *verbs.PD) *verbs.MR {
	t.Helper()
	mr, err := pd.AllocMR(Bytes(keptBytes), verbs.AccessAll, verbs.MROptions{Keep: "log"})
	must(t, err)
	return mr
}

func newSide(t *testing.T, active, passive *verbs.Context,
	newWorker func(fiber.WorkerConfig) (*fiber.Worker, error)) (*side, *verbs.PD) {
	t.Helper()
	s := &side{t: t}
	pd, err := active.AllocPD()
	must(t, err)
	s.worker, err = newWorker(fiber.WorkerConfig{Name: "writer", PD: pd, Conns: 1})
	must(t, err)
	s.conn, err = s.worker.NewConn(0)
	must(t, err)
	s.buffer, err = pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	must(t, err)
	host, err := passive.AllocPD()
	must(t, err)
	cq, err := passive.CreateCQ(verbs.CQConfig{Depth: 4})
	must(t, err)
	qp, err := host.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SendDepth: 1,
		RecvDepth: 1, Access: verbs.AccessAll})
	must(t, err)
	peer := s.conn.Endpoint()
	must(t, qp.Connect(&peer, verbs.ConnectAttr{}))
	must(t, s.conn.Connect(qp.Endpoint(), verbs.ConnectAttr{}))
	return s, host
}

// write appends records by WRITE, as many as have room, and returns their number.
func (s *side) write(f *fiber.Fiber, w *Writer, mr verbs.RemoteMR, from uint64) (uint64, error) {
	var b fiber.Batch
	for id := from; ; id++ {
		var res Reservation
		n := int(id*37) % 200
		if ok, err := w.TryReserve(&res, n); !ok {
			return id - from, err
		}
		p, err := w.Encode(&res, &Record{ID: id, Type: 3, Body: body(id, n)}, s.buffer.Bytes())
		if err != nil {
			return 0, err
		}
		b.Reset()
		for _, x := range p.Pieces {
			if x.From < x.To {
				b.Write(f, s.conn, s.buffer.SGE(x.From, x.To-x.From), mr.Addr+uint64(x.Offset), mr.RKey)
			}
		}
		if err := b.Await(f); err != nil {
			return 0, err
		}
	}
}

// keptStory has the writer fill the log of the host by WRITE in several laps; then the memory is opened
// again, and everything that was not truncated is there.
func keptStory(t *testing.T, s *side, host *verbs.PD, run func(func(*fiber.Fiber) error)) {
	mr := keptMR(t, host)
	l, err := Format(mr.Bytes(), Config{Generation: testGeneration, Marks: true})
	must(t, err)
	w := writerOf(t, l, 0, 0)
	next, wrote := uint64(1), uint64(0)
	var last uint64
	run(func(f *fiber.Fiber) error {
		for lap := range 6 {
			n, err := s.write(f, w, mr.Remote(), next)
			if err != nil {
				return err
			}
			next, wrote = next+n, n
			if lap == 5 {
				return nil
			}
			var r Record
			for l.Next(&r) == nil {
				last = r.ID
			}
			if last != next-1 {
				return fmt.Errorf("read up to %d of %d", last, next-1)
			}
			if err := errors.Join(l.Truncate(l.Position()), w.Released(l.Head())); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, mr.Close())
	mr = keptMR(t, host)
	got, scan := ids(t, mr.Bytes())
	if uint64(len(got)) != wrote || got[0] != last+1 || !errors.Is(scan.Why, ErrEnd) {
		t.Errorf("%d records from %d on, not %d from %d: %v", len(got), got[0], wrote, last+1, scan.Why)
	}
	must(t, mr.Close())
}

func TestRecordsThatWereWrittenFromAfarOutliveTheMR(t *testing.T) {
	t.Run("sim", func(t *testing.T) {
		world, err := sim.New(sim.Config{Seed: 1, EventLimit: 10_000_000})
		must(t, err)
		var contexts []*verbs.Context
		var core *fiber.Core
		for range 2 {
			n, err := world.AddNode(sim.NodeConfig{})
			must(t, err)
			ctx, err := n.Open()
			must(t, err)
			contexts = append(contexts, ctx)
			if core == nil {
				core = fiber.NewCore(n.Timeline(0))
			}
		}
		s, host := newSide(t, contexts[0], contexts[1], core.NewWorker)
		keptStory(t, s, host, func(body func(*fiber.Fiber) error) {
			var ended error
			s.worker.Submit("writer", body, func(err error) { ended = err })
			must(t, errors.Join(world.Run(), ended))
		})
		must(t, core.Close())
		must(t, errors.Join(contexts[0].Close(), contexts[1].Close()))
	})
	t.Run("shm", func(t *testing.T) {
		p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
		thread, err := fiber.NewThread(fiber.ThreadConfig{})
		must(t, err)
		active, err := p.Open("")
		must(t, err)
		passive, err := p.Open("")
		must(t, err)
		if !passive.Attr().Caps.KeptMRs {
			t.Log("race builds keep no memory")
		} else {
			s, host := newSide(t, active, passive, thread.NewWorker)
			keptStory(t, s, host, func(body func(*fiber.Fiber) error) {
				var ended error
				s.worker.Submit("writer", body, func(err error) { ended = err; thread.Stop() })
				must(t, errors.Join(fiber.Threads(t.Context(), thread), ended))
			})
		}
		must(t, thread.Close())
		must(t, errors.Join(passive.Close(), active.Close()))
	})
}
