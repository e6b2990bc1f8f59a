package occ

import (
	"drtmd/proto"
	"drtmd/proto/recovery"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Flows of a session (Dandelion §5.1): at any time one datagram is open for each of them.
const (
	flowExecution rpc.FlowID = iota + 1
	flowCommit
	flowRecovery
)

// byFlow is the messenger of carrier RPC of strategies with Flows: compact messages on the flow of their phase. What
// has no compact form travels on the flow as it is, and what a datagram has no room for as that of other strategies.
type byFlow struct{ byRPC }

func (m byFlow) start(t *tx, c *call) error {
	if c.session = t.e.Env.Peers[c.node].Session; c.session == nil {
		return rpc.ErrClosed // it has not been met yet
	}
	c.packed = false
	fl := c.session.Flow(flowOf(c))
	if c.answer > fl.Longest() {
		return m.byRPC.start(t, c)
	}
	wire, ok := t.e.pack(c.wire[:0], c)
	c.wire = wire
	if !ok || len(wire) > fl.Longest() {
		if len(c.req) > fl.Longest() {
			return m.byRPC.start(t, c)
		}
		c.sent = len(c.req)
		return fl.Start(t.F, &c.Call, c.typ, c.req, c.resp[:c.answer])
	}
	c.packed, c.sent = true, len(wire)
	if n := c.answer + packedMore*(1+len(c.records)); cap(c.back) < n {
		c.back = make([]byte, n)
	}
	return fl.Start(t.F, &c.Call, c.typ+compactType, wire, c.back[:cap(c.back)])
}

// packedMore is how much longer than the answer, and than each of its items, the compact form may be.
const packedMore = 16

func (byFlow) await(t *tx, c *call) (int, error) {
	n, err := c.Await(t.F, 0)
	c.came = n
	if err != nil || !c.packed {
		return n, err
	}
	answer, ok := t.e.unpackAnswer(c.resp[:0], c.typ, c.req, c.back[:n])
	if !ok {
		return 0, errAnswer
	}
	return len(answer), nil
}

func (m byFlow) ask(f *fiber.Fiber, n proto.NodeID, typ rpc.Type, req, resp []byte) (int, error) {
	s := m.e.Env.Peers[n].Session
	if s == nil {
		return 0, rpc.ErrClosed
	}
	if fl := s.Flow(flowRecovery); max(len(req), len(resp)) <= fl.Longest() {
		return fl.Call(f, typ, req, resp, 0)
	}
	return s.Call(f, typ, req, resp, 0)
}

// flowOf is the flow of a call.
func flowOf(c *call) rpc.FlowID {
	if c.typ == TypeAcquire && flags(c.req[wordBytes+2])&flagLock == 0 {
		return flowExecution
	}
	return flowCommit
}

// handle registers a handler of requests that may come in compact form.
func (e *Engine) handle(typ rpc.Type, serve rpc.CallerHandler) {
	e.Env.Port.HandleFrom(typ, serve)
	if !e.strategy.Flows {
		return
	}
	e.Env.Port.HandleFrom(typ+compactType, func(c *rpc.Caller, req, resp []byte) (int, error) {
		if int(c.Node) >= len(e.Env.Peers) || int(c.Worker) >= recovery.MaxWorkers {
			return 0, errRequest
		}
		var err error
		if e.unpacked, err = e.unpack(e.unpacked[:0], c, typ, req); err != nil {
			return 0, err
		}
		n, err := serve(c, e.unpacked, e.answer[:])
		if err != nil {
			return 0, err
		}
		packed := e.packAnswer(resp[:0], typ, e.unpacked, e.answer[:n])
		if len(packed) > len(resp) {
			return 0, errRequest
		}
		return len(packed), nil
	})
}
