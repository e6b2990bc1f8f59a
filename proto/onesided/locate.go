package onesided

import (
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs/rpc"
)

// Locate finds the entries of the records from index from to before index to that have no place yet:
// in the own machine's tables, or by READs of the peers' buckets, all in flight together. Hosts make
// absent entries for keys that have none.
func (t *Tx) Locate(from, to int) error {
	missing, err := t.look(from, to, true, remote.Proved)
	if err != nil || missing == 0 {
		return err
	}
	if t.base.Made == nil { // what is made has to be known
		was := t.F.Shield()
		defer t.F.Unshield(was)
	}
	return t.ensure(from, to)
}

// Look is Locate for records that nothing is made for, and counts those that have no entry: their absence
// is of a moment during the call, if it is to be proved.
func (t *Tx) Look(from, to int, a remote.Absence) (missing int, err error) {
	return t.look(from, to, true, a)
}

// Ensure has the hosts make entries for the records that Look has not found.
func (t *Tx) Ensure(from, to int) error { return t.ensure(from, to) }

// look finds the entries that there are, and counts the records without one.
func (t *Tx) look(from, to int, marked bool, a remote.Absence) (missing int, err error) {
	b := t.base
	t.lookups.Reset()
	t.asked, t.Sent = 0, proto.Traffic{}
	cache := b.Env.Cache
	if b.Uncached {
		cache = nil
	}
	for i := from; i < to; i++ {
		r := &t.Records[i]
		o, p := &r.Own, b.peer(r)
		o.Op = -1
		if o.Local || o.Found {
			continue
		}
		if err := p.Conn.Err(); err != nil { // nothing is asked of a broken queue pair
			_, _ = t.found() // calls to other hosts are under way
			return 0, b.unreachableAt(r.Node, err)
		}
		ordered := b.Env.Specs[r.Table-1].Ordered
		if ordered {
			if off, ok := t.places.of(r); ok {
				o.Off, o.Found = off, true
				continue
			}
		}
		switch {
		case r.Node == b.Env.Node:
			b.charge(t, b.Costs.Find)
			off, found := b.Here(r).Tables[r.Table-1].Find(uint64(r.Key))
			if o.Off, o.Found = uint64(off), found; !found {
				missing++
			} else {
				b.prefetch(r)
			}
		case o.Ask:
			missing++
		case ordered:
			t.ask(TypeFind, i, 0)
		default:
			o.Op = t.lookups.AddFor(p.Conn, b.There(r).Tables[r.Table-1], uint64(r.Key), cache, a)
		}
	}
	n := t.lookups.Len()
	if n == 0 && t.asked == 0 {
		return missing, nil
	}
	if marked {
		t.step(b.Steps.Lookup)
		b.charge(t, b.Costs.Lookup*int64(n+t.asked))
	}
	asked, err := t.found()
	missing += asked
	if n == 0 {
		return missing, err
	}
	_ = t.lookups.Await(t.F) // each has its own error
	if err != nil {
		return 0, err
	}
	for i := from; i < to; i++ {
		r := &t.Records[i]
		if r.Own.Op < 0 {
			continue
		}
		b.Counters.Lookups++
		reads := uint64(t.lookups.Reads(r.Own.Op))
		if reads == 0 {
			b.Counters.CacheHits++
		}
		t.Sent.Requests += reads
		t.Sent.Bytes += uint64(t.lookups.Bytes(r.Own.Op))
		t.Sent.Trips = max(t.Sent.Trips, uint64(t.lookups.Trips(r.Own.Op)))
		found, err := t.lookups.Result(r.Own.Op)
		switch {
		case err == nil:
			r.Own.Off, r.Own.Found = found.Off, true
			r.Own.Fetched = copy(r.Image, t.lookups.Image(r.Own.Op)) > 0
		case errors.Is(err, remote.ErrNotFound):
			missing++
		case errors.Is(err, remote.ErrUnstable):
			return 0, errStale
		default:
			return 0, t.Unreachable(r, err)
		}
	}
	return missing, nil
}

// prefetch brings the first line of an own record, which the requests for it read next, and the line's word into the
// caches: the misses of several records overlap.
func (b *Base) prefetch(r *Record) {
	if b.Worded() {
		m, off := b.Memory(r)
		m.Prefetch(off/layout.LineBytes, 1)
	}
}

// found takes the answers of hosts about records of ordered tables, and counts those that have no entry.
func (t *Tx) found() (missing int, err error) {
	was := t.F.Shield() // a call that is under way has to end before its buffers are used again
	defer t.F.Unshield(was)
	t.await()
	for _, c := range t.calls[:t.asked] {
		t.base.Counters.Lookups++
		r := &t.Records[c.record]
		off, code, failed := c.answer()
		switch {
		case failed != nil:
			err = worse(err, t.Unreachable(r, failed))
		case code == Kept:
			missing++
		case code == Done && t.known(r, off):
			r.Own.Off, r.Own.Found = off, true
		default:
			err = worse(err, proto.Aborting(proto.ReasonConflict))
		}
	}
	return missing, err
}

// known reports whether a place that a host has named is one of the record's table. The table may have grown.
func (t *Tx) known(r *Record, off uint64) bool {
	there := t.base.There(r).Tables[r.Table-1]
	if !there.Entry(off) && !layout.InFirst(off) && there.Grows() {
		_, _, _ = t.base.client.Lookup(t.F, t.base.peer(r).Conn, there, uint64(r.Key), nil) // learns its extents
	}
	return there.Entry(off)
}

