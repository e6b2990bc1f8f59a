package occ

import (
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ring"
	"drtmd/verbs/rpc"
)

var le = binary.LittleEndian

// record is a record of a transaction.
type record = onesided.Record

// call is a request to a node about some of its records.
type call struct {
	rpc.Call
	ring    ring.Call // in place of that, of a ring message
	session *rpc.Session
	by      messenger
	node    proto.NodeID
	typ     rpc.Type
	req     []byte
	resp    [messageBytes]byte
	answer  int   // bytes that the answer has at most
	records []int // indexes, in the order of the items
	head    head
	rest    []byte // of the answer, behind the head
	err     error
	packed  bool // request and answer are compact
	flow    rpc.FlowID
	// sent and came are the bytes of either on the wire.
	sent, came int
}

// messenger is a carrier of calls: it takes a call's request to its node, where serveItems answers it, and
// brings the answer back. A request is carried out once or not at all. The fiber is shielded.
type messenger interface {
	start(t *tx, c *call) error
	// await gives the length of the answer, in c.resp.
	await(t *tx, c *call) (n int, err error)
	// ended reports whether await would return at once.
	ended(c *call) bool
	// end sees to it that a call with this error, whose request may be under way, is not carried out later
	// than one that is sent from now on.
	end(c *call, err error)
	// longest is how long a request or answer may be.
	longest() int
	// ask sends a request outside of a transaction, and waits for the answer.
	ask(f *fiber.Fiber, n proto.NodeID, typ rpc.Type, req, resp []byte) (int, error)
}

// byRPC is the messenger of carrier RPC.
type byRPC struct{ e *Engine }

func (byRPC) start(t *tx, c *call) error {
	if c.session = t.e.Env.Peers[c.node].Session; c.session == nil {
		return rpc.ErrClosed // it has not been met yet
	}
	c.sent = len(c.req)
	return c.session.Start(t.F, &c.Call, c.typ, c.req, c.resp[:c.answer])
}

func (byRPC) await(t *tx, c *call) (n int, err error) {
	n, err = c.Await(t.F, 0)
	c.came = n
	return n, err
}

func (byRPC) ended(c *call) bool { return c.Ended() }

// end closes the session: with it all that is under way on it is over.
func (byRPC) end(c *call, err error) {
	if c.session.Err() == nil && !errors.As(err, new(*rpc.RemoteError)) {
		c.session.Close()
	}
}

func (byRPC) longest() int { return messageBytes }

func (m byRPC) ask(f *fiber.Fiber, n proto.NodeID, typ rpc.Type, req, resp []byte) (int, error) {
	s := m.e.Env.Peers[n].Session
	if s == nil {
		return 0, rpc.ErrClosed
	}
	return s.Call(f, typ, req, resp, 0)
}

// messengerOf is that of a carrier; nil: there is none.
func (e *Engine) messengerOf(c Carrier) messenger {
	switch {
	case c == RPC && e.strategy.Flows:
		return byFlow{byRPC{e}}
	case c == RPC:
		return byRPC{e}
	case c == Ring && e.rings != nil:
		return byRing{e.rings}
	}
	return nil
}

// open is the call to a record's node that takes an item with so many bytes, and so many in the answer.
func (t *tx) open(by messenger, typ rpc.Type, node proto.NodeID, bytes, answer int) *call {
	most := by.longest()
	for i := t.asked - 1; i >= 0 && !t.e.strategy.Single; i-- {
		c := t.calls[i]
		if c.by == by && c.node == node && len(c.req)+bytes <= most && c.answer+answer <= most {
			c.answer += answer
			return c
		}
	}
	c := t.newCall(by, typ, node)
	c.answer += answer
	if c.packed {
		c.req = le.AppendUint16(c.req, uint16(t.word.Tx()))
	} else {
		c.req = le.AppendUint64(c.req, uint64(t.word))
	}
	return c
}

