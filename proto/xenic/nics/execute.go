package nics

import (
	"slices"
	"time"

	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/store/nicindex"
	"drtmd/store/robinhood"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// Status is what a request, or a transaction, came to.
type Status uint8

// Statuses.
const (
	Committed  Status = iota + 1 // of a request: done
	Locked                       // by another transaction
	Changed                      // since it was read
	Full                         // the NIC's memory has no room for another lock
	Unstable                     // the host's table kept changing under the look-up
	Refused                      // by the host's own rules
	NoRoom                       // the host's table takes no more records
	NoFunction                   // the other node has no such function
	Moved                        // the members have changed, or the shard is not served yet after that
	Broken                       // the program has not said what becomes of its records
	statusEnd
)

var statusNames = [...]string{Committed: "committed", Locked: "locked", Changed: "changed", Full: "full",
	Unstable: "unstable", Refused: "refused", NoRoom: "no room", NoFunction: "no function",
	Moved: "view changed", Broken: "broken"}

func (s Status) String() string {
	if s >= Committed && s < statusEnd {
		return statusNames[s]
	}
	return "unknown"
}

// This file is what a NIC does for the records of its own shard, and its log: steps 2, 4, 5 and 6 of §4.2.

// execute locks what is written and reads all (step 2). Without Committed nothing is locked by it.
func (x *core) execute(f *fiber.Fiber, tx uint64, list []Access) (Status, []Value) {
	n := x.nic
	owner := nicindex.Owner(tx)
	if !n.serves(list) {
		return Moved, nil
	}
	if n.lacks(LockAfterRead) {
		return x.executeLate(f, tx, list)
	}
	// No await until all is locked.
	for _, a := range list {
		if _, _, by := n.index(a.Ref).Version(n.segment(a.Ref), a.Key); by != 0 && by != owner && !n.overlooks(a.Ref) {
			return Locked, nil
		}
	}
	if s := n.lock(tx, list); s != Committed {
		return s, nil
	}
	values, s := x.readAll(f, tx, list)
	if s != Committed {
		n.unlock(tx, written(list))
		return s, nil
	}
	return Committed, values
}

// readAll reads records, those that are not in the cache at the same time: their DMAs share vectors (§4.3.1).
func (x *core) readAll(f *fiber.Fiber, tx uint64, list []Access) ([]Value, Status) {
	n := x.nic
	values, status, pending := make([]Value, len(list)), Committed, 0
	var done fiber.Cond
	take := func(i int, v Value, s Status) {
		if s == Committed && list[i].Insert && !n.fits(list[i].Ref, v.Version) {
			s = NoRoom
		}
		if values[i] = v; status == Committed {
			status = s
		}
	}
	last := -1 // not in the cache
	var looks absences
	for i, a := range list {
		v, s, known := x.cached(tx, a.Ref)
		if !known {
			if v, known = n.absent(a.Ref); known {
				s = Committed
				looks.note(a.Table)
			}
		}
		switch {
		case known:
			take(i, v, s)
		case last >= 0:
			pending++
			n.run(x, func(f *fiber.Fiber) {
				v, s := x.read(f, tx, a.Ref)
				take(i, v, s)
				pending--
				done.Broadcast()
			})
		default:
			last = i
		}
	}
	x.c.Work(f, looks.ps)
	if last >= 0 {
		v, s := x.read(f, tx, list[last].Ref)
		take(last, v, s)
	}
	for pending > 0 {
		if done.Wait(f, 0) != nil {
			return nil, Unstable
		}
	}
	return values, status
}

// cached gives what the NIC knows of a record, or that another transaction has locked it; false: nothing.
func (x *core) cached(tx uint64, r Ref) (Value, Status, bool) {
	switch v, b, o := x.nic.index(r).Read(x.nic.segment(r), r.Key, nicindex.Owner(tx)); o {
	case nicindex.Done:
		return Value{v, append([]byte(nil), b...)}, Committed, true
	case nicindex.Locked:
		if x.nic.overlooks(r) {
			v, _ := x.nic.absent(r)
			return v, Committed, true
		}
		return Value{}, Locked, true
	}
	return Value{}, 0, false
}

// fits reports whether the host's table has room for a record, which it has already unless that is without an entry.
func (n *NIC) fits(ref Ref, v layout.Version) bool {
	r := n.recordsOf(ref)
	return v.Live() || v.Trace() != 0 || r.room == 0 || r.entries+r.inserted < r.room
}

// executeLate is a deliberate bug: locks come behind the reads.
func (x *core) executeLate(f *fiber.Fiber, tx uint64, list []Access) (Status, []Value) {
	values := make([]Value, len(list))
	for i, a := range list {
		v, s := x.read(f, tx, a.Ref)
		if s != Committed {
			return s, nil
		}
		values[i] = v
	}
	_ = f.Sleep(20 * time.Microsecond)
	return x.nic.lock(tx, list), values
}

// lock locks what is written, all or nothing.
func (n *NIC) lock(tx uint64, list []Access) Status {
	for i, a := range list {
		if !a.Write {
			continue
		}
		switch o := n.index(a.Ref).Lock(n.segment(a.Ref), a.Key, nicindex.Owner(tx)); o {
		case nicindex.Done:
			n.claim(tx, a)
		case nicindex.Locked:
			n.unlock(tx, written(list[:i]))
			return Locked
		default:
			n.unlock(tx, written(list[:i]))
			return Full
		}
	}
	return Committed
}

// unlock gives locks of a transaction back; what it has not locked it leaves alone.
func (n *NIC) unlock(tx uint64, list []Ref) {
	for _, r := range list {
		if n.shards[n.cfg.Shard(r)] != nil {
			n.index(r).Unlock(n.segment(r), r.Key, nicindex.Owner(tx))
			n.release(tx, r)
		}
	}
}

// index, segment and recordsOf are of a record whose shard is served here.
func (n *NIC) index(r Ref) *nicindex.Index { return n.shards[n.cfg.Shard(r)].indexes[r.Table] }
func (n *NIC) segment(r Ref) int           { return n.shards[n.cfg.Shard(r)].views[r.Table].Segment(r.Key) }
func (n *NIC) recordsOf(r Ref) *records    { return &n.shards[n.cfg.Shard(r)].records[r.Table] }

func written(list []Access) (r []Ref) {
	for _, a := range list {
		if a.Write {
			r = append(r, a.Ref)
		}
	}
	return r
}

// read gives what a record of the own shard is, from the cache, by the order of its table, or by DMA (§4.1.3), unless another
// transaction has locked it.
func (x *core) read(f *fiber.Fiber, tx uint64, r Ref) (Value, Status) {
	if v, status, ok := x.cached(tx, r); ok {
		return v, status
	}
	if v, ok := x.nic.absent(r); ok {
		x.c.Work(f, keysPs)
		return v, Committed
	}
	return x.fetch(f, tx, r)
}

// fetch is read without the order of the table.
func (x *core) fetch(f *fiber.Fiber, tx uint64, r Ref) (Value, Status) {
	n := x.nic
	index, s := n.index(r), n.segment(r)
	if v, status, ok := x.cached(tx, r); ok {
		return v, status
	}
	n.Stats.Lookups++
	waits := index.BeginRead(s, r.Key) == nicindex.Done
	v, status := x.lookUp(f, r, index, s)
	if waits {
		index.EndRead(s, r.Key, v.Version, v.Bytes, status == Committed && n.cfg.Caching)
	}
	// A commit may have come meanwhile: it is newer.
	if v, status, ok := x.cached(tx, r); ok {
		return v, status
	}
	return v, status
}

// lookUp reads a record of the host's table.
func (x *core) lookUp(f *fiber.Fiber, r Ref, index *nicindex.Index, segment int) (Value, Status) {
	here := x.nic.shards[x.nic.cfg.Shard(r)]
	view := &here.views[r.Table]
	var p robinhood.Probe
	var piece []byte
	hint, known := index.Hint(segment)
	for p.Start(view, r.Key, hint, known); !p.Done(); {
		off, bytes := p.Next()
		piece = make([]byte, bytes)
		var t smartnic.Transfer
		x.c.StartRead(&t, here.memory.RKey(), off, piece)
		if err := t.Await(f); err != nil {
			return Value{}, Unstable
		}
		p.Feed(piece)
	}
	index.LearnHint(segment, p.Hint(), p.Distance())
	switch {
	case p.Err() == robinhood.ErrNotFound:
		return Value{Version: layout.Fresh(here.records[r.Table].deleted)}, Committed
	case p.Err() != nil:
		return Value{}, Unstable
	}
	at, _ := p.Found()
	record := view.Record()
	image := piece[at : at+record.Bytes]
	h := layout.HeadOf(image)
	if !h.Version.Live() {
		return Value{Version: h.Version}, Committed
	}
	return Value{h.Version, append([]byte(nil), record.Value(image, make([]byte, record.Room))...)}, Committed
}

// validate checks that records of the own shard are as they were read, and that no other transaction has locked one
// (step 4).
func (x *core) validate(f *fiber.Fiber, tx uint64, list []Update) Status {
	n := x.nic
	owner := nicindex.Owner(tx)
	for _, u := range list {
		if n.node(u.Ref) != n.cfg.Node || n.at(u.Ref) == nil {
			return Moved
		}
		v, known, by := n.index(u.Ref).Version(n.segment(u.Ref), u.Key)
		if by != 0 && by != owner && !n.lacks(ValidateIgnoresLock) && !n.overlooks(u.Ref) {
			return Locked
		}
		if !known {
			now, s := x.read(f, tx, u.Ref)
			if s == Locked && n.lacks(ValidateIgnoresLock) {
				continue
			}
			if s != Committed {
				return s
			}
			v = now.Version
		}
		if v != u.Version {
			return Changed
		}
	}
	return Committed
}

// Kinds of log records: what the host does with them.
const (
	logBackup log.Type = iota + 1 // keeps them until the transaction is decided, and applies them to a backup then
	logCommit                     // applies them to the primary's tables, and tells the NIC
	logSettle                     // has no updates: what is decided is in it
)

// entry is a record of the log in the host's memory.
//
//	body   0 shard 2 | news: see news | written: count 1, shards of 2 each | updates
type entry struct {
	tx    uint64
	kind  log.Type
	shard int
	// written are all shards that the transaction writes.
	written []int
	updates []Update
	news
}

// append appends an entry to the log in the host's memory, and waits until it is there.
func (x *core) append(f *fiber.Fiber, e *entry) {
	a := x.begin(f, e)
	if x.nic.lacks(LogUnawaited) {
		x.nic.run(x, func(f *fiber.Fiber) { x.finish(f, a) })
		return
	}
	x.finish(f, a)
}

// appending is a record on its way into the log.
type appending struct {
	transfers []*smartnic.Transfer
	there     bool // all of it
	readable  bool // all before it are there, too
}

// finish waits until a record that begin has begun can be read. A log is read in order, so that takes all records before
// it; their DMAs may take longer.
func (x *core) finish(f *fiber.Fiber, a *appending) {
	f.Step(StepSubmitted)
	for _, t := range a.transfers {
		err := t.Await(f)
		invariant.Assert(err == nil, "xenic: the log is not in the host's memory")
	}
	a.there = true
	n := 0
	for n < len(x.appends) && (x.appends[n].there || x.nic.lacks(LogUnordered)) {
		x.appends[n].readable = true
		n++
	}
	if n > 0 {
		x.appends = slices.Delete(x.appends, 0, n)
		x.readable.Broadcast()
	}
	for !a.readable {
		if x.readable.Wait(f, 0) != nil {
			return
		}
	}
}

// begin begins to append; it waits only for room.
func (x *core) begin(f *fiber.Fiber, e *entry) (a *appending) {
	body := (&encoder{}).u16(uint16(e.shard)).news(&e.news).shards(e.written).updates(e.updates).b
	var r log.Reservation
	err := x.log.Reserve(f, &r, 0, len(body))
	invariant.Assert(err == nil, "xenic: a record is longer than the log") // hosts check it
	record := log.Record{Type: e.kind, ID: e.tx, Body: body}
	buffer := make([]byte, x.log.Span(len(body)))
	place, err := x.log.Encode(&r, &record, buffer)
	invariant.Assert(err == nil, "xenic: a record without room")
	a = &appending{}
	x.appends = append(x.appends, a)
	for _, p := range place.Pieces {
		if p.To > p.From {
			t := &smartnic.Transfer{}
			x.c.StartWrite(t, x.nic.cfg.LogMemory.RKey(), x.at+p.Offset, buffer[p.From:p.To])
			a.transfers = append(a.transfers, t)
		}
	}
	return a
}

func (x *core) onExecute(f *fiber.Fiber, from int, d *decoder) {
	tx, list := d.u64(), d.accesses()
	if !x.takes(d, list, nil) {
		return
	}
	status, values := x.execute(f, tx, list)
	x.send(from, msgExecuted, message(tx).u8(uint8(status)).values(values))
}

func (x *core) onValidate(f *fiber.Fiber, from int, d *decoder) {
	tx, list, ranges := d.u64(), d.updates(), d.ranges()
	if !x.takes(d, nil, list) || !x.takesRanges(ranges) {
		return
	}
	status := x.validate(f, tx, list)
	if status == Committed {
		status = x.unchanged(tx, ranges)
	}
	x.send(from, msgValidated, message(tx).u8(uint8(status)))
}

// onLog appends to the log of a backup. The answer goes to the coordinator, who need not be the sender (§4.2.3).
func (x *core) onLog(f *fiber.Fiber, from int, d *decoder) {
	e := entry{tx: d.u64(), kind: logBackup, shard: int(d.u16())}
	to := int(d.u16())
	e.news, e.written, e.updates = d.news(), d.shards(), d.updates()
	echo := d.bytes()
	if !x.takes(d, nil, e.updates) {
		return
	}
	if n := x.nic; e.shard >= n.cfg.Nodes || to >= n.cfg.Nodes || !n.holds[e.shard] ||
		slices.ContainsFunc(e.updates, func(u Update) bool { return u.Version.Live() && len(u.Bytes) == 0 }) {
		n.Stats.Malformed++ // of a shard without a replica here, or without its value
		return
	}
	x.append(f, &e)
	if x.nic.lacks(AnswerExecutor) {
		to = from
	}
	answer := message(e.tx).u16(uint16(e.shard)).bytes(echo)
	if to == x.nic.cfg.Node { // it is the coordinator itself
		if t := x.txs[e.tx]; t != nil {
			t.answer(msgLogged, to, &decoder{b: answer.b[8:]})
		}
		return
	}
	x.send(to, msgLogged, answer)
}
