package rpc

import (
	"fmt"
	"math/bits"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
)

// FlowID numbers the flows of a session, from 1 to MaxFlow.
type FlowID uint8

// MaxFlow is the highest flow.
const MaxFlow FlowID = 7

// stagedDatagrams bounds the one-way messages of a flow that wait to be sent.
const stagedDatagrams = 4

// Flow is a group of messages of a session that travel together: see Flows in the package comment.
type Flow struct {
	s      *Session
	id     FlowID
	queue  slotQueue
	apart  slotQueue // what is answered, where Config.AnswersApart has it
	staged []byte    // one-way messages: type 1 | length 2 | bytes
	room   fiber.Cond
}

// flows are what a session has for compact messages; nil until it is used.
type flows struct {
	list   [MaxFlow + 1]*Flow
	calls  []flowCall // at id & mask; a power of two
	served []flowServed
	mask   uint32
	nextID uint32
	busy   int // calls in use
	free   fiber.Cond
	// waiting are answers to forwarded requests that found no call free, oldest first.
	waiting []*forward
	gaveUp  int // calls given up since the peer was heard last
	out, in uint32
	state   compactState // of the datagram that is being filled
	open    *Flow        // whose datagram that is; nil if it is none
	first   uint32       // ID in its header
	// The numbers of compact datagrams that came: bit i of seen is seenTop-i.
	seenTop uint32
	seen    uint64
}

// Flow gives flow id of the session, which must be open.
func (s *Session) Flow(id FlowID) *Flow {
	invariant.Assertf(id >= 1 && id <= MaxFlow, "flow %d is not in 1..%d", id, MaxFlow)
	x := s.useFlows()
	fl := x.list[id]
	if fl == nil {
		fl = &Flow{s: s, id: id, staged: make([]byte, 0, stagedDatagrams*s.datagram)}
		fl.queue.init(2 * len(x.calls))
		if s.port.cfg.AnswersApart {
			fl.apart.init(len(x.calls))
		}
		x.list[id] = fl
	}
	return fl
}

func (s *Session) useFlows() *flows {
	if s.flows == nil {
		n := 1 << (bits.Len(uint(max(len(s.calls), 1))) - 1)
		s.flows = &flows{calls: make([]flowCall, n), served: make([]flowServed, n),
			mask: uint32(n - 1), nextID: uint32(n),
			out: tagOf(s.port.cfg.Incarnation, s.peer.Incarnation, s.id, s.remoteID),
			in:  tagOf(s.peer.Incarnation, s.port.cfg.Incarnation, s.remoteID, s.id)}
	}
	return s.flows
}

// Longest is the number of bytes that a message of the flow may have: it travels in one datagram.
func (fl *Flow) Longest() int {
	return min(fl.s.longest, fl.s.datagram-compactHeaderBytes-compactMessageBytes-1-idBytes-targetBytes)
}

func (fl *Flow) check(n int) error {
	if n > fl.Longest() {
		return hint(ErrTooLong, fmt.Sprintf("a message of %d bytes on a flow, which takes %d: use "+
			"Session.Call, which sends it in segments", n, fl.Longest()))
	}
	return nil
}

// Call is Session.Call on the flow: one datagram each way takes the request and its response.
func (fl *Flow) Call(f *fiber.Fiber, t Type, req, resp []byte, deadline time.Duration) (int, error) {
	p := fl.s.port
	c := p.takeCall()
	err := fl.start(f, c, flowCall{kind: compactRequest, typ: t, req: req, resp: resp}, deadline)
	n := 0
	if err == nil {
		n, err = c.Await(f, deadline)
	}
	p.giveCall(c)
	return n, err
}

// Start is Session.Start on the flow.
func (fl *Flow) Start(f *fiber.Fiber, c *Call, t Type, req, resp []byte) error {
	return fl.start(f, c, flowCall{kind: compactRequest, typ: t, req: req, resp: resp}, 0)
}

