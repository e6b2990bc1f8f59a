package occ

import (
	"math/bits"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/recovery"
	"drtmd/store/log"
	"drtmd/verbs"
)

// The records that LOG sends: what they say, their places in the logs, and how they travel.

// body appends the body of the record for a node.
func (t *tx) body(b []byte, n proto.NodeID, decided uint64) []byte {
	writes := 0
	for i := range t.Records {
		if t.logsRecord(&t.Records[i]) {
			writes++
		}
	}
	b = recovery.BeginBody(le.AppendUint64(b, decided), uint64(t.word), writes)
	for i := range t.Records {
		r := &t.Records[i]
		if !t.logsRecord(r) {
			continue
		}
		w := t.writeAt(r, n)
		b = recovery.AppendWrite(b, &w)
	}
	return b
}

// bodyBytes is the length of that.
func (t *tx) bodyBytes(n proto.NodeID) int {
	bytes := decidedBytes + recovery.BodyBytes(0)
	for i := range t.Records {
		if r := &t.Records[i]; t.logsRecord(r) {
			w := t.writeAt(r, n)
			bytes += bodyRoom(&w)
		}
	}
	return bytes
}

// bodyRoom is what a write takes in a body.
func bodyRoom(w *recovery.Write) int {
	n := recovery.BodyBytes(1) - recovery.BodyBytes(0) + recovery.ValueRoom(len(w.Value))
	if w.Was != 0 {
		n += recovery.WasBytes
	}
	return n
}

// writeAt is a record of the transaction as the log of a node names it.
func (t *tx) writeAt(r *record, n proto.NodeID) recovery.Write {
	w := t.write(r)
	if t.e.locksInLog() {
		w.Was = r.Version
	}
	if w.Read || !replicaAt(r.At, n) {
		w.Value = nil
	}
	return w
}

// makeRoom has registered memory for all records of the transaction.
func (t *tx) makeRoom() error {
	bytes := 0
	for n, body := range t.bodies {
		if body != 0 {
			bytes += t.e.backups.at[n].writer.Span(body)
		}
	}
	if t.out != nil && t.out.Len() >= bytes {
		return nil
	}
	mr, err := t.e.Env.Worker.PD().AllocMR(max(1<<bits.Len(uint(bytes-1)), minLogBuffer),
		verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	if t.out != nil {
		err = t.out.Close() // nothing of it is in flight
	}
	t.out = mr
	return err
}

const minLogBuffer = 4 << 10

// append appends the transaction's record to a log, from a place in the buffer on, and gives its bytes there. A compact
// record is not in the buffer.
func (t *tx) append(x *backup, at int) (bytes int) {
	l := logged{to: x, number: x.base + uint64(len(x.flights)), at: at, ops: nowhere}
	var err error
	if t.e.strategy.Flows {
		if l.place.Position = x.writer.Tail(); x.stuck { // it goes there with those before it
			l.body = t.bodyBytes(x.node)
		} else {
			t.shipPacked(&l)
		}
		l.place, err = x.writer.Take(&t.rooms[x.node], l.body)
	} else {
		t.text = t.body(t.text[:0], x.node, x.decided)
		l.body, bytes = len(t.text), x.writer.Span(len(t.text))
		rec := log.Record{Type: recordUpdate, ID: uint64(t.name), Body: t.text}
		if l.place, err = x.writer.Encode(&t.rooms[x.node], &rec, t.out.Bytes()[at:at+bytes]); err == nil && !x.stuck {
			t.ship(&l)
		}
	}
	invariant.Assert(err == nil, "a record did not fit into the room that was reserved for it")
	x.flights = append(x.flights, flight{end: x.writer.Tail(), t: t})
	t.logs = append(t.logs, l)
	x.last = t.F.Now()
	return bytes
}

// nowhere says that a record was not sent.
const nowhere = -1

// ship sends a record to where it belongs: by WRITEs, or as a message.
func (t *tx) ship(l *logged) {
	l.call, l.ops = nil, t.Batch.Len()
	bytes := t.out.Bytes()[l.at : l.at+l.place.Bytes]
	if by := t.e.strategy.by(proto.PhaseLog); by != OneSided && len(bytes) <= messageBytes {
		l.call = t.newCall(t.e.messengers[by], TypeLog, l.to.node)
		l.call.req, l.call.packed = append(l.call.req, bytes...), false
		return
	}
	peer := &t.e.Env.Peers[l.to.node]
	for _, p := range l.place.Pieces {
		if p.To > p.From {
			t.Batch.Write(t.F, peer.Conn, t.out.SGE(l.at+p.From, p.To-p.From), peer.Log.Addr+uint64(p.Offset),
				peer.Log.RKey)
			t.count(proto.PhaseLog, l.to.node, 1, p.To-p.From)
		}
	}
}

// shipPacked sends a record in compact form, made of what the transaction writes, and notes how long its body is. What is
// decided may be more than when it was sent before.
func (t *tx) shipPacked(l *logged) {
	x := l.to
	c := t.newCall(t.e.messengers[RPC], TypeLog, x.node)
	l.call, l.ops, l.body = c, t.Batch.Len(), decidedBytes+recovery.BodyBytes(0)
	c.req = packRecord(c.req, &recordHead{position: l.place.Position, decided: x.decided, epoch: x.writer.Epoch(),
		number: uint32(t.name), tx: t.word.Tx()})
	for i := range t.Records {
		if r := &t.Records[i]; t.logsRecord(r) {
			w := t.writeAt(r, x.node)
			c.req = packWrite(c.req, &w)
			l.body += bodyRoom(&w)
		}
	}
}
