package micro

import (
	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// transaction is a proto.Program with its parameters.
type transaction struct {
	kind     Kind
	decl     proto.Decl
	accesses [manyReads]proto.Access // of decl
	target   proto.Key               // Redirect: the new one; Follow: the one that was planned
	number   uint64                  // Insert, Move: of the new item
	rollBack bool                    // in the end, of those kinds that can
	glances  bool                    // Follow: Plan peeks at an item
	glance   proto.Key
	did      workload.Quantities // by the last execution, if it is committed
	values   [manyReads]value
	gets     [manyReads]proto.Get
	follower follower
}

func (t *transaction) begin(k Kind) {
	t.kind, t.did = k, workload.Quantities{}
	t.decl.Kind, t.decl.Accesses = uint8(k), t.accesses[:0]
	t.follower.t = t
}

// declared reports whether a record is in the declaration.
func (t *transaction) declared(table proto.TableID, k proto.Key) bool {
	for i := range t.decl.Accesses {
		if a := &t.decl.Accesses[i]; a.Key == k && a.Table == table {
			return true
		}
	}
	return false
}

// Execute runs the transaction's code.
func (t *transaction) Execute(tx proto.Txn) error {
	t.did = workload.Quantities{}
	a := t.decl.Accesses
	switch t.kind {
	case Increment:
		for i := range a {
			if err := t.increment(tx, a[i].Key); err != nil {
				return err
			}
		}
		return t.end()
	case Insert:
		return t.insert(tx, a[0].Key)
	case Delete:
		return t.remove(tx, a[0].Key)
	case Move:
		if err := t.remove(tx, a[0].Key); err != nil {
			return err
		}
		return t.insert(tx, a[1].Key)
	case Look:
		return t.look(tx)
	case ReadMany:
		return t.readMany(tx)
	case Depend:
		for i := range a[1:] {
			_, err := t.read(tx, a[1+i].Table, a[1+i].Key)
			if err != nil && (err != proto.ErrNotFound || a[1+i].Table != Items) {
				return err
			}
		}
		if err := t.increment(tx, a[0].Key); err != nil {
			return err
		}
		return t.end()
	}
	return t.redirect(tx, a[0].Key)
}

// read reads a value and checks it.
func (t *transaction) read(tx proto.Txn, table proto.TableID, k proto.Key) (value, error) {
	v := t.values[0]
	if err := tx.Read(table, k, v); err != nil {
		return nil, err
	}
	return v, v.check(k)
}

// increment raises a counter.
func (t *transaction) increment(tx proto.Txn, k proto.Key) error {
	v := t.values[0]
	if err := tx.GetForUpdate(Counters, k, v); err != nil {
		return err
	}
	if err := v.check(k); err != nil {
		return err
	}
	v.set(k, v.number()+1)
	t.did[sumIncrements]++
	return tx.Write(Counters, k, v)
}

// insert adds an item; that it is there rolls back.
func (t *transaction) insert(tx proto.Txn, k proto.Key) error {
	v := t.values[0]
	v.set(k, t.number)
	err := tx.Insert(Items, k, v)
	if err == proto.ErrExists {
		return proto.ErrRollback
	}
	t.did[sumItems]++
	return err
}

// remove deletes an item; that it is not there rolls back.
func (t *transaction) remove(tx proto.Txn, k proto.Key) error {
	err := tx.Delete(Items, k)
	if err == proto.ErrNotFound {
		return proto.ErrRollback
	}
	t.did[sumItems]--
	return err
}

// look reads items that are there or not.
func (t *transaction) look(tx proto.Txn) error {
	for i := range t.decl.Accesses {
		_, err := t.read(tx, Items, t.decl.Accesses[i].Key)
		if err != nil && err != proto.ErrNotFound {
			return err
		}
	}
	return t.end()
}

// rolls reports whether the kind can roll back by its own decision.
func (t *transaction) rolls() bool {
	switch t.kind {
	case Increment, Look, ReadMany, Depend:
		return true
	}
	return false
}

// end rolls the transaction back if it shall be: what it saw must be valid still.
func (t *transaction) end() error {
	if t.rollBack {
		return proto.ErrRollback
	}
	return nil
}

// readMany reads counters at once.
func (t *transaction) readMany(tx proto.Txn) error {
	a := t.decl.Accesses
	for i := range a {
		t.gets[i] = proto.Get{Table: Counters, Key: a[i].Key, Value: t.values[i]}
	}
	if err := tx.ReadMany(t.gets[:len(a)]); err != nil {
		return err
	}
	for i := range a {
		if err := t.gets[i].Err; err != nil {
			return err
		}
		if err := t.values[i].check(a[i].Key); err != nil {
			return err
		}
	}
	return t.end()
}

// redirect makes a pointer name another counter.
func (t *transaction) redirect(tx proto.Txn, k proto.Key) error {
	v := t.values[0]
	if err := tx.GetForUpdate(Pointers, k, v); err != nil {
		return err
	}
	if err := v.check(k); err != nil {
		return err
	}
	v.set(k, uint64(t.target))
	return tx.Write(Pointers, k, v)
}

// follower is the Dependent transaction: it raises the counter that a pointer names.
type follower struct{ t *transaction }

// Plan peeks at the pointer, to declare the counter.
func (p *follower) Plan(f *fiber.Fiber, peek proto.Peeker, d *proto.Decl) error {
	t := p.t
	d.Accesses = d.Accesses[:1]
	k := d.Accesses[0].Key
	v := t.values[0]
	if t.glances {
		err := peek.Peek(f, Items, t.glance, v)
		if err == nil {
			err = v.check(t.glance)
		}
		if err != nil && err != proto.ErrNotFound {
			return err
		}
	}
	if err := peek.Peek(f, Pointers, k, v); err != nil {
		return err
	}
	if err := v.check(k); err != nil {
		return err
	}
	t.target = proto.Key(v.number())
	d.Accesses = append(d.Accesses,
		proto.Access{Table: Counters, Mode: proto.ModeWrite, Key: t.target})
	return nil
}

// Execute raises the counter, if the pointer names it still.
func (p *follower) Execute(tx proto.Txn) error {
	t := p.t
	t.did = workload.Quantities{}
	v, err := t.read(tx, Pointers, t.decl.Accesses[0].Key)
	if err != nil {
		return err
	}
	if proto.Key(v.number()) != t.target {
		return proto.Aborting(proto.ReasonPlan)
	}
	return t.increment(tx, t.target)
}