// ensure has the hosts make entries for the records that have none. All answers are taken, also after
// an error, so that it is known what was made.
func (t *Tx) ensure(from, to int) (err error) {
	b := t.base
	t.asked, t.Sent = 0, proto.Traffic{}
	for i := from; i < to; i++ {
		r := &t.Records[i]
		switch {
		case r.Own.Local || r.Own.Found:
		case r.Node == b.Env.Node:
			b.charge(t, b.Costs.Find)
			off, c := t.EnsureHere(r)
			err = worse(err, t.ensured(r, off, c))
		default:
			t.ask(TypeEnsure, i, 0)
		}
	}
	if t.asked > 0 {
		t.step(b.Steps.Ensure)
	}
	t.await()
	for _, c := range t.calls[:t.asked] {
		r := &t.Records[c.record]
		off, code, failed := c.answer()
		if failed != nil {
			err = worse(err, t.Unreachable(r, failed))
			continue
		}
		if code == Done && !b.There(r).Tables[r.Table-1].Entry(off) {
			code = Busy // no place of this table, or of an extent that a look-up will find
		}
		err = worse(err, t.ensured(r, off, code))
	}
	return err
}

// ensured takes a host's answer.
func (t *Tx) ensured(r *Record, off uint64, c Code) error {
	if c == Done {
		r.Own.Off, r.Own.Found, r.Own.Ensured = off, true, true
	}
	return t.base.abortOf(c)
}

// Reclaim has the hosts of other machines give entries back, all at once: those of the records for
// which which says so, and with which state word. done is told what each has answered.
func (t *Tx) Reclaim(which func(*Record) (word uint64, ok bool), done func(*Record, Code)) {
	t.asked, t.Sent = 0, proto.Traffic{}
	for i := range t.Records {
		if word, ok := which(&t.Records[i]); ok {
			t.ask(TypeReclaim, i, word)
		}
	}
	t.await()
	for _, c := range t.calls[:t.asked] {
		if _, code, err := c.answer(); err == nil {
			done(&t.Records[c.record], code)
		}
	}
}

// Forget tells the host of a record that nobody needs its absent entry any more. Nothing depends on
// it.
func (t *Tx) Forget(i int) {
	t.asked = 0
	t.ask(TypeForget, i, 0)
	t.await()
}

// Drop forgets a record's place, which was out of date.
func (t *Tx) Drop(r *Record) {
	r.Own.Found = false
	b := t.base
	if b.Env.Specs[r.Table-1].Ordered {
		t.places.forget(r)
		return
	}
	if r.Node != b.Env.Node && !b.Skips(DropStale) {
		b.client.Invalidate(b.There(r).Tables[r.Table-1], uint64(r.Key), b.Env.Cache)
	}
}

// call is a request to a record's host. It does not move while it runs.
type call struct {
	rpc.Call
	record int
	err    error
	req    [requestBytes]byte
	resp   [responseBytes]byte
}

// ask starts the call for record i.
func (t *Tx) ask(typ rpc.Type, i int, word uint64) {
	if t.asked == len(t.calls) {
		t.calls = append(t.calls, new(call))
	}
	c, r := t.calls[t.asked], &t.Records[i]
	c.record = i
	n := encodeRequest(&c.req, typ, r.Table, r.Key, word)
	t.asked++
	s := t.base.peer(r).Session
	if s == nil { // it has not been met yet
		c.err = rpc.ErrClosed
		return
	}
	c.err = s.Start(t.F, &c.Call, typ, c.req[:n], c.resp[:])
	t.Sent.Add(proto.Traffic{Requests: 1, Bytes: uint64(n) + responseBytes})
	t.Sent.Trips = 1
}

// await waits for the calls that were started.
func (t *Tx) await() {
	for _, c := range t.calls[:t.asked] {
		if c.err == nil {
			_, c.err = c.Await(t.F, 0)
		}
	}
}

// answer decodes the response.
func (c *call) answer() (off uint64, code Code, err error) {
	if c.err != nil {
		return 0, 0, c.err
	}
	if n, _ := c.Result(); n != responseBytes {
		return 0, 0, errAnswer
	}
	return binary.LittleEndian.Uint64(c.resp[8:]), Code(binary.LittleEndian.Uint64(c.resp[:])), nil
}

// step marks a step.
func (t *Tx) step(name string) {
	if name != "" {
		t.F.Step(name)
	}
}

// charge charges modelled CPU time.
func (b *Base) charge(t *Tx, ps int64) {
	if ps > 0 {
		t.F.Charge(ps)
	}
}

// worse is the error of two that ends the attempt: a transaction that cannot go on is given up, and
// a place that is out of date is what is the least.
func worse(a, b error) error {
	switch {
	case a == nil || a == errStale && b != nil:
		return b
	case b != nil && proto.AbortReason(a).Retry() && !proto.AbortReason(b).Retry():
		return b
	}
	return a
}

// Misplaced is the abort of a record whose place leads to an entry that is not the key's. The place is
// forgotten.
func (t *Tx) Misplaced(r *Record) error {
	t.Drop(r)
	return errStale
}

// errStale is the abort of a place that was out of date.
var errStale = proto.Aborting(proto.ReasonStale)

// IsStale reports whether places that were out of date are all that was in the way.
func IsStale(err error) bool { return err == errStale }
