package occ

import (
	"drtmd/proto"
	"drtmd/proto/recovery"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Flows of a session (Dandelion §5.1): at any time one datagram is open for each of them. A read that takes the place of a
// validation (askedAlone) travels with the commits, as that would: types of messages may be put into one flow.
const (
	flowExecution rpc.FlowID = iota + 1
	flowCommit
	flowRecovery
)

// byFlow is the messenger of carrier RPC of strategies with Flows: compact messages on the flow of their phase. What a
// datagram has no room for travels in segments, as that of other strategies.
type byFlow struct{ byRPC }

func (m byFlow) start(t *tx, c *call) error {
	if c.session = t.e.Env.Peers[c.node].Session; c.session == nil {
		return rpc.ErrClosed // it has not been met yet
	}
	typ := c.typ
	if c.packed {
		typ += compactType
	}
	c.sent = len(c.req)
	if fl := c.session.Flow(c.flow); max(len(c.req), c.answer) <= fl.Longest() {
		return fl.Start(t.F, &c.Call, typ, c.req, c.resp[:])
	}
	return c.session.Start(t.F, &c.Call, typ, c.req, c.resp[:])
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

// handlePacked registers the handler of requests of a type in compact form. It appends its answer to resp, which is empty.
func (e *Engine) handlePacked(typ rpc.Type, serve func(c *rpc.Caller, req, resp []byte) ([]byte, error)) {
	if !e.strategy.Flows {
		return
	}
	e.Env.Port.HandleFrom(typ+compactType, func(c *rpc.Caller, req, resp []byte) (int, error) {
		if int(c.Node) >= len(e.Env.Peers) || int(c.Worker) >= recovery.MaxWorkers {
			return 0, errRequest
		}
		answer, err := serve(c, req, resp[:0:len(resp)])
		if err == nil && len(answer) > len(resp) {
			err = errRequest
		}
		return len(answer), err
	})
}
