package xenic

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/protocol"
	"drtmd/proto/xenic/nics"
	"drtmd/verbs/fiber"
)

// This file is function shipping (§4.2.2): NICs execute the functions that a workload declares, at the coordinator's NIC or
// at another primary's (§4.2.3).

// functionPs and recordPs are the CPU time of an execution on a core of the host, and of each of its records: those of an
// attempt there. Assumed.
const (
	functionPs = 10_000
	recordPs   = accessPs
)

// functionsOf are those that NICs execute; nil: none.
func functionsOf(e *protocol.Env) (map[uint16]nics.Function, error) {
	which := e.Options.Choice(OptShipping)
	if which == ShipOn && len(e.Functions) == 0 {
		return nil, fmt.Errorf("%w: --%s %s: the workload declares no functions: use --%s %s, or another workload", ErrConfig,
			OptShipping, ShipOn, OptShipping, ShipOff)
	}
	if which == ShipOff || len(e.Functions) == 0 {
		return nil, nil
	}
	all := map[uint16]nics.Function{}
	for _, f := range e.Functions {
		x := &execution{shipped: f.New(), specs: e.Specs}
		all[f.Number] = nics.Function{HostPs: functionPs, RecordPs: recordPs, Run: x.run}
	}
	return all, nil
}

// execution runs a function on a NIC. It implements proto.Txn on the records of a call: they are all that the function may
// touch.
type execution struct {
	shipped  proto.Shipped
	specs    []proto.TableSpec
	accesses []proto.Access
	list     []nics.Access
	records  []executed
}

// executed is a record of a call.
type executed struct {
	is    bool
	dirty bool
	value []byte
}

// errCall: the function touches what is no record of its call.
var errCall = errors.New("xenic: a function touches a record that its transaction does not declare")

// run executes a call.
func (x *execution) run(list []nics.Access, values []nics.Value, argument []byte) (s nics.Step) {
	x.accesses, x.records, x.list = x.accesses[:0], x.records[:0], list
	for i, a := range list {
		mode := proto.ModeRead
		if a.Insert {
			mode = proto.ModeInsert
		} else if a.Write {
			mode = proto.ModeWrite
		}
		x.accesses = append(x.accesses, proto.Access{Table: proto.TableID(a.Table) + 1, Mode: mode, Key: proto.Key(a.Key)})
		x.records = append(x.records, executed{is: values[i].Version.Live(), value: values[i].Bytes})
	}
	err := x.shipped.Take(x.accesses, argument)
	if err == nil {
		err = x.shipped.Execute(x)
	}
	switch {
	case errors.Is(err, proto.ErrRollback):
		return nics.Step{Ends: nics.Aborts}
	case proto.AbortReason(err) != 0:
		return nics.Step{Ends: nics.Outdated}
	case err != nil:
		return nics.Step{More: list, Writes: make([]nics.Write, len(list)+1)} // it is broken
	}
	for i := range x.records {
		r := &x.records[i]
		w := nics.Write{}
		if r.dirty {
			w = nics.Write{Does: nics.Remove}
			if r.is {
				w = nics.Write{Does: nics.Put, Bytes: r.value}
			}
		}
		s.Writes = append(s.Writes, w)
	}
	s.Result = x.shipped.Result(nil)
	return s
}

func (x *execution) find(t proto.TableID, k proto.Key, size int) (*executed, error) {
	for i, a := range x.accesses {
		if a.Key == k && a.Table == t {
			if size >= 0 && size != x.specs[t-1].ValueBytes {
				return nil, proto.WrongSize(t, k, size, x.specs[t-1].ValueBytes)
			}
			return &x.records[i], nil
		}
	}
	return nil, errCall
}

// Read implements proto.Txn.
func (x *execution) Read(t proto.TableID, k proto.Key, dst []byte) error {
	r, err := x.find(t, k, len(dst))
	if err != nil {
		return err
	}
	if !r.is {
		return proto.ErrNotFound
	}
	copy(dst, r.value)
	return nil
}

// GetForUpdate implements proto.Txn.
func (x *execution) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return x.Read(t, k, dst)
}

// ReadMany implements proto.Txn.
func (x *execution) ReadMany(gets []proto.Get) error {
	for i := range gets {
		g := &gets[i]
		if g.Err = x.Read(g.Table, g.Key, g.Value); g.Err != nil && g.Err != proto.ErrNotFound {
			return g.Err
		}
	}
	return nil
}

// Scan implements proto.Txn.
func (x *execution) Scan(proto.TableID, proto.Key, proto.Key, func(proto.Key, []byte) bool) error {
	return proto.ErrUnsupported
}

