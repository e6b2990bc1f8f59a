package dlht

import "errors"

// ErrOp: a Request asks for none of the operations.
var ErrOp = errors.New("dlht: a request without an operation: set Op to OpGet, OpInsert, OpPut or OpDelete")

// Op is what a Request asks for.
type Op uint8

// Operations of a batch.
const (
	OpGet Op = iota + 1
	OpInsert
	OpPut
	OpDelete
)

func (o Op) String() string {
	switch o {
	case OpGet:
		return "get"
	case OpInsert:
		return "insert"
	case OpPut:
		return "put"
	case OpDelete:
		return "delete"
	}
	return "no operation"
}

// Request is an operation of a batch, and its answer.
type Request struct {
	Op  Op
	Key uint64
	// Value to insert or put. Afterwards: the value that was found, as the operation alone would return it.
	Value uint64
	// Done: the operation alone would have returned true.
	Done bool
	// Err is a store.ErrFull, of Insert and Put, or ErrOp.
	Err error

	hash uint64 // of the key
}

// Batch executes requests in their order, and each by itself: others may see some done and some not. It looks at
// the memory of all of them first, so that the loads overlap; 8 to 32 requests are a good number.
func (t *Table) Batch(requests []Request) {
	x := t.index.Load()
	for i := range requests {
		r := &requests[i]
		r.hash = t.hash(r.Key)
		x.bin(r.hash).header() // what matters is that it is loaded
	}
	for i := range requests {
		r := &requests[i]
		r.Err = nil
		switch r.Op {
		case OpGet:
			r.Value, r.Done = t.lookUp(r.hash, r.Key)
		case OpInsert:
			value := r.Value
			if r.Value, r.Done, r.Err = t.add(r.hash, r.Key, value); r.Done {
				r.Value = value
			}
		case OpPut:
			r.Value, r.Done, r.Err = t.put(r.hash, r.Key, r.Value, nil)
		case OpDelete:
			r.Value, r.Done = t.remove(r.hash, r.Key, nil)
		default:
			r.Value, r.Done, r.Err = 0, false, ErrOp
		}
	}
	if t.lacks(BatchAnswersSwapped) && len(requests) > 1 {
		a, b := &requests[0], &requests[1]
		a.Value, a.Done, b.Value, b.Done = b.Value, b.Done, a.Value, a.Done
	}
}
