package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/verbs"
)

// Peer is a process that holds a Part and does what it is asked to.
type Peer interface {
	// Name is for people.
	Name() string
	// Do carries out a step. An error that is no *Refusal says that the peer may be gone. After
	// finish, what it recorded is in the request's file.
	Do(ctx context.Context, r *Request) (*Answer, error)
	// Gone is closed when the peer is known to be dead, and Err then says how.
	Gone() <-chan struct{}
	Err() error
}

// PeerOptions of RunPeers.
type PeerOptions struct {
	Options
	Nodes int // of the cluster, dealt out to the peers in turn
	Peers []Peer
	// Plan, if not nil, is sent to the peers; Run is the run's name.
	Plan *Plan
	Run  string
	// Data is what the peers keep of their tables; nil: nothing.
	Data *Data
	// Machine and Leader are of Request.
	Machine, Leader string
	// Names are those of the workload, for histories.
	Names history.Names
	// Lost, if not nil, is told at once of a peer that is gone while clients run.
	Lost func(error)
	// GoneTimeout is how long peers that do not answer in a step may take to be known as gone; 0 is
	// one second.
	GoneTimeout time.Duration
	// TempDir is for histories; "" is the system's.
	TempDir string
}

const (
	// openTimeout bounds the opening of a peer's part, tables loaded.
	openTimeout = 2 * time.Minute
	// lookTimeout bounds a look at the counts.
	lookTimeout = 10 * time.Second
	// finishTimeout bounds the end of a peer's part, history saved.
	finishTimeout = 2 * time.Minute
	// quitTimeout is what a peer gets to end in peace.
	quitTimeout = 10 * time.Second
)

// peers is a site of several processes, led by this one.
type peers struct {
	o         *PeerOptions
	list      []*peer // those that live, as far as is known
	dead      []*peer // those that are gone since clients run: see lost.go
	runs      bool    // clients run
	measures  bool    // the warm-up is over
	died      chan *peer
	over      chan struct{}      // closed by close
	life      context.Context    // ends before over
	kill      context.CancelFunc // ends life
	wg        sync.WaitGroup
	clock     *node.MachineClock
	attr      verbs.DeviceAttr
	unsettled Unsettled // what end found
}

type peer struct {
	Peer
	members []proto.NodeID
	last    Snapshot      // of the last look
	warm    bool          // its latencies are still to begin anew
	base    Snapshot      // last when the measurement began
	late    Snapshot      // what it counted from then until it took part
	owes    chan *reply   // of a poll that it has not answered; nil: of none
	since   time.Duration // on the site's clock, that it has not answered; 0: it has
	kept    []*os.File    // in which it records
}

