package verbs

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// QP is a queue pair (ibv_qp).
type QP struct {
	ctx            *Context
	pd             *PD
	drv            DriverQP
	cfg            QPConfig
	qpn            uint32
	psn            uint32
	index          uint32
	port           PortAttr
	gid            GIDEntry
	sendCQ, recvCQ *CQ
	once           closeOnce

	state atomic.Uint32 // QPState

	// alive keeps ToError, which may come from any goroutine and under the lock of a CQ, off a
	// driver's QP that is being destroyed. It is the last lock but Context.mu.
	alive sync.Mutex

	control     sync.Mutex // serializes transitions; guards peer
	peer        *Endpoint
	pathMTU     int  // bytes, since RTR
	maxRdAtomic int  // READs and atomics in flight, since RTS
	reads       bool // it takes READ, since RTS
	atomics     bool // it takes CAS and FAA, since RTS

	sq queue // guarded by the lock of sendCQ
	rq queue // guarded by the lock of recvCQ
}

// CreateQP makes a queue pair in RESET (ibv_create_qp). The queues hold exactly what is asked
// for, whatever the device rounds it up to.
func (pd *PD) CreateQP(cfg QPConfig) (*QP, error) {
	const op = "ibv_create_qp"
	c := pd.ctx
	if cfg.Port == 0 {
		cfg.Port = 1
	}
	cfg.SendSGE, cfg.RecvSGE = max(cfg.SendSGE, 1), max(cfg.RecvSGE, 1)
	if err := pd.checkQP(op, &cfg); err != nil {
		return nil, err
	}
	if err := pd.enter(op); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	if cfg.SendCQ.closed.Load() || cfg.RecvCQ.closed.Load() {
		return nil, c.fail(op, ErrClosed)
	}
	port, err := c.queryPort(cfg.Port)
	if err != nil {
		return nil, err
	}
	if cfg.GIDIndex, err = c.resolveGID(op, port, cfg.GIDIndex); err != nil {
		return nil, err
	}
	qp := &QP{ctx: c, pd: pd, cfg: cfg, port: port, sendCQ: cfg.SendCQ, recvCQ: cfg.RecvCQ,
		psn: c.psn() & (1<<24 - 1)}
	for _, e := range port.GIDs {
		if GIDAt(e.Index) == cfg.GIDIndex {
			qp.gid = e
		}
	}
	base, err := c.assignIndex(qp)
	if err != nil {
		return nil, err
	}
	qp.sq, qp.rq = newQueue(cfg.SendDepth, base), newQueue(cfg.RecvDepth, base|tokenRecv)
	qp.drv, err = pd.drv.CreateQP(DriverQPConfig{QPConfig: cfg, DriverSendCQ: cfg.SendCQ.drv,
		DriverRecvCQ: cfg.RecvCQ.drv})
	if err != nil {
		c.withdraw(qp)
		return nil, hintQP(c.wrap(op, err), &cfg)
	}
	qp.qpn = qp.drv.QPN()
	qp.state.Store(uint32(StateReset))
	c.publish(qp)
	if err := c.adopt(op, qp); err != nil {
		c.withdraw(qp)
		return nil, closeAfter(err, qp.drv)
	}
	return qp, nil
}

func (pd *PD) checkQP(op string, cfg *QPConfig) error {
	c, a := pd.ctx, &pd.ctx.attr
	limit := func(what string, v, low, high int) error {
		if v < low || v > high {
			return c.invalid(op, "", "%s %d is not in %d..%d", what, v, low, high)
		}
		return nil
	}
	if cfg.Type != RC && cfg.Type != UD {
		return c.invalid(op, "", "%s", cfg.Type)
	}
	if cfg.SendCQ == nil || cfg.RecvCQ == nil || cfg.SendCQ.ctx != c || cfg.RecvCQ.ctx != c {
		return c.invalid(op, "", "it needs a send CQ and a receive CQ of the same context")
	}
	maxWR := min(a.MaxQPWR, 1<<tokenSlotBits)
	for _, err := range []error{
		limit("send depth", cfg.SendDepth, 1, maxWR),
		limit("receive depth", cfg.RecvDepth, 1, maxWR),
		limit("send SGEs", cfg.SendSGE, 1, min(a.MaxSGE, MaxSGE)),
		limit("receive SGEs", cfg.RecvSGE, 1, min(a.MaxSGE, MaxSGE)),
		limit("max inline", cfg.MaxInline, 0, a.MaxInline),
		limit("port", cfg.Port, 1, a.Ports),
	} {
		if err != nil {
			return err
		}
	}
	if cfg.Access&^AccessAll != 0 {
		return c.invalid(op, "", "access %s", cfg.Access)
	}
	return nil
}

