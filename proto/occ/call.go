package occ

import (
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/verbs/rpc"
)

// record is a record of a transaction.
type record = onesided.Record

// call is a request to a node about some of its records.
type call struct {
	rpc.Call
	session *rpc.Session
	node    proto.NodeID
	typ     rpc.Type
	req     []byte
	resp    [messageBytes]byte
	answer  int   // bytes that the answer has at most
	records []int // indexes, in the order of the items
	head    head
	rest    []byte // of the answer, behind the head
	err     error
}

// open is the call to a record's node that takes an item with so many bytes, and so many in the answer.
func (t *tx) open(typ rpc.Type, node proto.NodeID, bytes, answer int) *call {
	for i := t.asked - 1; i >= 0; i-- {
		c := t.calls[i]
		if c.node == node && len(c.req)+bytes <= messageBytes && c.answer+answer <= messageBytes {
			c.answer += answer
			return c
		}
	}
	if t.asked == len(t.calls) {
		t.calls = append(t.calls, &call{req: make([]byte, 0, messageBytes)})
	}
	c := t.calls[t.asked]
	t.asked++
	c.node, c.typ, c.answer, c.records, c.err = node, typ, headBytes+answer, c.records[:0], nil
	c.req = binary.LittleEndian.AppendUint64(c.req[:0], uint64(t.word))
	return c
}

// add adds a record to the requests of a round.
func (t *tx) add(typ rpc.Type, i int, x *item) {
	size, answer := itemBytes, 0
	if x.flags&flagValue != 0 {
		size += padded(len(x.value))
	}
	if typ == TypeAcquire {
		answer = answerBytes
		if x.flags&flagRead != 0 {
			answer += padded(len(t.Records[i].Value))
		}
	}
	c := t.open(typ, t.Records[i].Node, size, answer)
	c.req = putItem(c.req, x)
	c.records = append(c.records, i)
	t.F.Charge(itemCostPs)
}

// send starts the calls of a round.
func (t *tx) send(p Phase) {
	if t.asked == 0 {
		return
	}
	t.e.traffic[p].Trips++
	for _, c := range t.calls[:t.asked] {
		t.e.traffic[p].Requests++
		t.e.traffic[p].Bytes += uint64(len(c.req))
		if c.session = t.e.Env.Peers[c.node].Session; c.session == nil {
			c.err = rpc.ErrClosed // it has not been met yet
			continue
		}
		c.err = c.session.Start(t.F, &c.Call, c.typ, c.req, c.resp[:c.answer])
	}
}

// await waits for the answers of a round. Each call has its own error. The fiber is shielded: what was
// asked for has to be known.
func (t *tx) await(p Phase) {
	for _, c := range t.calls[:t.asked] {
		if c.err != nil {
			continue
		}
		n, err := c.Await(t.F, 0)
		t.e.traffic[p].Bytes += uint64(n)
		if err == nil {
			var ok bool
			if c.head, c.rest, ok = takeHead(c.resp[:n], len(c.records)); !ok {
				err = errAnswer
			}
		}
		if err != nil && c.session.Err() == nil && !errors.As(err, new(*rpc.RemoteError)) {
			// The request may be under way: with the session its execution is over, too.
			c.session.Close()
		}
		c.err = err
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