// RunPeers is Run on a cluster whose nodes live in several processes. A folder for histories that
// cannot be made is an error before anything runs.
func RunPeers(ctx context.Context, o PeerOptions) (r *Result, err error) {
	dir, err := os.MkdirTemp(o.TempDir, "drtmd-run-")
	if err != nil {
		return nil, fmt.Errorf("temporary folder for histories: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.TempDir = dir
	s := newPeers(&o)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return runOn(ctx, &o.Options, s)
}

// BuildPeers has the peers open their parts and connect them, and leaves it at that.
func BuildPeers(ctx context.Context, o PeerOptions) error {
	s := newPeers(&o)
	defer s.forget()
	return s.open(ctx)
}

func newPeers(o *PeerOptions) *peers {
	s := &peers{o: o, died: make(chan *peer, len(o.Peers)), over: make(chan struct{})}
	s.life, s.kill = context.WithCancel(context.Background())
	if o.GoneTimeout == 0 {
		o.GoneTimeout = time.Second
	}
	for _, x := range o.Peers {
		p := &peer{Peer: x}
		s.list = append(s.list, p)
		s.wg.Go(func() {
			select {
			case <-x.Gone():
				s.died <- p
			case <-s.over:
			}
		})
	}
	for n := range o.Nodes {
		p := s.list[n%len(s.list)]
		p.members = append(p.members, proto.NodeID(n))
	}
	return s
}

func (s *peers) open(ctx context.Context) error {
	epoch, err := node.MachineNow()
	if err != nil {
		return err
	}
	if s.o.Data != nil {
		epoch = node.LastingEpoch(epoch)
	}
	if s.clock, _, err = node.NewMachineClock(epoch); err != nil {
		return err
	}
	return s.connect(ctx, int64(epoch))
}

// connect opens the parts and connects them.
func (s *peers) connect(ctx context.Context, epoch int64) error {
	all := make([][]byte, s.o.Nodes)
	err := s.each(ctx, openTimeout, func(i int) *Request {
		return &Request{Step: StepOpen, Members: s.list[i].members, EpochNs: epoch, Plan: s.o.Plan,
			Run: s.o.Run, Machine: s.o.Machine, Leader: s.o.Leader, Data: s.o.Data}
	}, func(i int, a *Answer) error {
		members := s.list[i].members
		if len(a.Own) != len(members) {
			return fmt.Errorf("%s describes %d members, want %d", s.list[i].Name(), len(a.Own),
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
	err = s.all(ctx, openTimeout, &Request{Step: StepConnect, All: all}, nil)
	if err != nil {
		return err
	}
	return s.all(ctx, openTimeout, &Request{Step: StepGo}, func(i int, a *Answer) error {
		if a.Device != nil {
			s.attr = *a.Device
		}
		return s.list[i].hold(a.Kept)
	})
}

// all sends one request to every peer and takes the answers.
func (s *peers) all(ctx context.Context, timeout time.Duration, r *Request,
	take func(int, *Answer) error) error {
	return s.each(ctx, timeout, func(int) *Request { return r }, take)
}

// each asks every peer at the same time, and takes the answers in their order. While clients run,
// one that is gone is left out.
func (s *peers) each(ctx context.Context, timeout time.Duration, ask func(i int) *Request,
	take func(i int, a *Answer) error) error {
	return s.eachAt(ctx, timeout, ask, take, nil)
}

// eachAt is each, and notes when peers have answered.
func (s *peers) eachAt(ctx context.Context, timeout time.Duration, ask func(i int) *Request,
	take func(i int, a *Answer) error, when *answered) error {
	errs, answers := make([]error, len(s.list)), make([]*Answer, len(s.list))
	var wg sync.WaitGroup
	var step Step
	for i, p := range s.list {
		r := ask(i)
		step = r.Step
		wg.Go(func() {
			if answers[i], errs[i] = s.ask(ctx, p, timeout, r); errs[i] == nil && when != nil {
				when.note(s.now())
			}
		})
	}
	wg.Wait()
	for i := range s.list {
		if errs[i] == nil && take != nil {
			errs[i] = take(i, answers[i])
		}
	}
	return s.dropLostPeers(step, errs)
}

// ask asks one peer, until it is known to be gone.
func (s *peers) ask(ctx context.Context, p *peer, timeout time.Duration, r *Request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answered := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-p.Gone():
			cancel()
		case <-answered:
		}
	})
	a, err := p.Do(ctx, r)
	close(answered)
	wg.Wait()
	return a, err
}

func (s *peers) start() error {
	if d := s.o.Data; d != nil && d.Attach {
		if err := s.all(context.Background(), openTimeout, &Request{Step: StepBegin}, nil); err != nil {
			return err
		}
	}
	s.runs = true
	return s.all(context.Background(), lookTimeout, &Request{Step: StepStart}, nil)
}

func (s *peers) now() time.Duration { return s.clock.Now() }

func (s *peers) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case p := <-s.died:
			if err := s.dropPeer(StepLook, p); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failure asks the peers, without waiting for one that does not answer.
func (s *peers) failure(context.Context) error {
	_, err := s.poll(&Request{Step: StepFailed})
	return errors.Join(err, s.dropDeadPeers())
}

// glance asks the peers for counters, without waiting for one that does not answer.
func (s *peers) glance(_ context.Context, sum *Snapshot) (time.Duration, error) {
	at, err := s.poll(&Request{Step: StepLook, Gone: s.gone()})
	s.add(sum)
	return at, errors.Join(err, s.dropDeadPeers())
}

// add adds up what the peers have last said: counters never go back.
func (s *peers) add(sum *Snapshot) {
	for _, p := range slices.Concat(s.list, s.dead) {
		sum.add(s.counted(p))
	}
}

// look waits for every peer, or for its end, unless latencies begin anew.
func (s *peers) look(ctx context.Context, sum *Snapshot, h histograms, reset bool) (time.Duration,
	error) {
	if reset {
		return s.begin(sum)
	}
	if err := s.catchUp(); err != nil {
		return 0, err
	}
	r := &Request{Step: StepLook, Latencies: h != nil, Gone: s.gone()}
	var when answered
	list := s.list
	err := s.eachAt(context.WithoutCancel(ctx), lookTimeout, func(int) *Request { return r },
		func(i int, a *Answer) error {
			if a.Sum == nil || h != nil && len(a.Latencies) != len(h) {
				return errors.New("an answer without counts")
			}
			if list[i].warm { // it has not taken part
				return nil
			}
			list[i].last = *a.Sum
			for k := range h {
				x, err := hdrhistogram.Decode(a.Latencies[k])
				if err != nil {
					return fmt.Errorf("latencies: %w", err)
				}
				h[k].Merge(x)
			}
			return nil
		}, &when)
	if err != nil {
		return 0, err
	}
	s.add(sum)
	if when.at == 0 {
		when.at = s.now()
	}
	return when.at, nil
}

func (s *peers) end(ctx context.Context) (u Unsettled, err error) {
	for more := true; more && err == nil; {
		u = Unsettled{}
		dead := len(s.dead)
		err = s.all(ctx, endTimeout+settleTimeout+endTimeout, &Request{Step: StepEnd, Gone: s.gone()},
			func(_ int, a *Answer) error {
				u = u.plus(a.Unsettled)
				return nil
			})
		more = len(s.dead) > dead // the others have it to recover, if they can
	}
	s.unsettled = u
	return u, err
}

func (s *peers) finish(ctx context.Context) (t *totals, err error) {
	t = &totals{}
	var saved []string
	final := true
	var recovered *RecoveryTotals
	file := func(i int) string { return filepath.Join(s.o.TempDir, fmt.Sprintf("%d.hist", i)) }
	err = s.each(ctx, finishTimeout, func(i int) *Request {
		return &Request{Step: StepFinish, History: file(i), Owing: s.unsettled != Unsettled{}}
	}, func(i int, a *Answer) error {
		t.tally = t.tally.Plus(a.Tally)
		t.did.Add(&a.Did)
		if a.Orphans != nil {
			t.orphans = t.orphans.Plus(*a.Orphans)
		}
		if a.Audit != "" {
			t.audit = errors.Join(t.audit, errors.New(a.Audit))
		}
		if a.Recorded {
			saved, final = append(saved, file(i)), final && !a.NoFinal
		}
		if a.Recovery != nil {
			if recovered == nil {
				recovered = &RecoveryTotals{}
			}
			recovered.add(a.Recovery)
		}
		return nil
	})
	saved = append(saved, s.recover(t, recovered, final)...)
	if err != nil || len(saved) == 0 || t.lost != nil {
		return t, err
	}
	// The files go with their folder, and stay open.
	t.history, err = history.OpenAll(s.o.Names, saved...)
	return t, err
}

func (s *peers) device() verbs.DeviceAttr { return s.attr }

// close ends the parts of the peers that live.
func (s *peers) close() error {
	list := s.list
	var wg sync.WaitGroup
	for _, p := range list {
		wg.Go(func() {
			_, _ = s.ask(context.Background(), p, quitTimeout, &Request{Step: StepQuit}) // it may be gone
		})
	}
	wg.Wait()
	s.forget()
	return nil
}

// forget lets the peers be.
func (s *peers) forget() {
	for _, p := range slices.Concat(s.list, s.dead) {
		_ = p.drop() // was only read
	}
	s.kill()
	close(s.over)
	s.wg.Wait()
}