// newCall is another call of the round, with an answer that is a head.
func (t *tx) newCall(by messenger, typ rpc.Type, node proto.NodeID) *call {
	if t.asked == len(t.calls) {
		t.calls = append(t.calls, &call{req: make([]byte, 0, messageBytes)})
	}
	c := t.calls[t.asked]
	t.asked++
	c.by, c.node, c.typ, c.answer, c.records, c.err = by, node, typ, headBytes, c.records[:0], nil
	c.sent, c.came = 0, 0
	c.req = c.req[:0]
	_, c.packed = by.(byFlow)
	c.flow = flowCommit
	return c
}

// add adds a record to the requests of a round.
func (t *tx) add(by Carrier, typ rpc.Type, i int, x *item) {
	size, answer := itemBytes, 0
	if x.flags&flagValue != 0 {
		size += padded(len(x.value))
	}
	if typ == TypeAcquire {
		n := 0
		if x.flags&flagRead != 0 {
			n = len(t.Records[i].Value)
		}
		answer = answerRoom(n, t.e.strategy.Flows)
	}
	c := t.open(t.e.messengers[by], typ, t.Records[i].Node, size, answer)
	if c.packed {
		c.req = packItem(c.req, x)
	} else {
		c.req = putItem(c.req, x)
	}
	if typ == TypeAcquire && x.flags&flagLock == 0 && !t.askedAlone() {
		c.flow = flowExecution
	}
	c.records = append(c.records, i)
	t.F.Charge(itemCostPs)
}

// send starts the calls of a round.
func (t *tx) send(p proto.Phase) {
	for _, c := range t.calls[:t.asked] {
		t.begin(p, c)
	}
}

// begin starts a call.
func (t *tx) begin(p proto.Phase, c *call) {
	c.err = c.by.start(t, c)
	t.count(p, c.node, 1, c.sent)
	t.countRecords(p, c)
}

// await waits for the answers of a round. Each call has its own error. The fiber is shielded: what was
// asked for has to be known.
func (t *tx) await(p proto.Phase) {
	if t.asked > 0 {
		t.trips = max(t.trips, 1)
	}
	for _, c := range t.calls[:t.asked] {
		if c.err == nil {
			t.answer(p, c)
		}
	}
}

// answer waits for the answer to a call.
func (t *tx) answer(p proto.Phase, c *call) {
	var n int
	n, c.err = c.by.await(t, c)
	t.count(p, c.node, 0, c.came)
	if c.err == nil {
		var ok bool
		if items := max(len(c.records), 1); c.packed {
			c.head, c.rest, ok = unpackHead(c.resp[:n], items)
		} else {
			c.head, c.rest, ok = takeHead(c.resp[:n], items)
		}
		if !ok {
			c.err = errAnswer
		}
	}
	if c.err != nil {
		c.by.end(c, c.err)
	}
}

// refused is the abort that a call's answer asks for; nil if the host has done everything.
func (t *tx) refused(c *call) error {
	if c.head.code == done {
		return nil
	}
	return t.refusal(&t.Records[c.records[c.head.index]], &c.head)
}

// refusal is the abort of a record that was refused.
func (t *tx) refusal(r *record, h *head) error {
	if h.code != locked {
		return h.code.err()
	}
	r.Own.Off = h.off
	onesided.SetVersion(r, h.version)
	return t.Met(r, uint64(h.state))
}

// item takes the first item of the rest of the answer, and gives what follows; its value is copied to dst.
func (c *call) item(rest, dst []byte) (v layout.Version, off uint64, behind []byte, ok bool) {
	if c.packed {
		s := scan{b: rest, ok: true}
		v, off = s.version(), s.offset()
		copy(dst, s.bytes(len(dst)))
		return v, off, s.b, s.ok
	}
	n := answerBytes + padded(len(dst))
	if len(rest) < n {
		return 0, 0, nil, false
	}
	copy(dst, rest[answerBytes:])
	return layout.Version(le.Uint64(rest)), le.Uint64(rest[8:]), rest[n:], true
}
