package tatp

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// mostAccesses of one transaction: a number, a facility and three call forwardings.
const mostAccesses = 2 + starts

// client draws the transactions of one fiber. Its one transaction is used again and again.
type client struct {
	w    *TATP
	home proto.NodeID
	rand *rand.Rand
	tx   transaction
	open bool // tx was drawn and is not done
	did  workload.Ledger
}

// transaction is a proto.Program with its parameters.
type transaction struct {
	w        *TATP
	kind     Kind
	decl     proto.Decl
	accesses [mostAccesses]proto.Access
	subject  proto.Key // of the subscriber
	end      int       // hour
	bit      byte
	location uint32
	data     byte
	delta    int64 // of call-forwarding rows, if the last execution is committed
	v        [CallForwarding + 1][]byte
}

func newClient(w *TATP, home proto.NodeID, r *rand.Rand) *client {
	c := &client{w: w, home: home, rand: r}
	c.tx.w = w
	for t := Subscriber; t <= CallForwarding; t++ {
		c.tx.v[t] = make([]byte, w.bytes(t))
	}
	return c
}

// subscriber draws one not uniformly, as the specification does (3.2, NURand), and its node as Options.Anywhere and
// Options.Far say.
func (c *client) subscriber() (proto.NodeID, int) {
	all := uint64(c.w.o.Nodes) * uint64(c.w.o.Subscribers)
	s := (c.rand.Uint64N(c.w.nu+1) | (1 + c.rand.Uint64N(all))) % all
	node := proto.NodeID(s % uint64(c.w.o.Nodes))
	if !c.w.o.Anywhere {
		if node = c.home; c.rand.Float64() >= 1-c.w.o.Far {
			node = (node + 1 + proto.NodeID(c.rand.IntN(c.w.o.Nodes-1))) % proto.NodeID(c.w.o.Nodes)
		}
	}
	return node, int(s / uint64(c.w.o.Nodes))
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	t := &c.tx
	node, s := c.subscriber()
	t.kind = Kind(c.w.mix.Draw(c.rand) + 1)
	t.subject, t.delta = keyOf(node, s, 0), 0
	t.decl = proto.Decl{Kind: uint8(t.kind), ReadOnly: t.kind <= GetAccessData,
		Accesses: t.accesses[:0]}
	kind, start := c.rand.IntN(types), c.rand.IntN(starts)
	switch t.kind {
	case GetSubscriberData:
		t.add(Subscriber, proto.ModeRead, t.subject)
	case GetNewDestination:
		t.end = 1 + c.rand.IntN(24)
		t.add(SpecialFacility, proto.ModeRead, keyOf(node, s, kind))
		for i := range start + 1 {
			t.add(CallForwarding, proto.ModeRead, keyOf(node, s, forwardingRow(kind, i)))
		}
	case GetAccessData:
		t.add(AccessInfo, proto.ModeRead, keyOf(node, s, kind))
	case UpdateSubscriberData:
		t.bit, t.data = byte(c.rand.IntN(2)), byte(c.rand.IntN(256))
		t.add(Subscriber, proto.ModeWrite, t.subject)
		t.add(SpecialFacility, proto.ModeWrite, keyOf(node, s, kind))
	case UpdateLocation:
		t.location = c.rand.Uint32()
		t.number()
		t.add(Subscriber, proto.ModeWrite, t.subject)
	case InsertCallForwarding:
		t.end = start*8 + 1 + c.rand.IntN(8)
		t.number()
		t.add(SpecialFacility, proto.ModeRead, keyOf(node, s, kind))
		t.add(CallForwarding, proto.ModeInsert, keyOf(node, s, forwardingRow(kind, start)))
	case DeleteCallForwarding:
		t.number()
		t.add(CallForwarding, proto.ModeDelete, keyOf(node, s, forwardingRow(kind, start)))
	}
	c.open = true
	return &t.decl, t
}