func hintQP(err error, cfg *QPConfig) error {
	var e *Error
	if asError(err, &e) && e.Errno == syscall.ENOMEM && e.Hint == "" {
		e.Hint = fmt.Sprintf("%d send and %d receive work requests may be more than the device "+
			"takes, or the memlock limit (`ulimit -l`) too low", cfg.SendDepth, cfg.RecvDepth)
	}
	return err
}

// PreferGID has queue pairs and address handles of c take an entry of the GID table that is not
// ChooseGID's, where they say nothing themselves. It is called before any is made.
func (c *Context) PreferGID(g GIDChoice) { c.gid = g }

// resolveGID turns no choice into the entry that ChooseGID takes, and refuses an index that the port
// does not have, with the table. InfiniBand without GRH needs none.
func (c *Context) resolveGID(op string, port PortAttr, choice GIDChoice) (GIDChoice, error) {
	if _, given := choice.Index(); !given {
		choice = c.gid
	}
	index, given := choice.Index()
	if !given {
		if e, ok := ChooseGID(port.GIDs); ok {
			return GIDAt(e.Index), nil
		}
		if port.Link == LinkInfiniBand && !port.GRH {
			return GIDAt(0), nil
		}
		return choice, &Error{Op: op, Device: c.attr.Name, Err: ErrNoGID,
			Detail: fmt.Sprintf("port %d: %d entries in the GID table", port.Port,
				len(port.GIDs)),
			Hint: "give the network interface behind it an IPv4 address"}
	}
	for _, e := range port.GIDs {
		if e.Index == index && !e.GID.IsZero() {
			return choice, nil
		}
	}
	return choice, &Error{Op: op, Device: c.attr.Name, Err: ErrNoGID,
		Detail: fmt.Sprintf("port %d has no GID at index %d", port.Port, index),
		Hint:   "its table is:\n" + GIDTable(port.GIDs)}
}

// QPN is the queue pair's number.
func (qp *QP) QPN() uint32 { return qp.qpn }

// Type is RC or UD.
func (qp *QP) Type() QPType { return qp.cfg.Type }

// State is the state as the layer knows it: a failure shows once it was polled or announced.
func (qp *QP) State() QPState { return QPState(qp.state.Load()) }

// PathMTU is the payload of a packet in bytes: for UD the longest datagram. Valid from RTR on.
func (qp *QP) PathMTU() int { return qp.pathMTU }

// SendCQ and RecvCQ are the queues that the QP reports to.
func (qp *QP) SendCQ() *CQ { return qp.sendCQ }

// RecvCQ is where receives complete.
func (qp *QP) RecvCQ() *CQ { return qp.recvCQ }

// MaxRdAtomic is the number of READs and atomics that may be in flight. Valid from RTS on.
func (qp *QP) MaxRdAtomic() int { return qp.maxRdAtomic }

// Endpoint is the description for the peer.
func (qp *QP) Endpoint() Endpoint {
	return Endpoint{Provider: qp.ctx.attr.Provider, Type: qp.cfg.Type, Link: qp.port.Link,
		ActiveMTU: qp.port.ActiveMTU, LID: qp.port.LID, GID: qp.gid.GID, QPN: qp.qpn, PSN: qp.psn,
		QKey: qp.cfg.QKey, MaxRdAtomic: min(qp.ctx.attr.MaxRdAtomic, 255)}
}

// move makes a transition under the control lock.
func (qp *QP) move(op string, from, to QPState, f func() error) error {
	qp.control.Lock()
	defer qp.control.Unlock()
	if s := qp.State(); s != from {
		return qp.wrongState(op, s, from)
	}
	if err := f(); err != nil {
		var e *Error
		if w := qp.ctx.wrap(op, err); asError(w, &e) {
			e.QPN = qp.qpn
			return w
		}
		return err
	}
	// A failure may have come in between; it stays.
	qp.state.CompareAndSwap(uint32(from), uint32(to))
	return nil
}

