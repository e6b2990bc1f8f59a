package bench

import (
	"errors"

	"drtmd/verbs"
)

// pollSize is the number of completions taken at once.
const pollSize = 16

// sender posts one request at a time and keeps account of the send queue: every half queue one
// request asks for a completion, which stands for all before it.
type sender struct {
	s           *side
	w           *waiter
	outstanding int
	unsignaled  int
	every       int
	wcs         [pollSize]verbs.WC
}

func newSender(s *side, w *waiter) *sender {
	return &sender{s: s, w: w, every: max(1, s.cfg.sendDepth/2)}
}

// post posts the only request of wr, waiting for a place in the queue if need be.
func (q *sender) post(wr []verbs.WR) error {
	for q.outstanding == q.s.cfg.sendDepth {
		n, err := q.reap()
		if err == nil && n == 0 {
			err = q.w.idle()
		}
		if err != nil {
			return err
		}
	}
	plain := wr[0].Flags
	if q.unsignaled++; q.unsignaled == q.every {
		wr[0].Flags |= verbs.FlagSignaled
		wr[0].ID = uint64(q.unsignaled)
		q.unsignaled = 0
	}
	_, err := q.s.qp.PostSend(wr)
	wr[0].Flags = plain
	q.outstanding++
	return err
}

// reap takes completions without waiting: an error of an earlier request shows here.
func (q *sender) reap() (int, error) {
	n, err := poll(q.s.scq, q.wcs[:])
	for i := range n {
		q.outstanding -= int(q.wcs[i].ID)
	}
	return n, err
}

// look is reap for a waiter.
func (q *sender) look() error {
	_, err := q.reap()
	return err
}

// poll takes completions; the first with an error is the error. A flushed one is a consequence:
// the first cause is looked for in the send queue.
func poll(cq *verbs.CQ, wcs []verbs.WC) (int, error) {
	n, err := cq.Poll(wcs)
	for i := range n {
		if wcs[i].Status != verbs.WCSuccess {
			return 0, wcs[i].Err()
		}
	}
	return n, err
}

// receiver keeps receive buffers posted. Receives complete in order, so the next one to post
// again is always the one that completed first.
type receiver struct {
	s     *side
	w     *waiter
	wrs   []verbs.RecvWR
	next  int // index of the first request to post again
	held  int // completed and not posted again
	count uint64
	wcs   [pollSize]verbs.WC
}

// newReceiver posts all buffers.
func newReceiver(s *side, w *waiter) (*receiver, error) {
	r := &receiver{s: s, w: w, wrs: make([]verbs.RecvWR, s.cfg.recvDepth)}
	length := s.cfg.Size
	if s.cfg.Op == Datagram {
		length += verbs.GRHBytes
	}
	for i := range r.wrs {
		at := 2*s.slot + i%s.buffers*s.buffer
		if length > 0 {
			r.wrs[i].NumSGE, r.wrs[i].SGE[0] = 1, s.mr.SGE(at, length)
		}
	}
	r.held = len(r.wrs)
	return r, r.repost(1)
}

// poll takes completed receives without waiting. They are valid until the next call.
func (r *receiver) poll() ([]verbs.WC, error) {
	n, err := poll(r.s.rcq, r.wcs[:])
	if errors.Is(err, verbs.WCWRFlushErr) {
		err = r.cause(err)
	}
	r.held += n
	r.count += uint64(n)
	return r.wcs[:n], err
}

// cause finds out why the receives were flushed.
func (r *receiver) cause(flushed error) error {
	if r.w.look != nil {
		if err := r.w.look(); err != nil && !errors.Is(err, verbs.WCWRFlushErr) {
			return err
		}
	}
	return flushed
}

// wait is poll that waits for at least one.
func (r *receiver) wait() ([]verbs.WC, error) {
	for {
		wcs, err := r.poll()
		if len(wcs) > 0 || err != nil {
			r.w.progress()
			return wcs, err
		}
		if err := r.w.idle(); err != nil {
			return nil, err
		}
	}
}

// repost posts what is held again if it is at least least.
func (r *receiver) repost(least int) error {
	for r.held >= least && r.held > 0 {
		n := min(r.held, len(r.wrs)-r.next)
		if _, err := r.s.qp.PostRecv(r.wrs[r.next : r.next+n]); err != nil {
			return err
		}
		r.held -= n
		r.next = (r.next + n) % len(r.wrs)
		least = min(least, r.held)
	}
	return nil
}

// lazily is how many receives a ping-pong holds back before it posts them again, in one go.
func (r *receiver) lazily() int { return max(1, len(r.wrs)/2) }
