package workload

import (
	"errors"
	"fmt"
	"slices"

	"drtmd/proto"
)

// Function is a kind of transaction that may be executed elsewhere than at its client: at another node, or on a
// NIC (function shipping, Xenic §4.2.2). Its number, the keys of its declaration and an argument travel there;
// its outcome and a result come back.
//
// The client's program is a Shippable, which makes the argument and takes the result. New makes what executes the
// function. Both sides have the same workload with the same options.
type Function struct {
	Number uint16 // from 1. It means the same function in all versions of a workload.
	Name   string // of its transaction
	Doc    string
	// Records that it touches: those of the transaction's declaration.
	Records []FunctionRecords
	// ArgumentBytes and ResultBytes are the most that a call has.
	ArgumentBytes, ResultBytes int
	// New makes what executes the function on one fiber.
	New func(w Workload) Shipped
}

// FunctionRecords are some of a function's records: from Least to Most of one table.
type FunctionRecords struct {
	Table       string
	Mode        proto.Mode
	Least, Most int
	Doc         string // which keys
}

// String is such as "write 4 to 15 stock: of the items".
func (r FunctionRecords) String() string {
	many := fmt.Sprint(r.Most)
	if r.Least != r.Most {
		many = fmt.Sprintf("%d to %d", r.Least, r.Most)
	}
	return fmt.Sprintf("%v %s %s: %s", r.Mode, many, r.Table, r.Doc)
}

// Shippable is a client's program that a Function may stand for. Return fails with ErrCall.
type Shippable = proto.Shippable

// Shipped executes calls of a function. Take fails with ErrCall.
type Shipped = proto.Shipped

// ErrCall: records, argument or result are not those of the function.
var ErrCall = errors.New("not a call of this function")

// Function finds a shipped function by its number; nil: there is none.
func (s *Spec) Function(number uint16) *Function {
	i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.Number == number })
	if i < 0 {
		return nil
	}
	return &s.Functions[i]
}

// CheckFunctions checks that the shipped functions have numbers and names of their own.
func (s *Spec) CheckFunctions() error {
	for i := range s.Functions {
		f := &s.Functions[i]
		switch {
		case f.Number == 0 || f.New == nil:
			return fmt.Errorf("shipped function %q of workload %s: it needs a Number from 1 and New", f.Name, s.Name)
		case s.Function(f.Number) != f:
			return fmt.Errorf("workload %s has two shipped functions with number %d", s.Name, f.Number)
		case !slices.ContainsFunc(s.Transactions, func(t Transaction) bool { return t.Name == f.Name }):
			return fmt.Errorf("shipped function %q of workload %s: there is no transaction of that name", f.Name, s.Name)
		}
	}
	return nil
}

// Fits reports whether the records of a transaction are those of the function. tables are the workload's.
func (f *Function) Fits(tables []proto.TableSpec, records []proto.Access) bool {
	type of struct {
		table string
		mode  proto.Mode
	}
	least, most := map[of]int{}, map[of]int{}
	for _, r := range f.Records {
		least[of{r.Table, r.Mode}] += r.Least
		most[of{r.Table, r.Mode}] += r.Most
	}
	for _, r := range records {
		x := of{tables[r.Table-1].Name, r.Mode}
		least[x]--
		if most[x]--; most[x] < 0 {
			return false
		}
	}
	for _, n := range least {
		if n > 0 {
			return false
		}
	}
	return true
}
