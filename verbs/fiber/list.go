package fiber

// fiberList is a FIFO of fibers, linked through them: a fiber is on one list at most.
type fiberList struct{ head, tail *Fiber }

func (l *fiberList) empty() bool { return l.head == nil }

func (l *fiberList) push(f *Fiber) {
	f.list, f.next = l, nil
	if l.tail == nil {
		l.head = f
	} else {
		l.tail.next = f
	}
	l.tail = f
}

func (l *fiberList) pop() *Fiber {
	f := l.head
	if f == nil {
		return nil
	}
	l.head = f.next
	if l.head == nil {
		l.tail = nil
	}
	f.list, f.next = nil, nil
	return f
}

// remove takes f out of the list that it is on; l may be nil. Linear, lists are short.
func (l *fiberList) remove(f *Fiber) {
	if l == nil || f.list != l {
		return
	}
	var prev *Fiber
	for x := l.head; x != nil; prev, x = x, x.next {
		if x != f {
			continue
		}
		if prev == nil {
			l.head = f.next
		} else {
			prev.next = f.next
		}
		if l.tail == f {
			l.tail = prev
		}
		break
	}
	f.list, f.next = nil, nil
}

// timer is a node of a timers heap.
type timer struct {
	at    int64 // ns on the worker's clock
	seq   uint64
	index int // in the heap, plus one; 0 = not set
	fire  func()
}
