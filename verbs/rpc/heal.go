package rpc

import (
	"errors"

	"drtmd/verbs"
)

// lose takes note that the queue pair has failed. A network interface that is down fails what is sent
// on Soft-RoCE, with LOC_QP_OP_ERR, and with it the queue pair; that passes. The port then brings the
// queue pair back under its number, which is its address: sessions go on, and what was under way is
// sent again by their timeouts as any datagram that was lost. It tries for as long as the outage lasts,
// at most every Config.HealMost. Everything else, and a device that cannot do that, ends the port.
func (p *Port) lose(status verbs.WCStatus, cause error) {
	passes := status == verbs.WCLocQPOpErr || status == verbs.WCWRFlushErr
	if !passes || !p.w.PD().Context().Attr().Caps.ResetUD {
		p.fail(cause)
		return
	}
	if err := p.qp.ToError(); err != nil { // it usually is already
		p.fail(errors.Join(cause, err))
		return
	}
	p.down = cause
	p.Stats.Lost++
	p.healLater()
}

func (p *Port) healLater() {
	p.healAt = p.now() + min(p.cfg.HealFirst<<min(p.healBackoff, 16), p.cfg.HealMost)
	p.healBackoff++
	p.arm(p.healAt)
}

// heal tries to bring the queue pair back: when all that was posted has been flushed, from RESET on.
func (p *Port) heal() {
	err := p.qp.ToReset()
	if err == nil {
		err = p.qp.Connect(nil, verbs.ConnectAttr{})
	}
	switch {
	case err == nil:
	case errors.Is(err, verbs.ErrClosed):
		p.fail(errors.Join(p.down, err))
		return
	default: // not polled yet, or the device is gone
		_ = p.qp.ToError() // it may be half way
		p.mark()
		p.healLater()
		return
	}
	p.down, p.sendHead, p.unsignaled = nil, p.sendTail, 0
	if err := p.postReceives(); err != nil {
		p.fail(err)
		return
	}
	for _, s := range p.sessions {
		if s != nil {
			s.touch()
		}
	}
}

// mark posts a signaled datagram to the queue pair in error, which flushes it. Datagrams before it that
// were sent without a signal have no completion of their own: its completion says that they are done.
func (p *Port) mark() {
	if len(p.handles) == 0 {
		return // nothing was sent ever
	}
	_, _ = p.qp.PostSend([]verbs.WR{{ID: p.base | uint64(p.sendTail), Op: verbs.OpSend,
		Flags: verbs.FlagSignaled, RemoteQPN: p.qp.QPN(), RemoteQKey: p.cfg.QKey,
		AH: p.handles[0].ah.Handle()}}) // without room others are on their way, and tell the same
}
