package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// measurement is the initiator's half of one phase of one case.
type measurement struct {
	s      *side
	w      *waiter
	send   *sender
	recv   *receiver // of answers and credits; nil for one-sided operations
	land   *landing  // of a WRITE's ping-pong
	clock  clock
	stop   func() bool
	budget budget

	issued uint64 // requests in all, warm-up included
	lost   int64  // datagrams
}

// budget says when a measurement has enough. At least one of both is positive; if both are, both
// bounds hold.
type budget struct {
	iters    int // 0: duration decides
	duration time.Duration
}

// warmUp is the part of a budget that is spent beforehand, at most a tenth; ok is false if that is
// nothing.
func (b budget) warmUp() (part budget, ok bool) {
	part.duration = b.duration / 10
	part.iters = warmUp
	if b.iters > 0 {
		part.iters = min(warmUp, b.iters/10)
	}
	return part, part.iters > 0 && (b.duration == 0 || part.duration > 0)
}

const (
	warmUp = 100 // operations that are not recorded, at most a tenth of the budget
	// maxLosses in a row mean that the other side does not hear us at all.
	maxLosses = 20
)

// latency measures one operation at a time.
func (m *measurement) latency() (*LatencyResult, error) {
	kind := m.s.cfg.latencyKind()
	op := m.oneSided
	switch {
	case kind == HalfPingPong && m.s.cfg.Op == Write:
		op = m.pingPongWrite
	case kind == HalfPingPong:
		op = m.pingPongSend
	}
	r := newRecorder(m.clock, kind)
	wr := []verbs.WR{m.s.request()}
	if warm, ok := m.budget.warmUp(); ok {
		if err := m.repeat(r, warm, wr, op); err != nil {
			return nil, err
		}
	}
	r.reset()
	m.lost = 0
	err := m.repeat(r, m.budget, wr, op)
	return r.result(kind, m.lost), err
}

// repeat runs op until the budget is spent.
func (m *measurement) repeat(r *recorder, b budget, wr []verbs.WR,
	op func([]verbs.WR) error) error {
	invariant.Assert(b.iters > 0 || b.duration > 0, "a measurement without an end")
	lossesInARow := 0
	r.start()
	end := r.last + int64(b.duration)
	for i := 0; (b.iters == 0 || i < b.iters) && (b.duration == 0 || r.last < end); i++ {
		if m.stop() {
			return errStopped
		}
		err := op(wr)
		if err == nil {
			lossesInARow = 0
			r.lap()
			continue
		}
		if m.s.cfg.Op != Datagram || !errors.Is(err, errStalled) {
			return err
		}
		m.lost++
		if lossesInARow++; lossesInARow == maxLosses {
			return fmt.Errorf("none of %d datagrams was answered: %w", maxLosses, err)
		}
		r.start()
	}
	return nil
}

// oneSided posts a request and waits for its completion.
func (m *measurement) oneSided(wr []verbs.WR) error {
	wr[0].Flags |= verbs.FlagSignaled
	if m.s.cfg.Op == CAS {
		wr[0].CompareAdd, wr[0].Swap = m.issued, m.issued+1
	}
	if _, err := m.s.qp.PostSend(wr); err != nil {
		return err
	}
	m.issued++
	for {
		n, err := poll(m.s.scq, m.send.wcs[:1])
		if err != nil {
			return err
		}
		if n > 0 {
			m.w.progress()
			break
		}
		if err := m.w.idle(); err != nil {
			return err
		}
	}
	if m.s.cfg.Op.atomic() {
		if old := binary.NativeEndian.Uint64(m.s.source()); old != m.issued-1 {
			return wrongf("%s number %d returned %d", m.s.cfg.Op, m.issued, old)
		}
	}
	return nil
}

// pingPongWrite writes, and waits for the other side's WRITE of the same number.
func (m *measurement) pingPongWrite(wr []verbs.WR) error {
	m.issued++
	number := byte(m.issued)
	m.s.source()[m.s.cfg.Size-1] = number
	if err := m.send.post(wr); err != nil {
		return err
	}
	for !m.land.soon(number) {
		if err := m.w.idle(); err != nil {
			return err
		}
	}
	m.w.progress()
	return nil
}

// pingPongSend sends, and waits for an answer.
func (m *measurement) pingPongSend(wr []verbs.WR) error {
	if m.lost > 0 { // an answer that was taken for lost may have come since
		if _, err := m.recv.poll(); err != nil {
			return err
		}
	}
	if err := m.send.post(wr); err != nil {
		return err
	}
	m.issued++
	if _, err := m.recv.wait(); err != nil {
		return err
	}
	return m.recv.repost(m.recv.lazily())
}

// ErrWrongResult: the operations succeeded and moved the wrong data.
var ErrWrongResult = errors.New("wrong result")

func wrongf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrWrongResult, fmt.Sprintf(format, args...))
}
