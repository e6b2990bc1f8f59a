package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/verbs"
)

// ProcessOptions of RunProcesses.
type ProcessOptions struct {
	Options
	Nodes     int // of the cluster, dealt out to the processes in turn
	Processes int
	// Command makes the command of a process that calls Join with the socket that it has as file
	// descriptor 3.
	Command func() *exec.Cmd
	// Names are those of the workload, for histories.
	Names history.Names
	// Lost, if not nil, is told at once of a process that has ended while clients run.
	Lost func(error)
}

const (
	// openTimeout bounds the opening of a process's part, tables loaded.
	openTimeout = 2 * time.Minute
	// lookTimeout bounds a look at the counts.
	lookTimeout = 10 * time.Second
	// finishTimeout bounds the end of a process's part, history saved.
	finishTimeout = 2 * time.Minute
	// quitTimeout is what a process gets to end in peace.
	quitTimeout = 10 * time.Second
)

// processes is a site of several processes, led by this one.
type processes struct {
	o     *ProcessOptions
	list  []*process // those that live, as far as is known
	dead  []*process // those that ended while clients ran: see lost.go
	runs  bool       // clients run
	died  chan *process
	clock *node.MachineClock
	attr  verbs.DeviceAttr
	dir   string // for histories
}

type process struct {
	*talk
	cmd     *exec.Cmd
	members []proto.NodeID
	last    Snapshot      // of the last look
	ended   chan struct{} // closed when it has
	err     error         // how it has, valid after that
}

// RunProcesses is Run on a cluster whose nodes live in several processes of this machine.
func RunProcesses(ctx context.Context, o ProcessOptions) (*Result, error) {
	s := &processes{o: &o, died: make(chan *process, o.Processes)}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return runOn(ctx, &o.Options, s)
}

func (s *processes) open(ctx context.Context) error {
	epoch, err := node.MachineNow()
	if err != nil {
		return err
	}
	if s.clock, _, err = node.NewMachineClock(epoch); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "drtmd-bench-"); err != nil {
		return err
	}
	for range s.o.Processes {
		p, err := s.launch()
		if err != nil {
			return err
		}
		s.list = append(s.list, p)
	}
	stop := context.AfterFunc(ctx, s.kill) // nothing is lost before it runs
	defer stop()
	return s.connect(int64(epoch))
}

// launch starts a process with a socket to it.
func (s *processes) launch() (*process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "supervisor"), os.NewFile(uintptr(fds[1]), "process")
	defer theirs.Close()
	conn, err := net.FileConn(ours) // which duplicates it
	if err := errors.Join(err, ours.Close()); err != nil {
		return nil, err
	}
	p := &process{talk: newTalk(conn), cmd: s.o.Command(), ended: make(chan struct{})}
	p.cmd.ExtraFiles = []*os.File{theirs}
	// A signal of the terminal is the supervisor's: it ends the run, and the processes with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
		s.died <- p
	}()
	return p, nil
}

// connect opens the parts and connects them.
func (s *processes) connect(epoch int64) error {
	for n := range s.o.Nodes {
		p := s.list[n%len(s.list)]
		p.members = append(p.members, proto.NodeID(n))
	}
	all := make([][]byte, s.o.Nodes)
	err := s.each(openTimeout, func(i int) *request {
		return &request{Step: stepOpen, Members: s.list[i].members, EpochNs: epoch}
	}, func(i int, a *answer) error {
		members := s.list[i].members
		if len(a.Own) != len(members) {
			return fmt.Errorf("process %d describes %d members, want %d", i, len(a.Own),
				len(members))
		}
		for j, b := range a.Own {
			all[members[j]] = b
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.all(openTimeout, &request{Step: stepConnect, All: all}, nil)
	if err != nil {
		return err
	}
	return s.all(openTimeout, &request{Step: stepGo}, func(_ int, a *answer) error {
		if a.Device != nil {
			s.attr = *a.Device
		}
		return nil
	})
}

// all sends one request to every process and takes the answers.
func (s *processes) all(timeout time.Duration, r *request, take func(int, *answer) error) error {
	return s.each(timeout, func(int) *request { return r }, take)
}

// each sends every process a request, all before the first answer is awaited. While clients run,
// one that has died is left out.
func (s *processes) each(timeout time.Duration, ask func(i int) *request,
	take func(i int, a *answer) error) error {
	errs := make([]error, len(s.list))
	for i, p := range s.list {
		errs[i] = p.send(ask(i))
	}
	for i, p := range s.list {
		var a *answer
		if errs[i] == nil {
			a, errs[i] = p.answer(timeout)
		}
		if errs[i] == nil && take != nil {
			errs[i] = take(i, a)
		}
	}
	return s.sift(errs)
}

func (s *processes) start() error {
	s.runs = true
	return s.all(lookTimeout, &request{Step: stepStart}, nil)
}

func (s *processes) now() time.Duration { return s.clock.Now() }

func (s *processes) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case p := <-s.died:
			if err := s.bury(p); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *processes) failure(context.Context) error {
	return s.all(lookTimeout, &request{Step: stepFailed}, nil)
}

func (s *processes) look(_ context.Context, sum *Snapshot, h histograms, reset bool) error {
	err := s.all(lookTimeout, &request{Step: stepLook, Reset: reset, Latencies: h != nil,
		Gone: s.gone()},
		func(i int, a *answer) error {
			if a.Sum == nil || h != nil && len(a.Latencies) != len(h) {
				return errors.New("a look without counts")
			}
			s.list[i].last = *a.Sum
			for k := range h {
				h[k].Merge(hdrhistogram.Import(a.Latencies[k]))
			}
			return nil
		})
	for _, p := range slices.Concat(s.list, s.dead) {
		sum.add(&p.last) // counters never go back
	}
	return err
}

func (s *processes) end(context.Context) error {
	return s.all(endTimeout, &request{Step: stepEnd}, nil)
}

func (s *processes) finish(ctx context.Context) (*totals, error) {
	t := &totals{}
	var saved []string
	file := func(i int) string { return filepath.Join(s.dir, fmt.Sprintf("%d.hist", i)) }
	err := s.each(finishTimeout, func(i int) *request {
		return &request{Step: stepFinish, History: file(i)}
	}, func(i int, a *answer) error {
		t.initial, t.final = t.initial.Plus(a.Initial), t.final.Plus(a.Final)
		t.did.Add(&a.Did)
		if a.Recorded {
			saved = append(saved, file(i))
		}
		return nil
	})
	if t.lost = s.loss(); err != nil || len(saved) == 0 || t.lost != nil {
		return t, err
	}
	t.history, err = joinHistories(ctx, s.o.Names, saved)
	return t, err
}

func (s *processes) device() verbs.DeviceAttr { return s.attr }

// kill ends every process at once.
func (s *processes) kill() {
	for _, p := range s.list {
		_ = p.cmd.Process.Kill() // it may have ended
	}
}

func (s *processes) close() error {
	for _, p := range s.list {
		_ = p.send(&request{Step: stepQuit}) // it may have ended
	}
	deadline := time.After(quitTimeout)
	var errs []error
	for _, p := range slices.Concat(s.list, s.dead) {
		select {
		case <-p.ended:
		case <-deadline:
			s.kill()
			<-p.ended
		}
		errs = append(errs, p.conn.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
