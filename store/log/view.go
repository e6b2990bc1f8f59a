package log

import (
	"fmt"

	"drtmd/verbs/lines"
)

// View reads a log beside its host and its writer, on another thread of the host's process: everything that is
// in it at a moment.
type View struct{ l *Log }

// NewView opens the log that memory holds, while others use it.
func NewView(mem lines.Memory) (*View, error) {
	l, err := open(mem)
	if err != nil {
		return nil, fmt.Errorf("view of a log: %w", err)
	}
	return &View{l}, nil
}

// viewLooks bounds how often a View begins anew.
const viewLooks = 16

// Each calls f with each complete record from the head on, those included that come meanwhile or are truncated
// meanwhile, and some more than once. It reports false if the log was truncated again and again, so that some
// may be missing. r.Body is valid until f returns.
func (v *View) Each(f func(r *Record)) bool {
	var r Record
	for range viewLooks {
		before, ok := v.l.latestHead()
		if !ok {
			continue // it is being written
		}
		v.l.head, v.l.next, v.l.epoch = before, before, 0
		for v.l.Next(&r) == nil {
			f(&r)
		}
		// What was truncated meanwhile may have been overwritten, and have ended the scan before the end.
		if after, ok := v.l.latestHead(); ok && after == before {
			return true
		}
	}
	return false
}

// latestHead is the head as memory says.
func (l *Log) latestHead() (head uint64, ok bool) {
	for i := range 2 {
		if h, valid := l.headAt(i); valid && (!ok || h > head) {
			head, ok = h, true
		}
	}
	return head, ok
}