// StartForward sends a request whose answer goes to a third node, which target names. The call ends
// without an error when the answer has been taken there, and gives no bytes; while it is under way the
// request is sent again as any other, and executed at most once. req belongs to the call until then.
func (fl *Flow) StartForward(f *fiber.Fiber, c *Call, t Type, req []byte, target Target) error {
	return fl.start(f, c, flowCall{kind: compactForward, typ: t, req: req, target: target}, 0)
}

// Send sends a one-way message: nothing tells what became of it. It is executed at most once; it is lost
// with its datagram. body may be used again at once. With more than stagedDatagrams datagrams waiting for
// the window, it waits until the deadline (0: none) for room.
func (fl *Flow) Send(f *fiber.Fiber, t Type, body []byte, deadline time.Duration) error {
	for {
		ok, err := fl.TrySend(t, body)
		if ok || err != nil {
			return err
		}
		if err := fl.room.Wait(f, deadline); err != nil {
			return err
		}
	}
}

// TrySend is Send for handlers that run at once: false if there is no room now.
func (fl *Flow) TrySend(t Type, body []byte) (bool, error) {
	s := fl.s
	if s.state != stateOpen {
		return false, s.err
	}
	if err := fl.check(len(body)); err != nil {
		return false, err
	}
	if len(fl.staged)+stagedBytes+len(body) > cap(fl.staged) {
		return false, nil
	}
	fl.staged = append(fl.staged, byte(t), byte(len(body)), byte(len(body)>>8))
	fl.staged = append(fl.staged, body...)
	s.port.Stats.OneWays++
	if !s.blocked {
		s.touch()
	}
	return true, nil
}

// stagedBytes is the header of a one-way message in Flow.staged.
const stagedBytes = 3

// Flush sends what the flow has gathered now, instead of at the end of the worker's pass.
func (fl *Flow) Flush() {
	s := fl.s
	p := s.port
	if s.state != stateOpen || p.closed || p.broken != nil {
		return
	}
	now := p.now()
	if !fl.pump(now) {
		s.touch()
	}
	s.stalled(now)
	p.ring()
}

// enqueue has a slot's messages sent at the end of the pass.
func (fl *Flow) enqueue(r slotRef, queued *bool) {
	if !*queued {
		*queued = true
		fl.queueOf(r).push(r)
	}
	if !fl.s.blocked {
		fl.s.touch()
	}
}

// pump fills datagrams with what the flow has to say, and completes them. It is false when the window or
// the send buffers stopped it.
func (fl *Flow) pump(now time.Duration) bool {
	if !fl.pumpApart(now) {
		return false
	}
	ok := fl.pumpQueue(&fl.queue, now)
	if ok && len(fl.staged) > 0 {
		ok = fl.sendStaged()
	}
	fl.s.seal(now)
	return ok
}

// pumpApart is pump of what is answered, where that travels apart. It goes first: behind requests that fill the window at
// both ends it would wait for a timeout.
func (fl *Flow) pumpApart(now time.Duration) bool {
	if !fl.s.port.cfg.AnswersApart {
		return true
	}
	ok := fl.pumpQueue(&fl.apart, now)
	fl.s.seal(now)
	return ok
}

func (fl *Flow) pumpQueue(q *slotQueue, now time.Duration) bool {
	ok := true
	for ok && !q.empty() {
		r := q.front()
		if r.served {
			ok = fl.sendServed(r.index)
		} else {
			ok = fl.sendCall(r.index, now)
		}
		if ok {
			q.pop()
		}
	}
	return ok
}

// queueOf is the queue of a slot.
func (fl *Flow) queueOf(r slotRef) *slotQueue {
	if r.served && fl.s.port.cfg.AnswersApart {
		return &fl.apart
	}
	return &fl.queue
}

