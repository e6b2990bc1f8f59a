package occ

import (
	"fmt"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ring"
	"drtmd/verbs/rpc"
)

// OptRingBytes is the option of how large the rings of carrier Ring are.
const OptRingBytes = "ring-bytes"

const (
	minRingBytes = 2 << 10
	maxRingBytes = 16 << 20
)

func ringBytes() option.Option {
	return option.Size(OptRingBytes, 64<<10, minRingBytes, maxRingBytes,
		"`BYTES` of each ring by which a worker sends messages to one of another node")
}

// byRing is the messenger of carrier Ring.
type byRing struct{ port *ring.Port }

func (m byRing) start(t *tx, c *call) error {
	c.sent = len(c.req)
	return m.port.Link(int(c.node)).Start(t.F, &c.ring, c.typ, c.req, c.resp[:c.answer])
}

func (m byRing) await(t *tx, c *call) (n int, err error) {
	n, err = c.ring.Await(t.F, 0)
	c.came = n
	return n, err
}

func (m byRing) ended(c *call) bool { return c.ring.Ended() }

// end has nothing to do. A request that its host has not taken yet is taken before every later one of the
// link, or never: a link that is opened anew begins with empty rings.
func (byRing) end(*call, error) {}

func (m byRing) longest() int { return min(messageBytes, m.port.Longest()) }

func (m byRing) ask(f *fiber.Fiber, n proto.NodeID, typ rpc.Type, req, resp []byte) (int, error) {
	var c ring.Call
	if err := m.port.Link(int(n)).Start(f, &c, typ, req, resp); err != nil {
		return 0, err
	}
	return c.Await(f, 0)
}

// newRings makes the rings of a worker.
func newRings(env *protocol.Env, m ring.Mutation) (*ring.Port, error) {
	p, err := ring.NewPort(env.Worker, env.Port, ring.Config{Node: int(env.Node), Nodes: len(env.Peers),
		Bytes: int(env.Options.Size(OptRingBytes)), Mutation: m,
		Conn:    func(n int) *fiber.Conn { return env.Peers[n].Conn },
		Session: func(n int) *rpc.Session { return env.Peers[n].Session }})
	if err != nil {
		return nil, err
	}
	for _, s := range env.Specs {
		need := wordBytes + itemBytes + padded(s.ValueBytes) + headBytes + answerBytes
		if need > p.Longest() {
			return nil, fmt.Errorf("%w: rings of %v take messages of %d bytes, and one with a record of table %q has "+
				"%d: make option %s larger", errConfig, env.Options.Size(OptRingBytes), p.Longest(), s.Name, need,
				OptRingBytes)
		}
	}
	return p, nil
}