func (t *transaction) add(table proto.TableID, m proto.Mode, k proto.Key) {
	t.decl.Accesses = append(t.decl.Accesses, proto.Access{Table: table, Mode: m, Key: k})
}

// number declares the look-up of the subscriber's number.
func (t *transaction) number() {
	if !t.w.o.NoNumbers {
		t.add(Number, proto.ModeRead, t.subject)
	}
}

// Execute runs the transaction's code.
func (t *transaction) Execute(tx proto.Txn) error {
	t.delta = 0
	err := t.execute(tx)
	if errors.Is(err, proto.ErrNotFound) || errors.Is(err, proto.ErrExists) {
		t.delta = 0
		if t.w.o.FailedCommit {
			return nil
		}
		return proto.ErrRollback
	}
	return err
}

func (t *transaction) execute(tx proto.Txn) error {
	rest := t.decl.Accesses
	if rest[0].Table == Number {
		if err := t.read(tx, &rest[0]); err != nil {
			return err
		}
		if binary.LittleEndian.Uint64(t.v[Number]) != uint64(t.subject) {
			return ErrCorrupt
		}
		rest = rest[1:]
	}
	switch t.kind {
	case GetNewDestination:
		return t.destination(tx, rest)
	case UpdateSubscriberData:
		return t.updateSubscriber(tx, rest)
	case UpdateLocation:
		if err := t.read(tx, &rest[0]); err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(t.v[Subscriber][subscriberLocation:], t.location)
		return t.write(tx, &rest[0])
	case InsertCallForwarding:
		if err := t.read(tx, &rest[0]); err != nil {
			return err
		}
		putForwarding(t.v[CallForwarding], rest[1].Key, t.end)
		t.delta = 1
		return tx.Insert(CallForwarding, rest[1].Key, t.v[CallForwarding])
	case DeleteCallForwarding:
		t.delta = -1
		return tx.Delete(CallForwarding, rest[0].Key)
	}
	return t.read(tx, &rest[0])
}

func (t *transaction) read(tx proto.Txn, a *proto.Access) error {
	if a.Mode == proto.ModeWrite {
		return tx.GetForUpdate(a.Table, a.Key, t.v[a.Table])
	}
	return tx.Read(a.Table, a.Key, t.v[a.Table])
}

func (t *transaction) write(tx proto.Txn, a *proto.Access) error {
	return tx.Write(a.Table, a.Key, t.v[a.Table])
}

// destination looks for a number to which calls are forwarded now: the facility is active, and a row
// begins at or before the hour and ends behind the other.
func (t *transaction) destination(tx proto.Txn, rest []proto.Access) error {
	if err := t.read(tx, &rest[0]); err != nil {
		return err
	}
	active := t.v[SpecialFacility][facilityActive] == 1
	found := false
	for i := range rest[1:] {
		a := &rest[1+i]
		switch err := t.read(tx, a); {
		case errors.Is(err, proto.ErrNotFound):
			continue
		case err != nil:
			return err
		}
		if err := checkForwarding(a.Key, t.v[CallForwarding]); err != nil {
			return err
		}
		found = found || int(t.v[CallForwarding][forwardingEnd]) > t.end
	}
	if !active || !found {
		return proto.ErrNotFound
	}
	return nil
}

func (t *transaction) updateSubscriber(tx proto.Txn, rest []proto.Access) error {
	for i := range rest {
		if err := t.read(tx, &rest[i]); err != nil {
			return err
		}
	}
	t.v[Subscriber][subscriberBits] = t.bit
	t.v[SpecialFacility][facilityData] = t.data
	if err := t.write(tx, &rest[0]); err != nil {
		return err
	}
	return t.write(tx, &rest[1])
}

// Done notes what the transaction did.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	c.did.Settle(o, workload.Quantities{c.tx.delta})
}

// AddTo adds what the client's transactions did.
func (c *client) AddTo(l *workload.Ledger) {
	l.Add(&c.did)
	if c.open {
		l.AddUnknown(workload.Quantities{c.tx.delta})
	}
}
