package dlht

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
	// Err is a store.ErrFull, of Insert and Put.
	Err error

	seen header // of the key's bin; what matters is that it was loaded
}

// Batch executes requests in their order, and each by itself: others may see some done and some not. It looks at
// the memory of all of them first, so that the loads overlap; 8 to 32 requests are a good number.
func (t *Table) Batch(requests []Request) {
	x := t.index.Load()
	for i := range requests {
		r := &requests[i]
		r.seen = x.bin(t.hash(r.Key)).header()
	}
	for i := range requests {
		r := &requests[i]
		r.Err = nil
		switch r.Op {
		case OpGet:
			r.Value, r.Done = t.Get(r.Key)
		case OpInsert:
			value := r.Value
			if r.Value, r.Done, r.Err = t.Insert(r.Key, value); r.Done {
				r.Value = value
			}
		case OpPut:
			r.Value, r.Done, r.Err = t.Put(r.Key, r.Value)
		case OpDelete:
			r.Value, r.Done = t.Delete(r.Key)
		}
	}
	if t.lacks(BatchAnswersSwapped) && len(requests) > 1 {
		a, b := &requests[0], &requests[1]
		a.Value, a.Done, b.Value, b.Done = b.Value, b.Done, a.Value, a.Done
	}
}
