package verbs

import (
	"errors"
	"fmt"
	"syscall"
)

// PostSend posts a list of work requests, in order (ibv_post_send). It returns how many were
// posted; the first that was not is the reason of the error, as with bad_wr. The buffers of a
// posted request belong to the device until it has completed, inline payload excepted.
//
// Refused at post: wrong state; a full queue (ENOMEM); a datagram over the path MTU or inline
// payload over the QP's limit (EMSGSIZE); unaligned atomics, opcodes or SGE counts that the QP
// does not take (EINVAL). A post that could overrun the CQ breaks it (ErrCQOverrun). In the
// error state requests are taken and flushed.
func (qp *QP) PostSend(wrs []WR) (int, error) {
	cq := qp.sendCQ
	cq.lock()
	n, err := qp.postSend(wrs)
	cq.unlock()
	if err != nil && errors.Is(err, ErrCQOverrun) {
		cq.breakDown()
	}
	return n, err
}

func (qp *QP) postSend(wrs []WR) (int, error) {
	const op = "ibv_post_send"
	if s := qp.State(); s != StateRTS && s != StateErr {
		return 0, qp.wrongState(op, s, StateRTS)
	}
	free := qp.sq.free()
	ok := uint32(0)
	var refused error
	for i := range wrs {
		if ok == free {
			refused = qp.full(op, qp.sq.depth, "send", "poll a completion that was posted with "+
				"FlagSignaled: slots come back only then")
			break
		}
		wr := &wrs[i]
		if qp.cfg.SignalAll {
			wr.Flags |= FlagSignaled
		}
		if refused = qp.checkSend(wr); refused != nil {
			break
		}
		wr.Token = qp.sq.put(ok, wr.ID, wr.Op)
		ok++
	}
	if ok == 0 {
		return 0, refused
	}
	if cq := qp.sendCQ; cq.roomy(ok) {
		cq.due += ok
	} else if err := cq.reserve(op, ok); err != nil {
		return 0, err
	}
	n, err := qp.drv.PostSend(wrs[:ok])
	qp.sq.tail += uint32(n)
	if rest := ok - uint32(n); rest > 0 {
		qp.sendCQ.due -= rest
		return n, qp.postFailed(op, err, n)
	}
	return n, refused
}

// PostRecv posts receive buffers, in order (ibv_post_recv), from INIT on. A UD buffer begins
// with GRHBytes for the GRH. Refusals are those of PostSend.
func (qp *QP) PostRecv(wrs []RecvWR) (int, error) {
	cq := qp.recvCQ
	cq.lock()
	n, err := qp.postRecv(wrs)
	cq.unlock()
	if err != nil && errors.Is(err, ErrCQOverrun) {
		cq.breakDown()
	}
	return n, err
}

func (qp *QP) postRecv(wrs []RecvWR) (int, error) {
	const op = "ibv_post_recv"
	if s := qp.State(); s < StateInit || s > StateErr {
		return 0, qp.wrongState(op, s, StateInit)
	}
	free := qp.rq.free()
	ok := uint32(0)
	var refused error
	for i := range wrs {
		if ok == free {
			refused = qp.full(op, qp.rq.depth, "receive", "poll the receive CQ")
			break
		}
		wr := &wrs[i]
		if wr.NumSGE > uint32(qp.cfg.RecvSGE) {
			refused = qp.refuse(op, syscall.EINVAL, "raise QPConfig.RecvSGE",
				"%d SGEs, the QP takes %d", wr.NumSGE, qp.cfg.RecvSGE)
			break
		}
		wr.Token = qp.rq.put(ok, wr.ID, OpRecv)
		ok++
	}
	if ok == 0 {
		return 0, refused
	}
	if cq := qp.recvCQ; cq.roomy(ok) {
		cq.due += ok
	} else if err := cq.reserve(op, ok); err != nil {
		return 0, err
	}
	n, err := qp.drv.PostRecv(wrs[:ok])
	qp.rq.tail += uint32(n)
	if rest := ok - uint32(n); rest > 0 {
		qp.recvCQ.due -= rest
		return n, qp.postFailed(op, err, n)
	}
	return n, refused
}

