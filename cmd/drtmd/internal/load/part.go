package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/verbs"
)

// PartConfig of NewPart.
type PartConfig struct {
	// Open builds the part that a request asks for, with the settings of its clients. It calls
	// p.Exchange and p.Connected.
	Open func(ctx context.Context, r *Request, p *node.Part) (*node.Cluster, *Options, error)
	// Clock is the time since the cluster's epoch and its error; nil: the leader is on this machine. ctx ends with the
	// part that is being opened.
	Clock func(ctx context.Context, r *Request) (verbs.Clock, time.Duration, error)
	// Silence of whoever leads a run after which its clients end by themselves; 0 is no bound.
	Silence time.Duration
	// Machine is of this process, as Request.Machine.
	Machine string
	// Lease is node.Part.Lease.
	Lease func() bool
}

// ErrFenced: the part was taken out of service; the cause is wrapped beside it.
var ErrFenced = errors.New("taken out of service")

// Part is a process's share of a cluster, built and driven step by step by whoever leads: the other
// side of RunPeers. Do carries out one step at a time; everything else may be called at any time.
type Part struct {
	cfg  PartConfig
	step sync.Mutex // held by Do

	// use is held for reading by what uses site without mu, and for writing while it is closed. It is
	// taken under mu while site is there, so that nobody waits for it there.
	use sync.RWMutex

	mu      sync.Mutex // guards what follows
	opening *opening   // a part that is not connected yet
	site    *local     // one that is
	request *Request   // of open
	ran     bool
	span    span // of the run
	fenced  error
	silence *time.Timer
	opened  uint64 // parts so far
}

// span is a phase of a run as one part sees it: since when, and what its workers had counted then.
// What they count and the time that it takes are never of two phases.
type span struct {
	phase Phase // 0: none has begun
	begun time.Time
	of    time.Duration // that it is to last
	base  Snapshot
	ended time.Time // zero while clients run
}

// elapsed is how long the phase has lasted at a time.
func (s *span) elapsed(at time.Time) time.Duration {
	if !s.ended.IsZero() {
		at = s.ended
	}
	return max(at.Sub(s.begun), 0)
}

// NewPart makes a part that holds nothing yet.
func NewPart(cfg PartConfig) *Part { return &Part{cfg: cfg} }

// opening is a part between open and go. Its goroutine builds the cluster.
type opening struct {
	cancel  context.CancelCauseFunc
	own     chan [][]byte // the descriptors, once
	all     chan []node.Descriptor
	joined  chan struct{} // closed when its queue pairs are connected
	proceed chan struct{} // closed when everybody's are
	ended   chan struct{} // closed with what follows
	cluster *node.Cluster
	o       *Options
	err     error
}

// Do carries out a step. A failed open, connect or go leaves nothing behind. ctx bounds the wait,
// but for a cluster that is being stopped.
func (p *Part) Do(ctx context.Context, r *Request) (*Answer, error) {
	p.step.Lock()
	defer p.step.Unlock()
	p.mu.Lock()
	if p.silence != nil {
		p.silence.Reset(p.cfg.Silence)
	}
	p.mu.Unlock()
	switch r.Step {
	case StepOpen:
		return p.open(ctx, r)
	case StepConnect, StepGo:
		a, err := p.proceed(ctx, r)
		if err != nil {
			err = errors.Join(err, p.quit())
		}
		return a, err
	case StepQuit:
		return &Answer{}, p.quit()
	}
	p.mu.Lock()
	s, err, ran := p.site, p.fenced, p.ran
	p.mu.Unlock()
	switch {
	case s == nil && err != nil:
		return nil, fmt.Errorf("%s: %w", r.Step, err)
	case s == nil:
		return nil, fmt.Errorf("%s: the part is not open", r.Step)
	case err != nil && r.Step != StepEnd && r.Step != StepFinish:
		return nil, fmt.Errorf("%s: %w", r.Step, err)
	case ran && (r.Step == StepStart || r.Step == StepBegin):
		return nil, fmt.Errorf("%s: a second time", r.Step)
	case !ran && r.Step != StepStart && r.Step != StepBegin:
		return nil, fmt.Errorf("%s: before start", r.Step)
	}
	return p.carryOut(ctx, s, r)
}

