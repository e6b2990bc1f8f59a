package micro

import (
	"errors"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

type place struct {
	t proto.TableID
	k proto.Key
}

// mapTx is a transaction on a map. It refuses what is not declared.
type mapTx struct {
	records map[place]string
	decl    *proto.Decl
	undo    map[place]*string // before the transaction; nil was absent
}

var errUndeclared = errors.New("undeclared")

// touch checks the declaration and remembers what was there.
func (x *mapTx) touch(t proto.TableID, k proto.Key, modes ...proto.Mode) error {
	for _, a := range x.decl.Accesses {
		for _, m := range modes {
			if a.Table == t && a.Key == k && a.Mode == m {
				if _, ok := x.undo[place{t, k}]; !ok {
					x.undo[place{t, k}] = nil
					if v, ok := x.records[place{t, k}]; ok {
						x.undo[place{t, k}] = &v
					}
				}
				return nil
			}
		}
	}
	return errUndeclared
}

func (x *mapTx) rollback() {
	for p, v := range x.undo {
		if v == nil {
			delete(x.records, p)
		} else {
			x.records[p] = *v
		}
	}
}

func (x *mapTx) Read(t proto.TableID, k proto.Key, dst []byte) error {
	if err := x.touch(t, k, proto.ModeRead, proto.ModeWrite); err != nil {
		return err
	}
	v, ok := x.records[place{t, k}]
	if !ok {
		return proto.ErrNotFound
	}
	copy(dst, v)
	return nil
}

func (x *mapTx) ReadMany(gets []proto.Get) error {
	for i := range gets {
		g := &gets[i]
		g.Err = x.Read(g.Table, g.Key, g.Value)
	}
	return nil
}

func (x *mapTx) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return errors.Join(x.touch(t, k, proto.ModeWrite), x.Read(t, k, dst))
}

func (x *mapTx) Write(t proto.TableID, k proto.Key, v []byte) error {
	if _, ok := x.records[place{t, k}]; !ok {
		return proto.ErrNotFound
	}
	if err := x.touch(t, k, proto.ModeWrite); err != nil {
		return err
	}
	x.records[place{t, k}] = string(v)
	return nil
}

func (x *mapTx) Insert(t proto.TableID, k proto.Key, v []byte) error {
	if err := x.touch(t, k, proto.ModeInsert); err != nil {
		return err
	}
	if _, ok := x.records[place{t, k}]; ok {
		return proto.ErrExists
	}
	x.records[place{t, k}] = string(v)
	return nil
}

func (x *mapTx) Delete(t proto.TableID, k proto.Key) error {
	if err := x.touch(t, k, proto.ModeDelete); err != nil {
		return err
	}
	if _, ok := x.records[place{t, k}]; !ok {
		return proto.ErrNotFound
	}
	delete(x.records, place{t, k})
	return nil
}

func (x *mapTx) Scan(proto.TableID, proto.Key, proto.Key, func(proto.Key, []byte) bool) error {
	return proto.ErrUnsupported
}

// Peek reads outside of any transaction.
func (x *mapTx) Peek(_ *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	v := x.records[place{t, k}]
	copy(dst, v)
	return nil
}

