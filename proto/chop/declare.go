package chop

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is what an operation does to a table or column.
type Mode uint8

// Modes.
const (
	Read Mode = iota + 1
	Write
	// Add is an update that commutes with other additions, and returns nothing of what was there.
	Add
	Insert
	Delete
	// Append inserts a record under a key that no other transaction uses. It commutes as Add does.
	Append
	// search looks for records in an index. Analyse makes it of Op.Index.
	search
)

func (m Mode) String() string {
	return [...]string{"?", "read", "write", "add", "insert", "delete", "append", "search"}[m]
}

// Access of an operation.
type Access struct {
	// Of is a table, or some of its columns: "order", "customer.balance". A table conflicts with all its columns.
	Of   string
	Mode Mode
	// Owner is the operation of the same transaction that inserts or deletes the record that the accessed ones
	// belong to; "": none. Each of them belongs to one such record, and is accessed only by who has inserted or
	// deleted that record, or without an Owner.
	Owner string
}

func (a Access) String() string { return a.Mode.String() + " " + a.Of }

// table of the access.
func (a Access) table() string {
	t, _, _ := strings.Cut(a.Of, ".")
	return t
}

// Op is an operation, the smallest piece.
type Op struct {
	Name     string // short, as boxes of a figure have it
	Accesses []Access
	// Index is the table that the operation searches for the records that it changes; "": none. The optimised
	// chopping makes the search a piece of its own if the table is stationary.
	Index string
	// Aborts says that the user may abort the transaction here.
	Aborts bool
	// After are the operations that must come before: those whose results it needs.
	After []string
}

// Transaction is a kind of transaction.
type Transaction struct {
	Name     string // Kind's name in the workload
	Short    string // in figures
	ReadOnly bool
	Ops      []Op // in the order of the unchopped program
}

// Deferral asks that an operation's additions are published at the end of an epoch (§4.2).
type Deferral struct {
	Publisher string // transaction
	Op        string
	// Subscribers are the transactions that wait at the barrier.
	Subscribers []string
}

// Workload is a declaration.
type Workload struct {
	Transactions []Transaction
	Deferrals    []Deferral
}

// Check says what is wrong with a declaration, for a workload with these tables; nil tables are not checked.
func (w *Workload) Check(tables []string) error {
	seen := map[string]bool{}
	for i := range w.Transactions {
		t := &w.Transactions[i]
		if t.Name == "" || seen[t.Name] {
			return fmt.Errorf("transaction %q is declared twice, or has no name", t.Name)
		}
		seen[t.Name] = true
		if err := t.check(tables); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	for _, d := range w.Deferrals {
		p := w.find(d.Publisher)
		if p == nil || p.op(d.Op) < 0 {
			return fmt.Errorf("the deferred operation %s of %s is not declared", d.Op, d.Publisher)
		}
		for _, s := range d.Subscribers {
			if w.find(s) == nil {
				return fmt.Errorf("the subscriber %s of %s is not declared", s, d.Publisher)
			}
		}
	}
	return nil
}

func (t *Transaction) check(tables []string) error {
	if len(t.Ops) == 0 {
		return fmt.Errorf("it has no operation")
	}
	for i := range t.Ops {
		o := &t.Ops[i]
		if o.Name == "" || t.op(o.Name) != i {
			return fmt.Errorf("operation %q is declared twice, or has no name", o.Name)
		}
		for _, a := range o.After {
			if at := t.op(a); at < 0 || at >= i {
				return fmt.Errorf("%s comes after %s, which is not declared before it", o.Name, a)
			}
		}
		for _, a := range o.Accesses {
			switch {
			case a.Mode < Read || a.Mode > Append:
				return fmt.Errorf("%s: an access to %s has no mode", o.Name, a.Of)
			case t.ReadOnly && a.Mode != Read:
				return fmt.Errorf("%s: %s in a read-only transaction", o.Name, a)
			case tables != nil && !slices.Contains(tables, a.table()):
				return fmt.Errorf("%s: %s: the workload has no table %s", o.Name, a, a.table())
			case a.Owner != "" && t.ownerMode(a.Owner) == 0:
				return fmt.Errorf("%s: %s: the owner %s neither inserts nor deletes", o.Name, a, a.Owner)
			}
		}
		if o.Index != "" && tables != nil && !slices.Contains(tables, o.Index) {
			return fmt.Errorf("%s: search of %s: the workload has no such table", o.Name, o.Index)
		}
	}
	return nil
}

// find is nil if there is no transaction of that name.
func (w *Workload) find(name string) *Transaction {
	if i := w.index(name); i >= 0 {
		return &w.Transactions[i]
	}
	return nil
}

func (w *Workload) index(name string) int {
	return slices.IndexFunc(w.Transactions, func(t Transaction) bool { return t.Name == name })
}

// op is -1 if there is none of that name.
func (t *Transaction) op(name string) int {
	return slices.IndexFunc(t.Ops, func(o Op) bool { return o.Name == name })
}

// ownerMode is Insert or Delete, or 0 if the operation does neither or does not exist.
func (t *Transaction) ownerMode(op string) Mode {
	if i := t.op(op); i >= 0 {
		for _, a := range t.Ops[i].Accesses {
			if a.Mode == Insert || a.Mode == Delete {
				return a.Mode
			}
		}
	}
	return 0
}

// ownerTable is the table that the owner inserts into or deletes from.
func (t *Transaction) ownerTable(op string) string {
	for _, a := range t.Ops[t.op(op)].Accesses {
		if a.Mode == Insert || a.Mode == Delete {
			return a.table()
		}
	}
	return ""
}

// needs reports whether operation a needs b, directly or by way of others.
func (t *Transaction) needs(a, b int) bool {
	for _, name := range t.Ops[a].After {
		if at := t.op(name); at == b || t.needs(at, b) {
			return true
		}
	}
	return false
}