func (qp *QP) wrongState(op string, is, want QPState) error {
	if is == StateClosed {
		return &Error{Op: op, Device: qp.ctx.attr.Name, QPN: qp.qpn, Err: ErrClosed}
	}
	e := &Error{Op: op, Device: qp.ctx.attr.Name, QPN: qp.qpn, Errno: syscall.EINVAL,
		Detail: fmt.Sprintf("QP is in %s, not %s", is, want)}
	if is == StateErr {
		e.Hint = "a QP in error is closed and made anew"
	}
	return e
}

// ToInit moves RESET to INIT (ibv_modify_qp); from then on receives may be posted.
func (qp *QP) ToInit() error {
	return qp.move("ibv_modify_qp to INIT", StateReset, StateInit, qp.drv.ToInit)
}

// ToRTR moves INIT to RTR: the QP can receive from peer, which is nil for UD. The path MTU is
// the smaller of both ports' active MTUs.
func (qp *QP) ToRTR(peer *Endpoint, a RTRAttr) error {
	const op = "ibv_modify_qp to RTR"
	return qp.move(op, StateInit, StateRTR, func() error {
		if qp.cfg.Type == UD {
			peer = nil
		}
		mtu := qp.port.ActiveMTU
		if qp.cfg.Type == RC {
			if err := qp.checkPeer(op, peer); err != nil {
				return err
			}
			mtu = min(mtu, peer.ActiveMTU)
		}
		if a.PathMTU > mtu || a.PathMTU != 0 && !validMTU(a.PathMTU) {
			return qp.ctx.invalid(op, "leave PathMTU 0: operations over one packet would end "+
				"in IBV_WC_RETRY_EXC_ERR", "path MTU %d, the ports allow %d", a.PathMTU, mtu)
		}
		if a.PathMTU == 0 {
			a.PathMTU = mtu
		}
		if a.MinRNRTimer == 0 {
			a.MinRNRTimer = defaultRNRTimer
		}
		if a.MinRNRTimer < 0 || a.MinRNRTimer > 31 {
			return qp.ctx.invalid(op, "", "min RNR timer %d is not 5 bits", a.MinRNRTimer)
		}
		if a.ServiceLevel > 15 {
			return qp.ctx.invalid(op, "", "service level %d is not 4 bits", a.ServiceLevel)
		}
		if a.HopLimit == 0 {
			a.HopLimit = defaultHopLimit
		}
		var err error
		a.MaxDestRdAtomic, err = qp.rdAtomic(op, a.MaxDestRdAtomic, qp.ctx.attr.MaxRdAtomic)
		if err != nil {
			return err
		}
		if err := qp.drv.ToRTR(peer, a); err != nil {
			return qp.ctx.Explain(hintRTR(qp.ctx.wrap(op, err)))
		}
		qp.pathMTU = a.PathMTU
		if peer != nil {
			p := *peer
			qp.peer = &p
		}
		return nil
	})
}

func (qp *QP) checkPeer(op string, peer *Endpoint) error {
	switch {
	case peer == nil:
		return qp.ctx.invalid(op, "exchange endpoints first", "an RC QP needs its peer")
	case peer.Provider != qp.ctx.attr.Provider:
		return qp.ctx.invalid(op, "use the same transport on both sides",
			"the peer is on %s, this side on %s", peer.Provider, qp.ctx.attr.Provider)
	case peer.Type != qp.cfg.Type:
		return qp.ctx.invalid(op, "", "the peer's QP is %s, this one %s", peer.Type, qp.cfg.Type)
	case peer.Link != qp.port.Link:
		return qp.ctx.invalid(op, "", "the peer's port is %s, this one %s", peer.Link,
			qp.port.Link)
	}
	return peer.check()
}

// rdAtomic fills in a depth of READs and atomics: 0 = up to 16, -1 = none.
func (qp *QP) rdAtomic(op string, v, limit int) (int, error) {
	switch {
	case v == -1:
		return 0, nil
	case v == 0:
		return min(limit, defaultRdAtomic), nil
	case v < 0 || v > limit || v > 255:
		return 0, qp.ctx.invalid(op, "", "max rd atomic %d is not in 1..%d", v, min(limit, 255))
	}
	return v, nil
}

