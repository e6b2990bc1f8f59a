package proto

import (
	"fmt"

	"drtmd/store/layout"
)

// AccessError is an operation that a program, or the library around it, must not ask for: which one,
// and why. It wraps ErrUndeclared, ErrValueSize, ErrUnknownTable, ErrKey or
// ErrPlacement.
type AccessError struct {
	Table TableID
	Key   Key
	Mode  Mode // of the operation; 0: any
	Err   error
	Why   string // what there is instead; "" is nothing
}

func (e *AccessError) Error() string {
	what := "access to"
	if e.Mode != 0 {
		what = e.Mode.String() + " of"
	}
	text := fmt.Sprintf("%s key %d in table %d: %v", what, e.Key, e.Table, e.Err)
	if e.Why != "" {
		text += "; " + e.Why
	}
	return text
}

func (e *AccessError) Unwrap() error { return e.Err }

// Undeclared is the error of an operation that needs mode, while the Decl has the record with
// another one; 0: not at all.
func Undeclared(t TableID, k Key, mode, declared Mode) error {
	why := "the Decl does not have this record"
	if declared != 0 {
		why = "the Decl has it for " + declared.String() + " only"
	}
	return &AccessError{Table: t, Key: k, Mode: mode, Err: ErrUndeclared, Why: why}
}

// WrongSize is the error of a value, or of a buffer for one, that does not have the table's size.
func WrongSize(t TableID, k Key, got, want int) error {
	return &AccessError{Table: t, Key: k, Err: ErrValueSize,
		Why: fmt.Sprintf("it has %d bytes, not %d", got, want)}
}

// UnknownTable is the error of a table id that none of a number of tables has.
func UnknownTable(t TableID, k Key, tables int) error {
	return &AccessError{Table: t, Key: k, Err: ErrUnknownTable,
		Why: fmt.Sprintf("the workload has tables 1 to %d", tables)}
}

// Home is the node that a placement names for a record in a cluster of so many nodes. One outside of
// it is an error that wraps ErrPlacement, and the key that stands for none one that wraps ErrKey.
func Home(p Placement, t TableID, k Key, nodes int) (NodeID, error) {
	l, err := Locate(p, t, k, nodes)
	return l.Primary, err
}

// Locate is Home with all of the location. Its shard is right where the placement is a workload's, too,
// which says nothing of shards: that of a node then.
func Locate(p Placement, t TableID, k Key, nodes int) (Location, error) {
	if k == Key(layout.NoKey) {
		return Location{}, &AccessError{Table: t, Key: k, Err: ErrKey}
	}
	l := p.Locate(t, k)
	if l.Primary == NoNode && l.Epoch() > 0 {
		return Location{}, &Abort{Reason: ReasonLost,
			Cause: fmt.Errorf("shard %d, to which key %d of table %d belongs, has no replica left", l.Shard, k, t)}
	}
	if int(l.Primary) >= nodes {
		return Location{}, misplaced(t, k, l.Primary, nodes)
	}
	if l.Epoch() == 0 {
		l.Shard = ShardID(l.Primary)
	}
	return l, nil
}

func misplaced(t TableID, k Key, n NodeID, nodes int) error {
	return &AccessError{Table: t, Key: k, Err: ErrPlacement,
		Why: fmt.Sprintf("Locate says node %d, the nodes are 0 to %d", n, nodes-1)}
}
