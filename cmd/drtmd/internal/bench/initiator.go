package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"drtmd/cmd/drtmd/internal/exchange"
)

// Progress is told how a run goes; either function may be nil. It is called between
// measurements.
type Progress struct {
	// Begin of measurement number n of total, counted from 1.
	Begin func(n, total int, c Case, p Phase)
	// Done with a row.
	Done func(Result)
}

// flagOf turns the end of ctx into something that a busy loop can look at.
func flagOf(ctx context.Context) (done func() bool, release func()) {
	var flag atomic.Bool
	stop := context.AfterFunc(ctx, func() { flag.Store(true) })
	return flag.Load, func() { stop() }
}

// Run leads a conversation: it measures what o says and returns the rows. With an error come the
// rows measured before it. Options that the devices do not allow are a LimitError, and nothing
// was measured then. The connection stays open.
func Run(ctx context.Context, st *Station, conn *exchange.Conn, o Options,
	pr Progress) ([]Result, error) {
	var p *plan
	err := o.endless()
	if err == nil {
		p, err = newPlan(o, limitsOf(st, conn.Peer))
	}
	if err != nil {
		return nil, reportFailure(ctx, conn, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	done, release := flagOf(ctx)
	defer release()
	defer conn.Beat(exchange.BeatEvery)()
	i := &initiator{st: st, conn: conn, plan: p, clock: newClock(),
		stop: func() bool { return done() || conn.Attention() }}
	rows, err := i.all(ctx, pr)
	if err != nil {
		return rows, i.explain(ctx, err)
	}
	return rows, conn.Send(exchange.KindBye, exchange.Bye{})
}

type initiator struct {
	st    *Station
	conn  *exchange.Conn
	plan  *plan
	clock clock
	stop  func() bool
}

func (i *initiator) all(ctx context.Context, pr Progress) ([]Result, error) {
	var rows []Result
	n, total := 0, len(i.plan.cases)*len(i.plan.Phases)
	for _, c := range i.plan.cases {
		row := Result{Case: c}
		for _, phase := range i.plan.Phases {
			n++
			if pr.Begin != nil {
				pr.Begin(n, total, c, phase)
			}
			if err := i.measure(ctx, phase, &row); err != nil {
				if row.Latency != nil || row.Rate != nil {
					rows = append(rows, row)
				}
				return rows, fmt.Errorf("%s of %s: %w", phase, c, err)
			}
		}
		rows = append(rows, row)
		if pr.Done != nil {
			pr.Done(row)
		}
	}
	return rows, nil
}

// explain finds the cause of an error and tells the other side.
func (i *initiator) explain(ctx context.Context, err error) error {
	return reportFailure(ctx, i.conn, cause(ctx, i.st, i.conn, err))
}

const (
	pingDepth  = 64 // send queue of a ping-pong and of credits
	pongDepth  = 16 // receive queue of a ping-pong
	spareDepth = 4  // credits that may be under way beyond those of a full window
)

// depths of both sides' queues for a measurement.
func (i *initiator) depths(op Op, phase Phase) (own sideConfig, setup exchange.Setup) {
	q := limitsOf(i.st, i.conn.Peer).queue
	own = sideConfig{sendDepth: min(pingDepth, q), recvDepth: 1}
	setup = exchange.Setup{SendDepth: min(pingDepth, q), RecvDepth: 1, CreditEvery: 1}
	if phase == Rate {
		own.sendDepth = i.plan.Depth
	}
	switch {
	case !op.twoSided():
	case phase == Latency:
		own.recvDepth, setup.RecvDepth = min(pongDepth, q), min(pongDepth, q)
	default:
		setup.RecvDepth, setup.CreditEvery = i.plan.recvDepth, i.plan.creditEvery()
		own.recvDepth = min(setup.RecvDepth/setup.CreditEvery+spareDepth, q)
	}
	return own, setup
}

// measure is one measurement, into row.
func (i *initiator) measure(ctx context.Context, phase Phase, row *Result) error {
	cfg, setup := i.depths(row.Case.Op, phase)
	cfg.Case, cfg.inline = row.Case, i.plan.Inline
	s, err := newSide(i.st, cfg)
	if err != nil {
		return err
	}
	row.Inline = s.inline() > 0
	err = i.measureSide(ctx, s, phase, &setup, row)
	return errors.Join(err, s.close())
}

func (i *initiator) measureSide(ctx context.Context, s *side, phase Phase,
	setup *exchange.Setup, row *Result) error {
	if s.cfg.Op != Read && !s.cfg.Op.atomic() {
		fill(s.source(), initiatorSalt)
	}
	m, err := i.newMeasurement(s, phase)
	if err != nil {
		return err
	}
	if err := i.setUp(ctx, s, phase, setup); err != nil {
		return err
	}
	var rate *RateResult
	var latency *LatencyResult
	if phase == Rate {
		rate, err = m.rate(i.plan)
	} else {
		latency, err = m.latency()
	}
	if err != nil {
		return err
	}
	var stopped exchange.Stopped
	err = i.conn.Send(exchange.KindStop, exchange.Stop{})
	if err == nil {
		err = i.conn.Expect(ctx, exchange.KindStopped, &stopped, exchange.AnswerTimeout)
	}
	if err == nil {
		err = m.verify(&stopped)
	}
	if err != nil {
		return err
	}
	if rate != nil {
		rate.finish(m, &stopped)
		row.Rate = rate
	} else {
		row.Latency = latency
	}
	return nil
}

func (i *initiator) newMeasurement(s *side, phase Phase) (*measurement, error) {
	w := &waiter{clock: i.clock, limit: stallLimit, stop: i.stop}
	if s.cfg.Op == Datagram {
		w.limit = lossLimit
	}
	m := &measurement{s: s, w: w, send: newSender(s, w), clock: i.clock, stop: i.stop,
		budget: budget{iters: i.plan.Iters, duration: i.plan.Duration}}
	if s.cfg.Op.twoSided() {
		var err error
		if m.recv, err = newReceiver(s, w); err != nil {
			return nil, err
		}
	}
	if phase == Latency && s.cfg.latencyKind() == HalfPingPong {
		w.look = m.send.look
		if s.cfg.Op == Write {
			m.land = newLanding(s)
		}
	}
	return m, nil
}

// setUp sets up the other side and connects to it.
func (i *initiator) setUp(ctx context.Context, s *side, phase Phase, setup *exchange.Setup) error {
	e, err := s.endpoint()
	if err != nil {
		return err
	}
	setup.Op, setup.Phase, setup.Size = s.cfg.Op.String(), phase.String(), s.cfg.Size
	setup.Inline, setup.Endpoint, setup.Memory = i.plan.Inline, e, s.memory()
	if err := i.conn.Send(exchange.KindSetup, setup); err != nil {
		return err
	}
	var ready exchange.Ready
	err = i.conn.Expect(ctx, exchange.KindReady, &ready, exchange.AnswerTimeout)
	if err != nil {
		return err
	}
	peer, err := ready.Peer()
	if err != nil {
		return err
	}
	return s.connect(peer, ready.Memory)
}

// verify checks that what was moved is right, by what the responder has seen.
func (m *measurement) verify(st *exchange.Stopped) error {
	op := m.s.cfg.Op
	switch {
	case op.atomic():
		if st.Word != m.issued {
			return wrongf("%d times %s left the word at %d", m.issued, op, st.Word)
		}
		return nil
	case op == Send && st.Received != m.issued:
		return wrongf("%d of %d messages were received", st.Received, m.issued)
	case m.issued == 0 || op == Datagram && st.Received == 0:
		return nil
	}
	if own := checksum(m.s.source()); own != st.Checksum {
		return wrongf("after %d times %s the data differs (CRC-32C %#x here, %#x there)", m.issued,
			op, own, st.Checksum)
	}
	return nil
}

// finish works out the rates.
func (r *RateResult) finish(m *measurement, st *exchange.Stopped) {
	if m.s.cfg.Op == Datagram {
		r.Messages = min(st.Received, m.issued)
		r.Lost = m.issued - r.Messages
	}
	if r.ElapsedNs > 0 {
		r.PerSecond = float64(r.Messages) * float64(time.Second) / float64(r.ElapsedNs)
	}
	r.BytesPerSecond = r.PerSecond * float64(m.s.cfg.Size)
}