const (
	defaultRdAtomic = 16
	defaultRNRTimer = 12 // 0.64 ms
	defaultTimeout  = 15 // 134 ms
	defaultRetry    = 6
	defaultRNRRetry = 6
)

func hintRTR(err error) error {
	var e *Error
	if asError(err, &e) && e.Hint == "" {
		switch e.Errno {
		case syscall.EINVAL:
			e.Hint = "wrong GID index, path MTU or service level for this port"
		case syscall.ETIMEDOUT, syscall.ENETUNREACH, syscall.EHOSTUNREACH:
			e.Hint = "the peer's address does not resolve: check its GID and the route to it"
		}
	}
	return err
}

// GivesUpIn bounds the time from the moment that a request is tried first until it fails with
// RETRY_EXC_ERR, if the peer's port answers nothing: (RetryCount + 1) times the timeout, of which the
// specification lets a device make up to four. With the defaults a device that takes the timeout
// exactly, as Soft-RoCE, shm and sim do, gives up after 0.94 s, and every device after 3.8 s. The
// time of requests that are queued before it on the same QP comes on top only while these make
// progress.
func (a RTSAttr) GivesUpIn() time.Duration {
	a = a.withDefaults()
	return maxTimeoutFactor * (4096 * time.Nanosecond << a.Timeout) * time.Duration(a.RetryCount+1)
}

// maxTimeoutFactor is by how much a device may exceed the timeout of a try (InfiniBand
// specification, volume 1, section 9.7.6.1.3).
const maxTimeoutFactor = 4

// withDefaults fills in what is left to the layer: 0 is a default, -1 none.
func (a RTSAttr) withDefaults() RTSAttr {
	fill := func(v *int, def int) {
		switch *v {
		case 0:
			*v = def
		case -1:
			*v = 0
		}
	}
	if a.Timeout == 0 {
		a.Timeout = defaultTimeout
	}
	fill(&a.RetryCount, defaultRetry)
	fill(&a.RNRRetry, defaultRNRRetry)
	return a
}

// checkRetries refuses codes that do not fit, and those that mean to try for ever.
func (qp *QP) checkRetries(op string, a RTSAttr) error {
	if a.RNRRetry == 7 {
		return qp.ctx.invalid(op, "use 6 and a longer MinRNRTimer",
			"RNR retry 7 means to retry for ever, which is not offered")
	}
	if a.RetryCount == 7 {
		return qp.ctx.invalid(op, "use 6 and a longer Timeout", "retry count 7 means to retry "+
			"for ever on some devices, Soft-RoCE among them, which is not offered")
	}
	for _, v := range []struct {
		name     string
		is, high int
	}{{"timeout", a.Timeout, 31}, {"retry count", a.RetryCount, 6}, {"RNR retry", a.RNRRetry, 6}} {
		if v.is < 0 || v.is > v.high {
			return qp.ctx.invalid(op, "", "%s %d is not in 1..%d", v.name, v.is, v.high)
		}
	}
	return nil
}

// ToRTS moves RTR to RTS: the QP can send. Retries are always bounded (RTSAttr.GivesUpIn).
func (qp *QP) ToRTS(a RTSAttr) error {
	const op = "ibv_modify_qp to RTS"
	return qp.move(op, StateRTR, StateRTS, func() error {
		a = a.withDefaults()
		if err := qp.checkRetries(op, a); err != nil {
			return err
		}
		limit := qp.ctx.attr.MaxInitDepth
		if qp.peer != nil {
			limit = min(limit, qp.peer.MaxRdAtomic)
		}
		var err error
		if a.MaxRdAtomic, err = qp.rdAtomic(op, a.MaxRdAtomic, limit); err != nil {
			return err
		}
		if err := qp.drv.ToRTS(qp.psn, a); err != nil {
			return err
		}
		qp.maxRdAtomic = a.MaxRdAtomic
		qp.reads = qp.cfg.Type == RC && a.MaxRdAtomic > 0
		qp.atomics = qp.reads && qp.ctx.attr.Atomic > AtomicNone
		return nil
	})
}

// ConnectAttr are the options of Connect.
type ConnectAttr struct {
	RTR RTRAttr
	RTS RTSAttr
}

// Connect takes a QP from RESET or INIT to RTS. peer is nil for UD.
func (qp *QP) Connect(peer *Endpoint, a ConnectAttr) error {
	if qp.State() == StateReset {
		if err := qp.ToInit(); err != nil {
			return err
		}
	}
	if err := qp.ToRTR(peer, a.RTR); err != nil {
		return err
	}
	return qp.ToRTS(a.RTS)
}