func (fl *Flow) sendStaged() bool {
	b := fl.staged
	for len(b) > 0 {
		n := int(b[1]) | int(b[2])<<8
		m := compactMessage{kind: compactOneWay, typ: b[0], body: b[stagedBytes : stagedBytes+n]}
		if !fl.put(&m) {
			break
		}
		b = b[stagedBytes+n:]
	}
	if len(b) < len(fl.staged) {
		fl.staged = fl.staged[:copy(fl.staged, b)]
		fl.room.Broadcast()
	}
	return len(b) == 0
}

// put adds a message to the datagram that is open, or to a new one.
func (fl *Flow) put(m *compactMessage) bool {
	s, x := fl.s, fl.s.flows
	p := s.port
	if s.buf != nil && (x.open != fl || len(s.buf)+x.state.sizeOf(m) > cap(s.buf) ||
		s.count == maxMessages || p.cfg.NoBatch) {
		s.seal(p.now())
	}
	if s.buf == nil {
		if !s.begin(false) {
			return false
		}
		s.buf = s.buf[:compactHeaderBytes]
		x.open, x.first, x.state = fl, m.id, compactState{id: m.id}
	}
	if x.first == 0 && m.kind.hasID() { // the first with an ID: it goes into the header
		x.first, x.state.id = m.id, m.id
	}
	s.buf = x.state.put(s.buf, m)
	s.count++
	s.payloads++
	p.Stats.MessagesSent++
	p.w.RPCWork(1, 0)
	return true
}

// sealCompact writes the header of the datagram that is open.
func (s *Session) sealCompact() {
	x := s.flows
	h := compactHeader{flow: x.open.id, count: s.count, dst: s.remoteID, tag: x.out, epoch: s.port.epoch,
		number: s.sent, ack: uint16(s.got), id: x.first}
	h.put(s.buf)
	x.open = nil
}

// receiveCompact deals with a compact datagram.
func (p *Port) receiveCompact(b []byte, srcQPN uint32) {
	h := &p.compact
	if r := parseCompact(b, h, &p.compactMsgs); r != 0 {
		p.drop(r)
		return
	}
	s := p.sessions[h.dst&p.mask]
	if s == nil || s.id != h.dst || s.peer.QPN != srcQPN {
		p.drop(ReasonSession) // its calls ask, with hellos, whether the session is still there
		return
	}
	if s.state == stateOpening {
		return // its welcome got lost: the peer will send this again
	}
	if s.useFlows().in != h.tag {
		p.drop(ReasonSession)
		return
	}
	x := s.flows
	if !s.heardFrom(h.number, h.ack, h.epoch) {
		return
	}
	x.gaveUp = 0
	fresh := x.isFresh(h.number) || p.cfg.Mutation == OneWayTwice
	if h.epoch < p.epoch && p.cfg.Mutation != OldEpochAccepted {
		p.drop(ReasonEpoch)
		return
	}
	p.Stats.MessagesReceived += uint64(h.count)
	fl := s.Flow(h.flow)
	for i := range h.count {
		m := &p.compactMsgs[i]
		switch {
		case m.kind.isRequest():
			fl.gotRequest(h, m)
		case m.kind == compactResponse:
			fl.gotResponse(m)
		case m.kind == compactRunning:
			s.gotRunning(m)
		case fresh:
			p.batch = append(p.batch, request{Type: Type(m.typ), Session: s, Body: m.body,
				Epoch: h.epoch, flow: fl, oneWay: true})
		default:
			p.Stats.Duplicates++
		}
	}
	s.runBatch()
}

// isFresh reports whether a datagram comes for the first time, and notes it. One that is older than 64
// others is not: whether it came before is not known any more.
func (x *flows) isFresh(number uint32) bool {
	d := int32(number - x.seenTop)
	if d > 0 {
		x.seen, x.seenTop = x.seen<<min(d, 64)|1, number
		return true
	}
	if d <= -64 || x.seen>>uint(-d)&1 != 0 {
		return false
	}
	x.seen |= 1 << uint(-d)
	return true
}
