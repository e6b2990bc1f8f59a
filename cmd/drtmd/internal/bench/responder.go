package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"drtmd/cmd/drtmd/internal/exchange"
)

// responder serves the measurements of one conversation.
type responder struct {
	st      *Station
	conn    *exchange.Conn
	stop    func() bool
	silence time.Duration // how long a measuring initiator may not be heard of
}

// Serve answers an initiator until it says goodbye. served, which may be nil, is told of each
// measurement. An initiator that is silent for exchange.AnswerTimeout, heartbeats included, is an
// error. The connection stays open.
func Serve(ctx context.Context, st *Station, conn *exchange.Conn, served func(string)) error {
	return serve(ctx, st, conn, served, exchange.AnswerTimeout)
}

func serve(ctx context.Context, st *Station, conn *exchange.Conn, served func(string),
	silence time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	done, release := flagOf(ctx)
	defer release()
	r := &responder{st: st, conn: conn, silence: silence,
		stop: func() bool { return done() || conn.Attention() }}
	for {
		// An initiator goes from one measurement to the next at once, or is in trouble.
		f, err := conn.Take(ctx, exchange.AnswerTimeout)
		if err != nil {
			return reportFailure(ctx, conn, err)
		}
		switch f.Kind {
		case exchange.KindBye:
			return nil
		case exchange.KindSetup:
			var s exchange.Setup
			if err = exchange.Decode(f, &s); err == nil {
				if served != nil {
					served(fmt.Sprintf("%s of %q, %d B", s.Phase, s.Op, s.Size))
				}
				err = r.measure(ctx, &s)
			}
		default:
			err = fmt.Errorf("%w: %s, not setup", exchange.ErrBadFrame, f.Kind)
		}
		if err != nil {
			return reportFailure(ctx, conn, cause(ctx, r.st, conn, err))
		}
	}
}

// measure serves one measurement, from setup to stopped.
func (r *responder) measure(ctx context.Context, s *exchange.Setup) error {
	cfg, phase, err := r.check(s)
	if err != nil {
		return err
	}
	side, err := newSide(r.st, cfg)
	if err != nil {
		return err
	}
	stopped, err := r.serveSide(ctx, side, phase, s)
	err = errors.Join(err, side.close())
	if err != nil {
		return err
	}
	return r.conn.Send(exchange.KindStopped, stopped)
}

// check refuses what a peer has no business to ask for.
func (r *responder) check(s *exchange.Setup) (sideConfig, Phase, error) {
	op, ok := ParseOp(s.Op)
	phase, ok2 := parsePhase(s.Phase)
	l := limitsOf(r.st, r.conn.Peer)
	bad := func(format string, args ...any) (sideConfig, Phase, error) {
		return sideConfig{}, 0, fmt.Errorf("%w: setup: %s", exchange.ErrBadFrame,
			fmt.Sprintf(format, args...))
	}
	switch {
	case !ok:
		return bad("operation %q", s.Op)
	case !ok2:
		return bad("phase %q", s.Phase)
	case s.SendDepth < 1 || s.SendDepth > l.queue:
		return bad("send depth %d is not in 1..%d", s.SendDepth, l.queue)
	case s.RecvDepth < 1 || s.RecvDepth > l.queue:
		return bad("receive depth %d is not in 1..%d", s.RecvDepth, l.queue)
	case s.CreditEvery < 1 || s.CreditEvery > s.RecvDepth:
		return bad("credit every %d is not in 1..%d", s.CreditEvery, s.RecvDepth)
	case s.Inline < 0:
		return bad("inline %d", s.Inline)
	}
	if err := checkSize(op, s.Size, l); err != nil {
		return bad("%s", err)
	}
	return sideConfig{Case: Case{Op: op, Size: s.Size}, sendDepth: s.SendDepth,
		recvDepth: s.RecvDepth, inline: min(s.Inline, l.inline)}, phase, nil
}

// service is the responder's part in one measurement.
type service struct {
	// serve answers until the initiator stops (errStopped). Nil: this side's CPU has nothing
	// to do.
	serve func() error
	// report says what arrived, once the initiator has stopped.
	report func() *exchange.Stopped
}

// serveSide connects and answers until the initiator stops.
func (r *responder) serveSide(ctx context.Context, s *side, phase Phase,
	setup *exchange.Setup) (*exchange.Stopped, error) {
	fill(s.source(), responderSalt)
	if s.cfg.Op == Read {
		fill(s.target(), responderSalt)
	}
	sv, err := r.service(s, phase, setup)
	if err != nil {
		return nil, err
	}
	peer, err := setup.Peer()
	if err != nil {
		return nil, err
	}
	if err := s.connect(peer, setup.Memory); err != nil {
		return nil, err
	}
	e, err := s.endpoint()
	if err == nil {
		err = r.conn.Send(exchange.KindReady, exchange.Ready{Endpoint: e, Memory: s.memory()})
	}
	if err != nil {
		return nil, err
	}
	if sv.serve != nil {
		if err := sv.serve(); !errors.Is(err, errStopped) {
			return nil, err
		}
	}
	// The next frame is stop, unless the initiator failed or left. Of a one-sided measurement this
	// side sees nothing but the initiator's heartbeats.
	err = r.conn.ExpectAlive(ctx, exchange.KindStop, &exchange.Stop{}, r.silence)
	if err != nil {
		return nil, err
	}
	return sv.report(), nil
}

const (
	initiatorSalt = 0x5a
	responderSalt = 0xc3
)

// service is ready for messages when it returns.
func (r *responder) service(s *side, phase Phase, setup *exchange.Setup) (*service, error) {
	w := &waiter{clock: newClock(), limit: stallLimit, stop: r.stop}
	send := newSender(s, w)
	w.look = send.look
	if s.cfg.Op.twoSided() {
		recv, err := newReceiver(s, w)
		e := &echo{stop: r.stop, s: s, send: send, recv: recv, every: uint64(setup.CreditEvery)}
		if phase == Latency {
			return &service{serve: e.answer, report: e.report}, err
		}
		return &service{serve: e.credit, report: e.report}, err
	}
	sv := &service{report: func() *exchange.Stopped {
		if s.cfg.Op.atomic() {
			return &exchange.Stopped{Word: binary.NativeEndian.Uint64(s.target())}
		}
		return &exchange.Stopped{Checksum: checksum(s.target())}
	}}
	if phase == Latency && s.cfg.latencyKind() == HalfPingPong {
		land := newLanding(s)
		sv.serve = func() error { return answerWrites(s, w, send, land) }
	}
	return sv, nil
}