// ToError moves the QP to ERR from any state: everything posted is flushed. Safe from any
// goroutine at any time, twice as well.
func (qp *QP) ToError() error {
	qp.alive.Lock()
	defer qp.alive.Unlock()
	s := qp.toErr()
	if s == StateClosed {
		return qp.wrongState("ibv_modify_qp to ERR", s, StateErr)
	}
	if s == StateReset {
		// There is no way from RESET to ERR in ibv. A ToInit that runs at this moment makes
		// this one fail, or is made to fail by it; ERR follows in both cases.
		_ = qp.drv.ToInit()
	}
	err := qp.drv.ToError()
	var e *Error
	if w := qp.ctx.wrap("ibv_modify_qp to ERR", err); asError(w, &e) {
		e.QPN = qp.qpn
		return w
	}
	return nil
}

// ToReset moves a UD QP from ERR back to RESET (ibv_modify_qp), under the number that its peers know;
// Connect makes it work again. EBUSY while something that was posted to it has not been polled; sends
// without FlagSignaled that were done before it failed end with the next signaled one, which may be
// posted in ERR.
// ErrUnsupported without Caps.ResetUD, and for RC: packets of its life before could be taken for
// those of the new one, so a QP in error is closed and made anew there.
func (qp *QP) ToReset() error {
	const op = "ibv_modify_qp to RESET"
	r, ok := qp.drv.(DriverResetter)
	if !ok || !qp.ctx.attr.Caps.ResetUD || qp.cfg.Type != UD {
		return qp.ctx.fail(op, ErrUnsupported)
	}
	return qp.move(op, StateErr, StateReset, func() error {
		first, second := qp.sendCQ, qp.recvCQ
		if second.id < first.id {
			first, second = second, first
		}
		first.lock()
		defer first.unlock()
		if second != first {
			second.lock()
			defer second.unlock()
		}
		if n := qp.sq.outstanding() + qp.rq.outstanding(); n > 0 {
			return &Error{Op: op, Device: qp.ctx.attr.Name, QPN: qp.qpn, Errno: syscall.EBUSY,
				Detail: fmt.Sprintf("%d requests were not polled", n),
				Hint:   "poll until each has completed, with IBV_WC_WR_FLUSH_ERR if nothing else"}
		}
		qp.alive.Lock()
		defer qp.alive.Unlock()
		return r.ToReset()
	})
}

// fail is ToError for a QP that the provider reported broken.
func (qp *QP) fail() {
	if s := qp.State(); s != StateErr && s != StateClosed {
		_ = qp.ToError() // the device may be gone; the layer's state holds
	}
}

// toErr sets the layer's state and gives the one before.
func (qp *QP) toErr() QPState {
	for {
		s := qp.State()
		if s == StateErr || s == StateClosed {
			return s
		}
		if qp.state.CompareAndSwap(uint32(s), uint32(StateErr)) {
			return s
		}
	}
}

func (qp *QP) closeRank() int { return rankQP }

// Close destroys the QP (ibv_destroy_qp). Completions that were not polled are dropped. It may
// be called twice, and must not run beside posts or polls of a SingleThreaded CQ.
func (qp *QP) Close() error {
	return qp.once.do(func() error {
		qp.control.Lock()
		defer qp.control.Unlock()
		first, second := qp.sendCQ, qp.recvCQ
		if second.id < first.id {
			first, second = second, first
		}
		first.lock()
		defer first.unlock()
		if second != first {
			second.lock()
			defer second.unlock()
		}
		qp.alive.Lock()
		again := qp.State() == StateClosed // the driver was busy before
		qp.state.Store(uint32(StateClosed))
		err := qp.drv.Close()
		qp.alive.Unlock()
		if !again {
			qp.ctx.withdraw(qp)
			qp.ctx.disown(qp)
			qp.sendCQ.forget(qp.qpn)
			qp.recvCQ.forget(qp.qpn)
			qp.sendCQ.ghosts += qp.sq.outstanding()
			qp.recvCQ.ghosts += qp.rq.outstanding()
		}
		return qp.ctx.wrap("ibv_destroy_qp", err)
	})
}
