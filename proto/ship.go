package proto

import "drtmd/verbs/fiber"

// Shippable is a client's program that a registered function may stand for (Xenic §4.2.2, workload.Function).
type Shippable interface {
	Program
	// Call appends the argument of an execution to dst. Function 0: the transaction is executed by its client.
	Call(dst []byte) (function uint16, argument []byte)
	// Return takes the result of a call in place of an execution. It fails if that is none.
	Return(result []byte) error
	// Result appends the result of the last execution or call.
	Result(dst []byte) []byte
}

// Shipped executes calls of a function, one after the other. It belongs to one fiber, keeps nothing from one call
// to the next, and does not allocate.
type Shipped interface {
	Program
	// Take is given a call, before Execute: the records in the order of the declaration, and the argument. It
	// keeps neither. It fails if they are none of the function's.
	Take(records []Access, argument []byte) error
	// Result appends the result of the last execution.
	Result(dst []byte) []byte
}

// Shipper is an engine that has functions executed elsewhere than at their client.
type Shipper interface {
	// Ships reports whether a transaction is shipped that a function stands for. It does not count as begun.
	Ships(function uint16, d *Decl) bool
	// Ship runs an attempt of it, and appends the result of the function to dst. The error is that of a Commit, or
	// ErrRollback if the function has rolled back.
	Ship(f *fiber.Fiber, d *Decl, attempt int, function uint16, argument, dst []byte) ([]byte, error)
}
