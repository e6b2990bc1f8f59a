package fiber

import "time"

// stuckLook is the pause between two looks at whether the requests of conns make progress.
const stuckLook = 100 * time.Millisecond

// giveUpStuck moves a queue pair to the error state on which nothing has completed for longer than its
// retries take (RTSAttr.GivesUpIn) though requests are in flight: they are flushed then, and who waits
// for them goes on. Devices are to do that themselves. Soft-RoCE does not if a later request meets an
// interface that is down while an earlier one waits for its answer: its requester stops with the later
// one, its completer waits for the earlier one, for ever. Looks are counted, not time, so that a machine
// that stood still has lost no queue pair when it goes on.
func (w *Worker) giveUpStuck() {
	now := w.Now()
	if now < w.nextLook {
		return
	}
	w.nextLook = now + stuckLook
	for _, c := range w.conns {
		if c.n == 0 || c.completed != c.seen {
			c.seen, c.looks = c.completed, 0
			continue
		}
		if c.looks++; c.looks > c.patience {
			c.looks = 0
			w.Stats.Stuck++
			_ = c.qp.ToError() // the layer has it in ERR in any case; the next time is tried again
		}
	}
}

// patience is how many looks without a completion are more than retries take.
func patience(givesUpIn time.Duration) int { return int(givesUpIn/stuckLook) + 1 }

// inFlight reports whether a request of any conn is.
func (w *Worker) inFlight() bool {
	for _, c := range w.conns {
		if c.n > 0 {
			return true
		}
	}
	return false
}