// change gives a record a value, if it is there or not as is says; nil: none.
func (x *execution) change(t proto.TableID, k proto.Key, size int, is bool, otherwise error, value []byte) error {
	r, err := x.find(t, k, size)
	if err != nil {
		return err
	}
	if r.is != is {
		return otherwise
	}
	r.is, r.dirty, r.value = value != nil, true, append([]byte(nil), value...)
	return nil
}

// Write implements proto.Txn.
func (x *execution) Write(t proto.TableID, k proto.Key, value []byte) error {
	return x.change(t, k, len(value), true, proto.ErrNotFound, value)
}

// Insert implements proto.Txn.
func (x *execution) Insert(t proto.TableID, k proto.Key, value []byte) error {
	return x.change(t, k, len(value), false, proto.ErrExists, value)
}

// Delete implements proto.Txn.
func (x *execution) Delete(t proto.TableID, k proto.Key) error {
	return x.change(t, k, -1, true, proto.ErrNotFound, nil)
}

// Ships implements proto.Shipper: all that NICs can execute, but for what the host executes on its own tables.
func (e *Engine) Ships(function uint16, d *proto.Decl) bool {
	if _, ok := e.chip.functions[function]; !ok {
		return false
	}
	if !e.local {
		return true
	}
	for _, a := range d.Accesses {
		if at, err := proto.Locate(e.env.Placement, a.Table, a.Key, len(e.env.Chips)); err != nil || at.Primary != e.env.Node {
			return err == nil
		}
	}
	return false
}

// Ship implements proto.Shipper.
func (e *Engine) Ship(f *fiber.Fiber, d *proto.Decl, attempt int, function uint16, argument, dst []byte) ([]byte, error) {
	x, err := e.open(f, d, attempt)
	if x == nil {
		return dst, err
	}
	var result nics.Result
	if err == nil {
		result, err = x.ship(function, argument)
	}
	if (err == nil && len(result.Updates) == 0 || err == proto.ErrRollback) && !x.mayTell() {
		err = aborting(nics.Moved)
	}
	switch {
	case err == proto.ErrRollback:
		e.stats.RolledBack++
		x.finish(history.UserAborted)
	case err != nil:
		x.Abort(err)
	default:
		e.stats.Committed++
		x.finish(history.Committed)
	}
	return append(dst, result.Bytes...), err
}

// ship has NICs execute a function on the records of the set, and takes down what it has read and written.
func (x *tx) ship(function uint16, argument []byte) (result nics.Result, err error) {
	x.list = x.list[:0]
	for i := range x.Records {
		x.list = append(x.list, access(&x.Records[i]))
	}
	was := x.F.Shield()
	defer x.F.Unshield(was)
	x.F.Step(stepBegin)
	name := x.e.host.Next()
	x.e.chip.shipped[name] = x
	result, err = x.e.host.Run(x.F, &nics.Call{Accesses: x.list, Function: function, Argument: argument})
	delete(x.e.chip.shipped, name)
	switch {
	case err != nil:
		return result, err
	case result.Status == nics.Refused:
		return result, proto.ErrRollback
	case result.Status != nics.Committed:
		return result, aborting(result.Status)
	}
	x.F.Step(stepCommitted)
	return result, x.replay(&result)
}

// ended takes down what a function has written. The attempt has no name before: if the node dies earlier, only survivors
// know what it has written.
func (c *Chip) ended(name uint64, updates []nics.Update) {
	x := c.shipped[name]
	if x == nil {
		return // its fiber is gone
	}
	x.Name(name)
	for _, u := range updates {
		var value []byte
		if u.Version.Live() {
			value = u.Bytes
		}
		x.NoteWrite(proto.TableID(u.Table)+1, proto.Key(u.Key), u.Version, value)
	}
}

// replay takes what a call has done for what the program did.
func (x *tx) replay(result *nics.Result) error {
	for i := range x.Records {
		r, v := &x.Records[i], &result.Values[i]
		if v.Version.Live() {
			copy(r.Value, v.Bytes)
		}
		r.Take(v.Version, v.Version.Live())
	}
	for i := range x.Records {
		r := &x.Records[i]
		if len(x.value) < len(r.Value) {
			x.value = make([]byte, len(r.Value))
		}
		if err := x.Read(r.Table, r.Key, x.value[:len(r.Value)]); err != nil && err != proto.ErrNotFound {
			return err
		}
	}
	for _, u := range result.Updates {
		t, k := proto.TableID(u.Table)+1, proto.Key(u.Key)
		var err error
		switch r := x.Find(t, k); {
		case !u.Version.Live():
			err = x.Delete(t, k)
		case r.Was:
			err = x.Write(t, k, u.Bytes)
		default:
			err = x.Insert(t, k, u.Bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
