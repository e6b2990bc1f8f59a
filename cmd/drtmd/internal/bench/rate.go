package bench

import (
	"errors"

	"drtmd/verbs"
)

// timeEvery is the number of rounds of the rate loop between two looks at the clock.
const timeEvery = 16

// rateLoop keeps requests outstanding.
type rateLoop struct {
	*measurement
	plan        *plan
	wrs         []verbs.WR
	wcs         [pollSize]verbs.WC
	outstanding int  // requests whose completion is not polled
	bodyOver    bool // no more batches; for two-sided operations the last message follows
	over        bool // everything is posted

	// Two-sided: the window. A credit carries the number of messages received so far.
	credited   uint64
	writtenOff uint64 // messages taken for lost, so that the window opens again
	creditAtNs int64  // when the last credit came
}

// rate measures how many operations per second complete with the plan's depth outstanding.
func (m *measurement) rate(p *plan) (*RateResult, error) {
	l := &rateLoop{measurement: m, plan: p, wrs: make([]verbs.WR, p.Batch)}
	for i := range l.wrs {
		l.wrs[i] = m.s.request()
	}
	start := m.clock.now()
	if err := l.run(start + int64(m.budget.duration)); err != nil {
		return nil, err
	}
	r := &RateResult{Messages: m.issued, ElapsedNs: m.clock.now() - start, Depth: p.Depth,
		Batch: p.Batch}
	if l.recv != nil && l.creditAtNs > start {
		r.ElapsedNs = l.creditAtNs - start
	}
	return r, nil
}

// run posts and polls until the budget is spent and everything posted is through.
func (l *rateLoop) run(endNs int64) error {
	for round := 0; ; round++ {
		if err := l.post(); err != nil {
			return err
		}
		found, err := l.poll()
		if err != nil {
			return err
		}
		if l.over && l.outstanding == 0 && (l.recv == nil || l.inFlight() == 0) {
			return nil
		}
		if found {
			l.w.progress()
		} else if err := l.idle(); err != nil {
			return err
		}
		if round%timeEvery == 0 {
			if l.stop() {
				return errStopped
			}
			if l.budget.duration > 0 && l.clock.now() >= endNs {
				l.bodyOver = true
			}
		}
	}
}

// idle waits; a stall of datagrams means that what is in flight was lost.
func (l *rateLoop) idle() error {
	err := l.w.idle()
	if err != nil && errors.Is(err, errStalled) && l.s.cfg.Op == Datagram && l.outstanding == 0 {
		l.writtenOff += l.inFlight()
		return nil
	}
	return err
}

// post posts batches while the queue and the window have room.
func (l *rateLoop) post() error {
	for !l.over {
		n, last := l.room()
		if n == 0 {
			return nil
		}
		if err := l.postBatch(n, last); err != nil {
			return err
		}
	}
	return nil
}

// room says how many requests to post now, and whether these are the last.
func (l *rateLoop) room() (n int, last bool) {
	n = min(len(l.wrs), l.plan.Depth-l.outstanding)
	if l.recv != nil {
		n = min(n, l.plan.recvDepth-int(l.inFlight()))
	}
	want := len(l.wrs)
	if l.budget.iters > 0 {
		left := l.budget.iters - int(l.issued)
		if l.recv != nil {
			left-- // the last message
		}
		want = min(want, left)
		l.bodyOver = l.bodyOver || left == 0
	}
	if !l.bodyOver {
		if n = min(n, want); n < want && l.outstanding > 0 {
			return 0, false // wait for a whole batch
		}
		return n, false
	}
	if l.recv == nil {
		l.over = true
		return 0, true
	}
	return min(n, 1), true
}

// postBatch posts n requests, of which the last one is signaled for all. The last message of a
// two-sided measurement asks for a credit at once, by its immediate data.
func (l *rateLoop) postBatch(n int, last bool) error {
	if l.s.cfg.Op == CAS {
		for i := range n {
			l.wrs[i].CompareAdd = l.issued + uint64(i)
			l.wrs[i].Swap = l.wrs[i].CompareAdd + 1
		}
	}
	w := &l.wrs[n-1]
	plain := *w
	w.Flags |= verbs.FlagSignaled
	w.ID = uint64(n)
	if last {
		w.Op = verbs.OpSendImm
	}
	_, err := l.s.qp.PostSend(l.wrs[:n])
	*w = plain
	l.issued += uint64(n)
	l.outstanding += n
	l.over = last
	return err
}

// poll takes completions and credits, and says whether there were any.
func (l *rateLoop) poll() (bool, error) {
	n, err := poll(l.s.scq, l.wcs[:])
	for i := range n {
		l.outstanding -= int(l.wcs[i].ID)
	}
	if err != nil || l.recv == nil {
		return n > 0, err
	}
	credits, err := l.recv.poll()
	for i := range credits {
		// 32 bits of the count travel; it is never further ahead than the window, and a
		// datagram that was overtaken is behind.
		if ahead := int32(credits[i].Imm - uint32(l.credited)); ahead > 0 {
			l.credited += uint64(ahead)
		}
	}
	if len(credits) > 0 {
		l.creditAtNs = l.clock.now()
		err = errors.Join(err, l.recv.repost(1))
	}
	return n > 0 || len(credits) > 0, err
}

// inFlight is how many messages may still need a receive buffer.
func (l *rateLoop) inFlight() uint64 {
	if done := l.credited + l.writtenOff; done < l.issued {
		return l.issued - done
	}
	return 0 // one that was taken for lost came late
}