// open begins to build a part, in place of the one that is there.
func (p *Part) open(ctx context.Context, r *Request) (*Answer, error) {
	if err := p.quit(); err != nil {
		return nil, err
	}
	build, cancel := context.WithCancelCause(context.Background())
	o := &opening{cancel: cancel, own: make(chan [][]byte, 1), all: make(chan []node.Descriptor, 1),
		joined: make(chan struct{}), proceed: make(chan struct{}), ended: make(chan struct{})}
	p.mu.Lock()
	p.opening, p.request, p.fenced, p.ran, p.span = o, r, nil, false, span{}
	p.opened++
	p.mu.Unlock()
	go o.build(build, &p.cfg, r)
	select {
	case own := <-o.own:
		return &Answer{Own: own}, nil
	case <-o.ended:
	case <-ctx.Done():
		cancel(ctx.Err())
	}
	<-o.ended
	return nil, errors.Join(o.err, p.quit())
}

func (o *opening) build(ctx context.Context, cfg *PartConfig, r *Request) {
	defer close(o.ended)
	part := &node.Part{Members: r.Members, Exchange: func(own []node.Descriptor) ([]node.Descriptor, error) {
		return o.exchange(ctx, own)
	}, Connected: func() error { return o.connected(ctx) }, Lease: cfg.Lease, Lasting: r.Data != nil}
	clock := cfg.Clock
	if clock == nil {
		clock = machineClock
	}
	if part.Clock, part.ClockError, o.err = clock(ctx, r); o.err != nil {
		return
	}
	o.cluster, o.o, o.err = cfg.Open(ctx, r, part)
}

// machineClock is for processes of one machine.
func machineClock(_ context.Context, r *Request) (verbs.Clock, time.Duration, error) {
	return node.NewMachineClock(time.Duration(r.EpochNs))
}

