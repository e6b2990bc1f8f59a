package smallbank

import (
	"encoding/binary"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// numberBytes is a number in a call.
const numberBytes = 8

// functions declares the transactions, all of which Xenic ships (§5.5). Their numbers are those of their kinds.
func functions() (all []workload.Function) {
	add := func(k Kind, argument, result int, doc string, records ...workload.FunctionRecords) {
		all = append(all, workload.Function{Number: uint16(k), Name: k.String(), Doc: doc, Records: records,
			ArgumentBytes: argument, ResultBytes: result, New: func(w workload.Workload) workload.Shipped {
				t := newTransaction(w.(*Bank).o.ValueBytes, w.(*Bank).o.OneKeyBalance)
				t.kind = k
				return &t
			}})
	}
	one := func(table string, m proto.Mode, doc string) workload.FunctionRecords {
		return workload.FunctionRecords{Table: table, Mode: m, Least: 1, Most: 1, Doc: doc}
	}
	const savings, checking, read, write = "savings", "checking", proto.ModeRead, proto.ModeWrite
	second := one(checking, read, "the customer's, unless a balance reads one key")
	second.Least = 0
	add(SendPayment, 0, 0, "the amount is fixed", one(checking, write, "sender"), one(checking, write, "receiver"))
	add(Amalgamate, 0, 0, "no argument", one(savings, write, "first customer"), one(checking, write, "first customer"),
		one(checking, write, "second customer"))
	add(Balance, 0, numberBytes, "the result is the balance", one(savings, read, "customer"), second)
	add(DepositChecking, 0, numberBytes, "the result is what was paid in", one(checking, write, "customer"))
	add(WriteCheck, 0, numberBytes, "the result is the change of the balance, a negative amount", one(savings, read, "customer"),
		one(checking, write, "customer"))
	add(TransactSavings, numberBytes, numberBytes, "the argument is the amount, the result the change of the savings",
		one(savings, write, "customer"))
	return all
}

// Call implements workload.Shippable: every transaction has a function.
func (t *transaction) Call(dst []byte) (uint16, []byte) {
	if t.kind == TransactSavings {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(t.amount))
	}
	return uint16(t.kind), dst
}

// Take implements workload.Shipped.
func (t *transaction) Take(records []proto.Access, argument []byte) error {
	n, bytes := len(shape(t.kind)), 0
	switch {
	case t.kind == TransactSavings:
		bytes = numberBytes
	case t.kind == Balance && t.oneKey:
		n = 1
	}
	if len(records) != n || len(argument) != bytes {
		return workload.ErrCall
	}
	t.a, t.b, t.amount, t.shown = records[0].Key, records[n-1].Key, 0, 0
	if bytes > 0 {
		t.amount = int64(binary.LittleEndian.Uint64(argument))
	}
	return nil
}

// tells reports whether the transaction has a result.
func (t *transaction) tells() bool { return t.kind != SendPayment && t.kind != Amalgamate }

// Result implements workload.Shippable and workload.Shipped.
func (t *transaction) Result(dst []byte) []byte {
	if !t.tells() {
		return dst
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(t.delta+t.shown)) // one of them is 0
}

// Return implements workload.Shippable.
func (t *transaction) Return(result []byte) error {
	want := 0
	if t.tells() {
		want = numberBytes
	}
	if len(result) != want {
		return workload.ErrCall
	}
	t.delta, t.shown = 0, 0
	switch {
	case t.kind == Balance:
		t.shown = int64(binary.LittleEndian.Uint64(result))
	case t.tells():
		t.delta = int64(binary.LittleEndian.Uint64(result))
	}
	return nil
}
