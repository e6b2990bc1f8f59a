package bench

import (
	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/verbs"
)

// answerWrites answers each WRITE by one of the same number.
func answerWrites(s *side, w *waiter, send *sender, land *landing) error {
	wr := []verbs.WR{s.request()}
	for number := byte(1); ; number++ {
		for !land.soon(number) {
			if err := w.idle(); err != nil {
				return err
			}
		}
		w.progress()
		s.source()[s.cfg.Size-1] = number
		if err := send.post(wr); err != nil {
			return err
		}
	}
}

// echo answers messages.
type echo struct {
	s     *side
	stop  func() bool
	send  *sender
	recv  *receiver
	every uint64 // messages per credit
}

// answer sends a message back for each.
func (e *echo) answer() error {
	wr := []verbs.WR{e.s.request()}
	for {
		wcs, err := e.recv.wait()
		if err != nil {
			return err
		}
		for range wcs {
			if err := e.send.post(wr); err != nil {
				return err
			}
		}
		if err := e.recv.repost(e.recv.lazily()); err != nil {
			return err
		}
	}
}

// credit posts the buffers again and tells the sender how many messages came, after every few
// and at once where immediate data asks for it.
func (e *echo) credit() error {
	wr := []verbs.WR{e.s.notice()}
	told := uint64(0)
	for {
		wcs, err := e.recv.wait()
		if err != nil {
			return err
		}
		asked := false
		for i := range wcs {
			asked = asked || wcs[i].Flags&verbs.WCWithImm != 0
		}
		n := e.recv.count
		if !asked && n-told < e.every {
			continue
		}
		// What was not told of counts as in flight at the sender, so its buffers may wait.
		if err := e.recv.repost(1); err != nil {
			return err
		}
		wr[0].Imm, told = uint32(n), n
		if err := e.send.post(wr); err != nil {
			return err
		}
	}
}

// report counts what came and looks at the last of it.
func (e *echo) report() *exchange.Stopped {
	n := e.recv.count
	if n == 0 {
		return &exchange.Stopped{}
	}
	return &exchange.Stopped{Received: n, Checksum: checksum(e.s.received(n - 1))}
}
