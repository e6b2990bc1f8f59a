package txset

import (
	"drtmd/proto"
	"drtmd/proto/history"
)

// Scanner is the Loader of a protocol that scans ordered tables.
type Scanner interface {
	// Keys fills keys with the first keys from from to to, in that order, which may have a record; fewer than
	// there is room for are all. Both ends are at a location. An own insertion that has no entry yet need not
	// be among them. The protocol protects that there are no others, up to where the scan ends, or does so in
	// the commit: Ranges.
	Keys(t proto.TableID, at proto.Location, from, to proto.Key, keys []proto.Key) (n int, err error)
}

// Range is what a Scan has looked at, from Low to High, both included.
type Range struct {
	Table     proto.TableID
	At        proto.Location
	Low, High proto.Key
	Stamp     uint64 // of Set.Stamp, when the scan began
	// Seen is how many records the scan has seen that the transaction has not inserted itself. If the set has
	// more in the range, one has come since.
	Seen int
}

// chunkKeys is how many keys of a scan are loaded at once at most. A scan begins with one, since many end soon,
// and doubles: what is loaded in vain is no more than what was asked for.
const chunkKeys = 32

// scan is a Scan that runs.
type scan struct {
	table    proto.TableID
	from, to proto.Key
	each     func(proto.Key, []byte) bool
	own      int       // own insertions in the range that are left to be shown
	next     proto.Key // none of them is before it
	spent    bool      // to was passed: next is none
	last     proto.Key // shown last
	stopped  bool      // by each
	seen     int       // of Range
	// fresh: of the range, the set has no record but those that the scan has added, the last of them before index end.
	// judged: it is known whether it is.
	fresh, judged bool
	end           int
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
	scanner, ok := s.loader.(Scanner)
	if !ok {
		return proto.ErrUnsupported
	}
	at, err := s.Range(t, from, to)
	if err != nil {
		return err
	}
	s.scan, s.Stamp = scan{table: t, from: from, to: to, each: each, next: from}, 0
	low, high := min(from, to), max(from, to)
	s.Ranges = append(s.Ranges, Range{Table: t, At: at, Low: low, High: high})
	s.scan.own = s.insertedIn(t, low, high)
	if err = s.walk(scanner, at); err == nil && !s.scan.stopped {
		err = s.showInserted(to, true)
	}
	s.scan.each = nil
	if err != nil {
		s.Err = err
		return err
	}
	s.endScan()
	return nil
}

// Range is where the records of a range are.
func (s *Set[Own]) Range(t proto.TableID, from, to proto.Key) (at proto.Location, err error) {
	c := s.config
	if n := len(c.Specs); uint(t)-1 >= uint(n) {
		return at, proto.UnknownTable(t, from, n)
	}
	if !c.Specs[t-1].Ordered {
		return at, proto.ErrUnsupported
	}
	if at, err = proto.Locate(c.Placement, t, from, c.Nodes); err != nil {
		return at, err
	}
	end, err := proto.Locate(c.Placement, t, to, c.Nodes)
	if err == nil && end.Primary != at.Primary {
		err = &proto.AccessError{Table: t, Key: from, Err: proto.ErrPlacement,
			Why: "a range is scanned on one node, and its ends are on two; scan the part of each node"}
	}
	return at, err
}

// walk goes through the keys of a scan.
func (s *Set[Own]) walk(scanner Scanner, at proto.Location) error {
	x := &s.scan
	for from, chunk := x.from, 1; ; chunk = min(2*chunk, chunkKeys) {
		keys := s.keys[:chunk]
		n, err := scanner.Keys(x.table, at, from, x.to, keys)
		if err == nil {
			err = s.loadKeys(keys[:n])
		}
		if err != nil {
			return err
		}
		for _, k := range keys[:n] {
			if err = s.showInserted(k, false); err == nil && !x.stopped {
				err = s.showKey(k)
			}
			if err != nil || x.stopped {
				return err
			}
		}
		if n < chunk || x.spent {
			return nil
		}
		from = x.next
	}
}

// loadKeys loads the records of some keys that the set does not have.
func (s *Set[Own]) loadKeys(keys []proto.Key) error {
	n := len(s.Records)
	fresh := len(keys) > 1 && s.isFresh()
	for _, k := range keys {
		if !fresh && s.index(s.scan.table, k) >= 0 {
			continue
		}
		if err := s.Add(s.scan.table, k, proto.ModeRead); err != nil {
			s.Records = s.Records[:n] // nothing was loaded of these
			return s.crowded(err)
		}
	}
	if n == len(s.Records) {
		return nil
	}
	if fresh {
		s.cursor, s.scan.end = n, len(s.Records)
	}
	return s.loader.Load(n, len(s.Records))
}

// crowded is an abort if a scan finds more records than a set may have because some of them are deleted ones, whose entries
// their machine is about to give back: each has a version to validate until then.
func (s *Set[Own]) crowded(err error) error {
	if err != ErrTooManyRecords {
		return err
	}
	x := &s.scan
	low, high := min(x.from, x.to), max(x.from, x.to)
	for i := range s.Records {
		if r := &s.Records[i]; r.Table == x.table && r.Key >= low && r.Key <= high && r.Loaded && !r.Was && !r.Is {
			return proto.Aborting(proto.ReasonConflict)
		}
	}
	return err
}

// isFresh reports whether keys of the scan that runs, which are all different, cannot be the set's. A scan of many would
// search all records for each.
func (s *Set[Own]) isFresh() bool {
	x := &s.scan
	if !x.judged {
		x.judged, x.fresh = true, true
		x.end = len(s.Records)
		low, high := min(x.next, x.to), max(x.next, x.to)
		for i := range s.Records {
			if r := &s.Records[i]; r.Table == x.table && r.Key >= low && r.Key <= high {
				x.fresh = false
				break
			}
		}
	}
	x.fresh = x.fresh && x.end == len(s.Records) // else each has added some
	return x.fresh
}

// insertedIn is how many records of a range the transaction has inserted itself.
func (s *Set[Own]) insertedIn(t proto.TableID, low, high proto.Key) (n int) {
	for i := range s.Records {
		if r := &s.Records[i]; r.Table == t && r.inserted() && r.Key >= low && r.Key <= high {
			n++
		}
	}
	return n
}

// showInserted shows own insertions from next on that come before a key, or are that key if included.
func (s *Set[Own]) showInserted(k proto.Key, included bool) error {
	x := &s.scan
	for x.own > 0 && !x.stopped && !x.spent {
		best := -1
		for i := range s.Records {
			r := &s.Records[i]
			if r.Table == x.table && r.inserted() && !x.before(r.Key, x.next) &&
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
	if err == nil && r.Lines != 0 {
		err = s.complete(r, 0, len(r.Value))
	}
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
	if r.Was {
		x.seen++
	} else if r.Is {
		x.own--
	}
	if r.added {
		s.readAdded(r)
	}
	if r.Is && !x.each(k, r.Value) {
		x.stopped = true
	}
	return nil
}

// endScan takes down the range, as far as it was looked at.
func (s *Set[Own]) endScan() {
	x := &s.scan
	r := &s.Ranges[len(s.Ranges)-1]
	if x.stopped {
		r.Low, r.High = min(x.from, x.last), max(x.from, x.last)
	}
	r.Stamp, r.Seen = s.Stamp, x.seen
	if s.note != nil {
		s.note.Scan(history.Table(x.table), history.Key(r.Low), history.Key(r.High))
	}
}
