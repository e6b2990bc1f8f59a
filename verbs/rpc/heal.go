package rpc

import (
	"errors"
	"time"

	"drtmd/verbs"
)

// Times between two tries to bring a queue pair back, doubling from one to the other.
const (
	healFirst = time.Millisecond
	healMost  = 128 * time.Millisecond
)

// lose takes note that the queue pair has failed. A network interface that is down fails what is sent
// on Soft-RoCE, with LOC_QP_OP_ERR, and with it the queue pair; that passes. The port then brings the
// queue pair back under its number, which is its address: sessions go on, and what was under way is
// sent again by their timeouts as any datagram that was lost. Everything else, and a device that
// cannot do that, ends the port.
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
	p.healAt = p.now() + min(healFirst<<min(p.healBackoff, 16), healMost)
	p.healBackoff++
	p.arm(p.healAt)
}

// heal tries to bring the queue pair back: when all that was posted has been flushed, from RESET on.
func (p *Port) heal() {
	err := p.qp.ToReset()
	if err == nil {
		err = p.qp.Connect(nil, verbs.ConnectAttr{})
	}
	if err != nil {
		// Not polled yet, or the device is gone: then the calls' patience ends, and with it the sessions.
		_ = p.qp.ToError() // it may be half way
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
