package txset

import (
	"drtmd/proto"
	"drtmd/proto/history"
)

// Scanner is the Loader of a protocol that scans ordered tables.
type Scanner interface {
	// Keys calls visit with the keys of a table from from to to, in that order, which may have a record, until
	// it returns false. Both ends are at a location. An own insertion has no entry yet, and need not be among
	// them. visit loads the record.
	Keys(t proto.TableID, at proto.Location, from, to proto.Key, visit func(proto.Key) bool) error
}

// scan is a Scan that runs.
type scan struct {
	table    proto.TableID
	from, to proto.Key
	each     func(proto.Key, []byte) bool
	next     proto.Key // no own insertion before it is left to be shown
	spent    bool      // to was passed: next is none
	last     proto.Key // shown last
	stopped  bool      // by each
	err      error
}

func (x *scan) down() bool { return x.from > x.to }

// before reports whether a scan comes to a before b.
func (x *scan) before(a, b proto.Key) bool { return a != b && (a < b) != x.down() }

// Scan implements proto.Txn: records that are found become records of the set, so that the protocol protects
// them as it does others; the protocol's Scanner protects the rest of the range.
func (s *Set[Own]) Scan(t proto.TableID, from, to proto.Key, each func(proto.Key, []byte) bool) error {
	if s.Err != nil {
		return s.Err
	}
	c := s.config
	if n := len(c.Specs); uint(t)-1 >= uint(n) {
		return proto.UnknownTable(t, from, n)
	}
	scanner, ok := s.loader.(Scanner)
	if !ok || !c.Specs[t-1].Ordered {
		return proto.ErrUnsupported
	}
	at, err := proto.Locate(c.Placement, t, from, c.Nodes)
	if err != nil {
		return err
	}
	end, err := proto.Locate(c.Placement, t, to, c.Nodes)
	if err != nil {
		return err
	}
	if end.Primary != at.Primary {
		return &proto.AccessError{Table: t, Key: from, Err: proto.ErrPlacement,
			Why: "a range is scanned on one node, and its ends are on two; scan the part of each node"}
	}
	if s.visit == nil {
		s.visit = s.visitKey
	}
	s.scan = scan{table: t, from: from, to: to, each: each, next: from}
	if err = scanner.Keys(t, at, from, to, s.visit); err == nil {
		err = s.scan.err
	}
	if err == nil && !s.scan.stopped {
		err = s.showInserted(to, true)
	}
	s.scan.each = nil
	if err != nil {
		s.Err = err
		return err
	}
	s.noteScan()
	return nil
}

// visitKey shows the record of a key that the protocol has found, and own insertions before it.
func (s *Set[Own]) visitKey(k proto.Key) bool {
	x := &s.scan
	if x.err = s.showInserted(k, false); x.err == nil && !x.stopped {
		x.err = s.showKey(k)
	}
	return x.err == nil && !x.stopped
}

// showInserted shows own insertions from next on that come before a key, or are that key if included.
func (s *Set[Own]) showInserted(k proto.Key, included bool) error {
	x := &s.scan
	for !x.stopped && !x.spent {
		best := -1
		for i := range s.Records {
			r := &s.Records[i]
			if r.Table == x.table && r.Is && !r.Was && !x.before(r.Key, x.next) &&
				(x.before(r.Key, k) || included && r.Key == k) &&
				(best < 0 || x.before(r.Key, s.Records[best].Key)) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		if err := s.showKey(s.Records[best].Key); err != nil {
			return err
		}
	}
	return nil
}

// showKey shows one record, if there is one.
func (s *Set[Own]) showKey(k proto.Key) error {
	x := &s.scan
	r, err := s.access(x.table, k, noSize, proto.ModeRead)
	if err != nil {
		return err
	}
	if x.last = k; k == x.to {
		x.spent = true
	} else if x.down() {
		x.next = k - 1
	} else {
		x.next = k + 1
	}
	if r.Is && !x.each(k, r.Value) {
		x.stopped = true
	}
	return nil
}

// noteScan takes down the range, as far as it was looked at.
func (s *Set[Own]) noteScan() {
	if s.note == nil {
		return
	}
	x := &s.scan
	end := x.to
	if x.stopped {
		end = x.last
	}
	low, high := min(x.from, end), max(x.from, end)
	s.note.Scan(history.Table(x.table), history.Key(low), history.Key(high))
}
