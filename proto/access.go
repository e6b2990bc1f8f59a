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
	if k == Key(layout.NoKey) {
		return 0, &AccessError{Table: t, Key: k, Err: ErrKey}
	}
	n := p.Locate(t, k).Primary
	if int(n) >= nodes {
		return 0, misplaced(t, k, n, nodes)
	}
	return n, nil
}

func misplaced(t TableID, k Key, n NodeID, nodes int) error {
	return &AccessError{Table: t, Key: k, Err: ErrPlacement,
		Why: fmt.Sprintf("Locate says node %d, the nodes are 0 to %d", n, nodes-1)}
}