func (o *opening) exchange(ctx context.Context, own []node.Descriptor) ([]node.Descriptor, error) {
	var all [][]byte
	for i := range own {
		b, err := own[i].MarshalBinary()
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	o.own <- all
	select {
	case all := <-o.all:
		return all, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (o *opening) connected(ctx context.Context) error {
	close(o.joined)
	select {
	case <-o.proceed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// proceed connects, or makes the engines.
func (p *Part) proceed(ctx context.Context, r *Request) (*Answer, error) {
	p.mu.Lock()
	o, fenced := p.opening, p.fenced
	p.mu.Unlock()
	if o == nil {
		return nil, errors.Join(fmt.Errorf("%s: the part is not being opened", r.Step), fenced)
	}
	next := o.joined
	if r.Step == StepConnect {
		all := make([]node.Descriptor, len(r.All))
		for i, b := range r.All {
			if err := all[i].UnmarshalBinary(b); err != nil {
				return nil, fmt.Errorf("descriptor of node %d: %w", i, err)
			}
		}
		select {
		case o.all <- all:
		default:
			return nil, errors.New("connect: a second time")
		}
	} else {
		select {
		case <-o.joined:
		default:
			return nil, errors.New("go: before connect")
		}
		close(o.proceed)
		next = o.ended
	}
	select {
	case <-next:
	case <-o.ended:
	case <-ctx.Done():
		o.cancel(ctx.Err())
		<-o.ended
	}
	select {
	case <-o.ended:
		if o.err != nil {
			return nil, o.err
		}
	default:
	}
	if r.Step == StepConnect {
		return &Answer{}, nil
	}
	return p.take(o)
}

// take takes a cluster that is connected into service.
func (p *Part) take(o *opening) (*Answer, error) {
	s := &local{o: o.o, cluster: o.cluster}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening, p.site = nil, s
	if p.fenced != nil { // while the engines were made
		return nil, errors.Join(p.fenced, s.fence())
	}
	device := s.device()
	a := &Answer{Device: &device}
	if p.request.Machine == p.cfg.Machine {
		for _, m := range s.cluster.Members {
			a.Kept = append(a.Kept, m.Kept()...)
		}
	}
	return a, nil
}

// carryOut does a step of a part in service.
func (p *Part) carryOut(ctx context.Context, s *local, r *Request) (*Answer, error) {
	a := &Answer{}
	switch r.Step {
	case StepBegin:
		return a, s.cluster.Begin(ctx)
	case StepStart:
		err := s.start()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ran = err == nil
		p.span = span{phase: Warming, begun: time.Now(), of: s.o.Warmup}
		if p.cfg.Silence > 0 {
			p.silence = time.AfterFunc(p.cfg.Silence, func() { s.over.Store(true) })
		}
		return a, err
	case StepFailed:
		return a, s.failure(ctx)
	case StepLook:
		for _, n := range r.Gone {
			if err := s.cluster.Disconnect(n); err != nil {
				return nil, err
			}
		}
		var h histograms
		if r.Latencies {
			h = newHistograms(len(s.o.Workload.Kinds()))
		}
		a.Sum = &Snapshot{}
		_, err := s.look(ctx, a.Sum, h, r.Reset)
		for _, x := range h {
			b, encodeErr := x.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
			a.Latencies, err = append(a.Latencies, b), errors.Join(err, encodeErr)
		}
		if r.Reset && err == nil { // the measurement begins
			p.mu.Lock()
			p.span = span{phase: Measuring, begun: time.Now(), of: s.o.Duration, base: *a.Sum}
			p.mu.Unlock()
		}
		return a, err
	case StepEnd:
		p.stopSilence()
		p.mu.Lock()
		p.span.ended = time.Now()
		p.mu.Unlock()
		var err error
		a.Unsettled, err = s.endWithout(ctx, r.Gone)
		return a, err
	case StepFinish:
		if r.Owing {
			s.owing = true
		}
		return s.answerTotals(ctx, r.History)
	}
	return nil, fmt.Errorf("unknown step %q", r.Step)
}

// answerTotals stops the cluster and says what is left, the history in a file.
func (s *local) answerTotals(ctx context.Context, file string) (*Answer, error) {
	x, err := s.finish(ctx)
	if err != nil {
		return nil, err
	}
	a := &Answer{Tally: x.tally, Did: x.did, Recovery: s.recovered}
	if x.orphans.Count > 0 {
		a.Orphans = &x.orphans
	}
	if x.audit != nil {
		a.Audit = x.audit.Error()
	}
	if x.history == nil {
		return a, nil
	}
	a.Recorded = true
	if known, _ := x.history.Knows(history.Final); !known {
		a.NoFinal = true
	}
	if err := errors.Join(x.history.WriteFile(file), x.history.Close()); err != nil {
		return nil, err
	}
	i, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	a.RecordedBytes = i.Size()
	return a, nil
}

func (p *Part) stopSilence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silence != nil {
		p.silence.Stop()
		p.silence = nil
	}
}

// Disconnect ends the connections to a member that is gone: what waits for it ends now. While the
// part is being opened, that ends with the cause.
func (p *Part) Disconnect(n proto.NodeID, cause error) error {
	p.mu.Lock()
	o := p.opening
	s, release := p.inUseLocked()
	p.mu.Unlock()
	defer release()
	switch {
	case o != nil:
		o.cancel(cause)
	case s != nil:
		return s.cluster.Disconnect(n)
	}
	return nil
}

// inUse is the part in service, which is not closed before release was called; nil if there is
// none.
func (p *Part) inUse() (s *local, release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inUseLocked()
}

func (p *Part) inUseLocked() (s *local, release func()) {
	if p.site == nil {
		return nil, func() {}
	}
	p.use.RLock()
	return p.site, p.use.RUnlock
}

// Fence takes the part out of service at once: its queue pairs go to the error state, its clients
// end, and every step but end, finish and quit is refused with the cause from then on.
func (p *Part) Fence(cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fenced == nil {
		p.fenced = fmt.Errorf("%w: %w", ErrFenced, cause)
	}
	switch {
	case p.opening != nil:
		p.opening.cancel(p.fenced)
	case p.site != nil:
		return p.site.fence()
	}
	return nil
}

// fence moves every queue pair to the error state.
func (s *local) fence() error {
	s.over.Store(true)
	var errs []error
	for n := range s.cluster.Config.Nodes {
		errs = append(errs, s.cluster.Disconnect(proto.NodeID(n)))
	}
	return errors.Join(errs...)
}

// quit closes what is there.
func (p *Part) quit() error {
	p.stopSilence()
	p.mu.Lock()
	o, s := p.opening, p.site
	p.opening, p.site = nil, nil
	p.mu.Unlock()
	var err error
	if o != nil {
		o.cancel(errors.New("another one is opened"))
		<-o.ended
		if o.cluster != nil {
			err = o.cluster.Close()
		}
	}
	if s != nil {
		p.use.Lock()
		err = errors.Join(err, s.close())
		p.use.Unlock()
	}
	return err
}

// Close closes the part. It waits for the step under way.
func (p *Part) Close() error {
	p.step.Lock()
	defer p.step.Unlock()
	return p.quit()
}
