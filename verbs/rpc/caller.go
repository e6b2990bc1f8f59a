package rpc

import (
	"errors"
	"fmt"

	"drtmd/internal/mutation"
	"drtmd/verbs/fiber"
)

// Epoch numbers the configurations of a cluster; 0 is before the first.
type Epoch uint32

// Identity is who a port belongs to.
type Identity struct {
	Node   uint16
	Worker uint16 // of the node
	Life   uint32 // of the node: which of its restarts
}

// Caller is who sent a request.
type Caller struct {
	Identity
	Incarnation uint64   // of its port
	Epoch       Epoch    // of the request
	Session     *Session // the way back
}

// CallerHandler is a Handler that knows its caller, which is valid during the call only.
type CallerHandler func(c *Caller, req, resp []byte) (int, error)

// CallerFiberHandler is a FiberHandler that knows its caller. While it awaits, the port's epoch may be
// raised: then its answer is dropped, and it should change nothing any more.
type CallerFiberHandler func(f *fiber.Fiber, c *Caller, req, resp []byte) (int, error)

func (r *request) caller() Caller {
	s := r.Session
	return Caller{Identity: s.peerID, Incarnation: s.peer.Incarnation, Epoch: r.Epoch, Session: s}
}

// put writes the identity into the header fields of an opening that have no other use there.
func (i Identity) put(m *message) {
	m.seq = uint32(i.Node)<<16 | uint32(i.Worker)
	m.segment, m.typ, m.slot = uint16(i.Life), uint8(i.Life>>16), uint8(i.Life>>24)
}

// identityOf reads what put wrote.
func identityOf(m *message) Identity {
	return Identity{Node: uint16(m.seq >> 16), Worker: uint16(m.seq),
		Life: uint32(m.segment) | uint32(m.typ)<<16 | uint32(m.slot)<<24}
}

// Epoch is the port's.
func (p *Port) Epoch() Epoch { return p.epoch }

// SetEpoch raises the port's epoch; the package comment says what ends with the old one. It may be called
// from a fiber of the worker, not from a handler that runs at once.
func (p *Port) SetEpoch(e Epoch) error {
	switch {
	case e == p.epoch:
		return nil
	case e < p.epoch:
		return fmt.Errorf("epoch %d is refused: the port is at epoch %d, and an epoch can only rise", e, p.epoch)
	}
	p.epoch = e
	if p.cfg.Mutation == RetryAcrossEpochs {
		return nil
	}
	err := hint(ErrEpoch, fmt.Sprintf("epoch %d has begun: start it anew if it is still wanted", e))
	for _, s := range p.sessions {
		if s != nil {
			s.newEpoch(err)
		}
	}
	p.failAnswers(err)
	return nil
}

// newEpoch ends what belongs to an older epoch.
func (s *Session) newEpoch(err error) {
	for i := range s.calls {
		if s.calls[i].call != nil {
			s.endCall(i, 0, err)
		}
	}
	for i := range s.served {
		v := &s.served[i]
		if v.state == servedDone && v.epoch < s.port.epoch {
			v.out = outgoing{} // it is not answered again
		}
	}
	if s.flows != nil {
		s.newFlowEpoch(err)
	}
}

// behind is the error of a call whose peer has reached a higher epoch.
func (s *Session) behind() error {
	return hint(ErrEpoch, fmt.Sprintf("the peer is at epoch %d, this port at %d: read the newest view "+
		"and raise the port's epoch", s.peerEpoch, s.port.epoch))
}

// Mutation is a deliberate bug, for tests that show that checks find it.
type Mutation uint8

// The mutations.
const (
	OldEpochAccepted Mutation = iota + 1
	RetryAcrossEpochs
	OneWayTwice
	AnyResponse
	AnyTicket
)

var mutations = mutation.Table[Mutation]{
	{Name: "none", Doc: "correct calls"},
	OldEpochAccepted:  {Name: "old-epoch-accepted", Doc: "messages of an older epoch are accepted"},
	RetryAcrossEpochs: {Name: "retry-across-epochs", Doc: "a request of an older epoch is sent again under the new one"},
	OneWayTwice:       {Name: "one-way-executed-twice", Doc: "a one-way message that comes again is executed again"},
	AnyResponse:       {Name: "response-to-wrong-request", Doc: "a response is taken for the request that its slot has now"},
	AnyTicket:         {Name: "answer-to-wrong-ticket", Doc: "an answer is taken by whoever has its ticket's place now"},
}

func (m Mutation) String() string { return mutations.Name(m) }

var errMutation = errors.New("unknown mutation")