// checkSend is the portable strict subset for one request.
func (qp *QP) checkSend(wr *WR) error {
	const op = "ibv_post_send"
	if wr.NumSGE == 1 && wr.Flags&FlagInline == 0 { // as it usually is: what follows would find nothing
		n := wr.SGE[0].Length
		switch wr.Op {
		case OpCAS, OpFAA:
			if n == 8 && wr.RemoteAddr%8 == 0 && qp.atomics {
				return nil
			}
		case OpRead, OpWrite:
			if qp.reads && n <= qp.ctx.attr.MaxMsgBytes {
				return nil
			}
		}
	}
	if int(wr.NumSGE) > qp.cfg.SendSGE {
		return qp.refuse(op, syscall.EINVAL, "raise QPConfig.SendSGE",
			"%d SGEs, the QP takes %d", wr.NumSGE, qp.cfg.SendSGE)
	}
	var length uint64
	for i := range wr.NumSGE {
		length += uint64(wr.SGE[i].Length)
	}
	if wr.Flags&FlagInline != 0 {
		if wr.Op != OpSend && wr.Op != OpSendImm && wr.Op != OpWrite && wr.Op != OpWriteImm {
			return qp.refuse(op, syscall.EINVAL, "", "%s cannot be inline", wr.Op)
		}
		if length > uint64(qp.cfg.MaxInline) {
			return qp.refuse(op, syscall.EMSGSIZE, "raise QPConfig.MaxInline, up to the device's",
				"%d bytes inline, the QP takes %d", length, qp.cfg.MaxInline)
		}
	}
	if qp.cfg.Type == UD {
		return qp.checkDatagram(wr, length)
	}
	if length > uint64(qp.ctx.attr.MaxMsgBytes) {
		return qp.refuse(op, syscall.EMSGSIZE, "", "%d bytes, a message has at most %d", length,
			qp.ctx.attr.MaxMsgBytes)
	}
	switch wr.Op {
	case OpSend, OpSendImm, OpWrite, OpWriteImm:
		return nil
	case OpRead:
		return qp.checkRdAtomic(op, wr)
	case OpCAS, OpFAA:
		if wr.NumSGE != 1 || wr.SGE[0].Length != 8 {
			return qp.refuse(op, syscall.EINVAL, "", "%s needs one SGE of 8 bytes", wr.Op)
		}
		if wr.RemoteAddr%8 != 0 {
			return qp.refuse(op, syscall.EINVAL, "atomics work on 8-byte aligned words",
				"%s at %#x", wr.Op, wr.RemoteAddr)
		}
		if qp.ctx.attr.Atomic <= AtomicNone {
			return qp.refuse(op, syscall.EOPNOTSUPP, "", "the device has no atomics")
		}
		return qp.checkRdAtomic(op, wr)
	}
	return qp.refuse(op, syscall.EINVAL, "", "%s cannot be posted", wr.Op)
}

func (qp *QP) checkRdAtomic(op string, wr *WR) error {
	if qp.maxRdAtomic > 0 {
		return nil
	}
	return qp.noRdAtomic(op, wr)
}

func (qp *QP) noRdAtomic(op string, wr *WR) error {
	return qp.refuse(op, syscall.EINVAL, "set MaxRdAtomic in RTSAttr and MaxDestRdAtomic at "+
		"the peer", "%s on a QP with max rd atomic 0", wr.Op)
}

func (qp *QP) checkDatagram(wr *WR, length uint64) error {
	const op = "ibv_post_send"
	switch {
	case wr.Op != OpSend && wr.Op != OpSendImm:
		return qp.refuse(op, syscall.EINVAL, "", "a UD QP takes SEND only, not %s", wr.Op)
	case length > uint64(qp.pathMTU):
		return qp.refuse(op, syscall.EMSGSIZE, "", "a datagram of %d bytes, the path MTU is %d",
			length, qp.pathMTU)
	case wr.RemoteQPN == 0 || wr.RemoteQPN >= 1<<24:
		return qp.refuse(op, syscall.EINVAL, "", "remote QPN %#x is not 24 bits", wr.RemoteQPN)
	}
	if ah := qp.ctx.ahs.Get(wr.AH); ah == nil || ah.pd != qp.pd {
		return qp.refuse(op, syscall.EINVAL, "", "address handle %d is not open in this PD", wr.AH)
	}
	return nil
}

func (qp *QP) refuse(op string, errno syscall.Errno, hint, format string, args ...any) error {
	return &Error{Op: op, Device: qp.ctx.attr.Name, QPN: qp.qpn, Errno: errno, Hint: hint,
		Detail: fmt.Sprintf(format, args...)}
}

func (qp *QP) full(op string, depth uint32, which, hint string) error {
	return qp.refuse(op, syscall.ENOMEM, hint, "the %s queue of %d requests is full", which, depth)
}

// postFailed is the error of a driver that took fewer requests than it was given.
func (qp *QP) postFailed(op string, err error, n int) error {
	if err == nil {
		err = fmt.Errorf("driver posted %d requests and gave no reason", n)
	}
	w := qp.ctx.wrap(op, err)
	var e *Error
	if asError(w, &e) && e.QPN == 0 {
		e.QPN = qp.qpn
	}
	return w
}