func loaded(t *testing.T, m *Micro) *mapTx {
	t.Helper()
	x := &mapTx{records: map[place]string{}}
	for n := range m.o.Nodes {
		err := m.Load(proto.NodeID(n), func(t proto.TableID, k proto.Key, v []byte) error {
			x.records[place{t, k}] = string(v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return x
}

func (x *mapTx) read(t proto.TableID, k proto.Key, dst []byte) error {
	v, ok := x.records[place{t, k}]
	if !ok {
		return proto.ErrNotFound
	}
	copy(dst, v)
	return nil
}

// atRest are the map's records for the workload's check.
type atRest struct {
	workload.Contents
	x *mapTx
}

func (c atRest) Read(t proto.TableID, k proto.Key, dst []byte) error { return c.x.read(t, k, dst) }

// explains adds up what is in the tables.
func (x *mapTx) explains(m *Micro, did *workload.Ledger) error {
	var first, last workload.Quantities
	for n := range m.o.Nodes {
		i, f, err := m.Check(proto.NodeID(n), atRest{x: x})
		if err != nil {
			return err
		}
		first, last = first.Plus(i), last.Plus(f)
	}
	return did.Explains(first, last, m.Sums()...)
}

func TestTransactionsDoWhatTheyDeclareAndCount(t *testing.T) {
	m, err := New(Options{Nodes: 2, Keys: 16, Distributed: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	x := loaded(t, m)
	c := m.NewClient(1, rand.New(rand.NewPCG(1, 2)))
	var committed, rolledBack [kindEnd]int
	for range 20_000 {
		d, p := c.Next()
		if dep, ok := p.(proto.Dependent); ok {
			if err := dep.Plan(nil, x, d); err != nil {
				t.Fatal(err)
			}
		}
		x.decl, x.undo = d, map[place]*string{}
		switch err := p.Execute(x); err {
		case nil:
			committed[d.Kind]++
			c.Done(proto.Committed)
		case proto.ErrRollback:
			x.rollback()
			rolledBack[d.Kind]++
			c.Done(proto.RolledBack)
		default:
			t.Fatalf("%v: %v", Kind(d.Kind), err)
		}
	}
	for k := Increment; k < kindEnd; k++ {
		rolls := k == Insert || k == Delete || k == Move
		if committed[k] == 0 || rolls != (rolledBack[k] > 0) {
			t.Errorf("%v: %d committed, %d rolled back", k, committed[k], rolledBack[k])
		}
	}
	var did workload.Ledger
	c.AddTo(&did)
	if err := x.explains(m, &did); err != nil {
		t.Error(err)
	}
	for _, lost := range []workload.Quantities{{1, 0}, {0, 1}} {
		wrong := did
		wrong.Committed = wrong.Committed.Plus(lost)
		if x.explains(m, &wrong) == nil {
			t.Errorf("%v too much was not noticed", lost)
		}
	}
}

func TestFollowNoticesThatItsPlanIsOutOfDate(t *testing.T) {
	m, err := New(Default(1))
	if err != nil {
		t.Fatal(err)
	}
	x := loaded(t, m)
	c := m.NewClient(0, rand.New(rand.NewPCG(1, 2)))
	for {
		d, p := c.Next()
		dep, ok := p.(proto.Dependent)
		if !ok {
			continue
		}
		if err := dep.Plan(nil, x, d); err != nil {
			t.Fatal(err)
		}
		k := d.Accesses[0].Key
		v := make(value, ValueBytes)
		v.set(k, uint64(d.Accesses[1].Key+1))
		x.records[place{Pointers, k}] = string(v)
		x.decl, x.undo = d, map[place]*string{}
		if err := p.Execute(x); proto.AbortReason(err) != proto.ReasonPlan {
			t.Errorf("Execute: %v, want an abort because of the plan", err)
		}
		return
	}
}

func TestTornValuesAreNoticed(t *testing.T) {
	v, other := make(value, 3*ValueBytes), make(value, 3*ValueBytes)
	v.set(5, 7)
	other.set(6, 7)
	if v.check(5) != nil || v.check(6) == nil || other.check(5) == nil {
		t.Error("a value of another key passes")
	}
	for at := range v {
		v[at]++
		if !errors.Is(v.check(5), ErrCorrupt) {
			t.Errorf("a value that differs in byte %d passes", at)
		}
		v[at]--
	}
	other.set(5, 8)
	copy(v[ValueBytes:], other[ValueBytes:])
	if !errors.Is(v.check(5), ErrCorrupt) {
		t.Error("a torn value passes")
	}
}

func TestDrawingDoesNotAllocate(t *testing.T) {
	m, err := New(Default(3))
	if err != nil {
		t.Fatal(err)
	}
	c := m.NewClient(0, rand.New(rand.NewPCG(5, 6)))
	if n := testing.AllocsPerRun(1000, func() { c.Next(); c.Done(proto.Committed) }); n != 0 {
		t.Errorf("%v allocations per transaction", n)
	}
}

func TestNewRefusesWhatMakesNoSense(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no nodes":                func(o *Options) { o.Nodes = 0 },
		"few keys":                func(o *Options) { o.Keys = minKeys - 1 },
		"distributed on one node": func(o *Options) { o.Nodes = 1 },
		"probability":             func(o *Options) { o.Distributed = -0.1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := Default(3)
			change(&o)
			if _, err := New(o); err == nil {
				t.Errorf("%+v was taken", o)
			}
		})
	}
}
