package node

import (
	"errors"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// scout makes a function a program whose records are declared: before each attempt, the function runs
// on unprotected reads, and what it touches is the declaration. If it touches something else in the
// attempt itself, the plan was out of date.
type scout struct {
	program func(tx proto.Txn) error
	specs   []proto.TableSpec // by id, from 1
	view    view
}

// Plan fills the declaration in.
func (s *scout) Plan(f *fiber.Fiber, peek proto.Peeker, d *proto.Decl) error {
	s.view = view{f: f, peek: peek, d: d, specs: s.specs, own: s.view.own[:0]}
	d.Accesses = d.Accesses[:0]
	err := s.program(&s.view)
	d.ReadOnly = true
	for _, a := range d.Accesses {
		d.ReadOnly = d.ReadOnly && a.Mode == proto.ModeRead
	}
	if s.view.err != nil {
		return s.view.err
	}
	if proto.AbortReason(err) != 0 {
		return err
	}
	return nil // any other error is the program's: the attempt tells whether it holds
}

// Execute runs the function in the attempt.
func (s *scout) Execute(tx proto.Txn) error {
	err := s.program(tx)
	if errors.Is(err, proto.ErrUndeclared) {
		return proto.Aborting(proto.ReasonPlan)
	}
	return err
}

// view is the transaction that a scout shows to the function: unprotected reads, with the function's
// own writes over them.
type view struct {
	f     *fiber.Fiber
	peek  proto.Peeker
	d     *proto.Decl
	specs []proto.TableSpec
	own   []ownWrite
	err   error // of the way to the records, whatever the function makes of it
}

type ownWrite struct {
	t     proto.TableID
	k     proto.Key
	value []byte // nil: deleted
}

// touch declares an access, in the strongest mode of those that the function needs.
func (v *view) touch(t proto.TableID, k proto.Key, mode proto.Mode) error {
	if t < 1 || int(t) > len(v.specs) {
		return proto.UnknownTable(t, k, len(v.specs))
	}
	for i := range v.d.Accesses {
		if a := &v.d.Accesses[i]; a.Table == t && a.Key == k {
			a.Mode = max(a.Mode, mode)
			return nil
		}
	}
	v.d.Accesses = append(v.d.Accesses, proto.Access{Table: t, Key: k, Mode: mode})
	return nil
}

// written is the own write of a record, or nil.
func (v *view) written(t proto.TableID, k proto.Key) *ownWrite {
	for i := range v.own {
		if o := &v.own[i]; o.t == t && o.k == k {
			return o
		}
	}
	return nil
}

// read is Read in a mode.
func (v *view) read(t proto.TableID, k proto.Key, dst []byte, mode proto.Mode) error {
	if err := v.touch(t, k, mode); err != nil {
		return err
	}
	if want := v.specs[t-1].ValueBytes; len(dst) != want {
		return proto.WrongSize(t, k, len(dst), want)
	}
	if o := v.written(t, k); o != nil {
		if o.value == nil {
			return proto.ErrNotFound
		}
		copy(dst, o.value)
		return nil
	}
	err := v.peek.Peek(v.f, t, k, dst)
	if err != nil && !errors.Is(err, proto.ErrNotFound) {
		v.err = err
	}
	return err
}

// put keeps an own write after a look at whether the record is there.
func (v *view) put(t proto.TableID, k proto.Key, value []byte, mode proto.Mode) error {
	if err := v.touch(t, k, mode); err != nil {
		return err
	}
	spec := v.specs[t-1]
	if mode != proto.ModeDelete && len(value) != spec.ValueBytes {
		return proto.WrongSize(t, k, len(value), spec.ValueBytes)
	}
	err := v.read(t, k, make([]byte, spec.ValueBytes), mode)
	switch absent := errors.Is(err, proto.ErrNotFound); {
	case err != nil && !absent:
		return err
	case mode == proto.ModeInsert && !absent:
		return proto.ErrExists
	case mode != proto.ModeInsert && absent:
		return proto.ErrNotFound
	}
	o := v.written(t, k)
	if o == nil {
		v.own = append(v.own, ownWrite{t: t, k: k})
		o = &v.own[len(v.own)-1]
	}
	o.value = nil
	if mode != proto.ModeDelete {
		o.value = append([]byte{}, value...)
	}
	return nil
}

func (v *view) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return v.read(t, k, dst, proto.ModeRead)
}

func (v *view) ReadMany(gets []proto.Get) error {
	for i := range gets {
		g := &gets[i]
		if g.Err = v.Read(g.Table, g.Key, g.Value); g.Err != nil && !errors.Is(g.Err, proto.ErrNotFound) {
			return g.Err
		}
	}
	return nil
}

func (v *view) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return v.read(t, k, dst, proto.ModeWrite)
}

func (v *view) Write(t proto.TableID, k proto.Key, value []byte) error {
	return v.put(t, k, value, proto.ModeWrite)
}

func (v *view) Insert(t proto.TableID, k proto.Key, value []byte) error {
	return v.put(t, k, value, proto.ModeInsert)
}

func (v *view) Delete(t proto.TableID, k proto.Key) error {
	return v.put(t, k, nil, proto.ModeDelete)
}
