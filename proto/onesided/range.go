package onesided

import (
	"encoding/binary"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/proto/txset"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Ranges of ordered tables. Their trees are their host's, and peers call it (DrTM §7.5).
//
// A scan finds keys and places in a region of the host's, and its records are locked, leased or validated like
// others, absent ones included. When that has been done the commit has the host look at the range again
// (CheckRanges): if it has an entry for the same keys, no other record can have been there at that moment,
// because an insertion makes its entry before it takes effect. The transaction's own new entries count as well.
// With several ranges the moments differ, so the counter that grows when an entry of a deleted record was given
// back has to be as it was when the scan began: then no record has come and gone in between.

// Types of the requests about ordered tables.
const (
	TypeFind  rpc.Type = 0x43 // where the entry of a key is, if there is one
	TypeKeys  rpc.Type = 0x44 // the first keys of a range
	TypeCheck rpc.Type = 0x45 // whether a range has the same keys as before
)

// A request is table 2 | zero 6 | first key 8 | last key 8, and of TypeKeys how many keys 8 | whether it is to be
// said which are live 8; of TypeCheck number of keys 8 | sum of their hashes 8 | stamp 8, 0: any. An answer is
// code 8 | stamp 8 | number of keys 8 | bit i: key i is live 8, and a key 8 and its place 8 for each.
// Little endian.
const (
	keysRequestBytes  = 40
	checkRequestBytes = 48
	keysAnswerBytes   = 32
	pairBytes         = 16
	// mostKeys of one request.
	mostKeys = 32
	// peekAhead is how many more entries than wanted a peek looks at: some may be of deleted records.
	peekAhead = 3
)

// ServeRanges registers what peers ask about ordered tables. share is the replica that serves a key; nil: none.
func (b *Base) ServeRanges(share func(proto.TableID, proto.Key) *protocol.Share) {
	b.Serve(TypeFind, func(t proto.TableID, k proto.Key, _ uint64) (uint64, Code) {
		x, ok := ordered(share(t, k), t)
		if !ok {
			return 0, Busy
		}
		var at int
		var found bool
		c := b.looks(func(r *htm.Region) (ok bool) {
			at, found, ok = x.FindIn(r, uint64(k))
			return ok
		})
		if c == Done && !found {
			c = Kept
		}
		return uint64(at), c
	})
	le := binary.LittleEndian
	var list [mostKeys]pair
	b.Env.Port.Handle(TypeKeys, func(req, resp []byte) (int, error) {
		t, low, high, err := b.rangeOf(req, keysRequestBytes)
		if err != nil {
			return 0, err
		}
		most := le.Uint64(req[24:])
		if most == 0 || most > mostKeys || len(resp) < keysAnswerBytes+int(most)*pairBytes {
			return 0, errRequest
		}
		peek := le.Uint64(req[32:]) != 0
		n, live, stamp, c := b.keysAt(share(t, low), t, low, high, peek, list[:most])
		if c == Done && !peek && b.Tombstone != nil {
			b.tombstones(share(t, low), t, list[:n])
		}
		for i, w := range [...]uint64{uint64(c), stamp, uint64(n), live} {
			le.PutUint64(resp[8*i:], w)
		}
		for i, p := range list[:n] {
			le.PutUint64(resp[keysAnswerBytes+i*pairBytes:], p.key)
			le.PutUint64(resp[keysAnswerBytes+i*pairBytes+8:], p.place)
		}
		return keysAnswerBytes + n*pairBytes, nil
	})
	b.Env.Port.Handle(TypeCheck, func(req, resp []byte) (int, error) {
		t, low, high, err := b.rangeOf(req, checkRequestBytes)
		if err != nil || len(resp) < 8 {
			return 0, errRequest
		}
		c := b.checkAt(share(t, low), t, low, high, le.Uint64(req[24:]), le.Uint64(req[32:]), le.Uint64(req[40:]))
		le.PutUint64(resp, uint64(c))
		return 8, nil
	})
}

// tombstones tells the protocol of entries of absent records.
func (b *Base) tombstones(s *protocol.Share, t proto.TableID, list []pair) {
	for _, p := range list {
		if m, off := s.Tables[t-1].At(int(p.place)); !VersionOf(m, uint64(off)).Live() {
			b.Tombstone(t, proto.Key(p.key), p.place)
		}
	}
}

// rangeOf decodes what the requests have in common.
func (b *Base) rangeOf(req []byte, size int) (t proto.TableID, first, last proto.Key, err error) {
	if len(req) != size {
		return 0, 0, 0, errRequest
	}
	t = proto.TableID(binary.LittleEndian.Uint16(req))
	if uint(t)-1 >= uint(len(b.Env.Specs)) {
		return 0, 0, 0, errRequest
	}
	return t, proto.Key(binary.LittleEndian.Uint64(req[8:])), proto.Key(binary.LittleEndian.Uint64(req[16:])), nil
}

// OwnShare is the share that ServeRanges needs where there are no backups.
func (b *Base) OwnShare(proto.TableID, proto.Key) *protocol.Share { return b.Env.Shares[b.Env.Node] }

// rangeCall is a call about a range. It does not move while it runs.
type rangeCall struct {
	rpc.Call
	node proto.NodeID
	err  error
	n    int
	req  [checkRequestBytes]byte
	resp [keysAnswerBytes + mostKeys*pairBytes]byte
}

// startRange starts a call.
func (t *Tx) startRange(c *rangeCall, n proto.NodeID, typ rpc.Type, table proto.TableID, words ...uint64) {
	le := binary.LittleEndian
	clear(c.req[:8])
	le.PutUint16(c.req[:], uint16(table))
	for i, w := range words {
		le.PutUint64(c.req[8+8*i:], w)
	}
	size := 8 + 8*len(words)
	c.node, c.err = n, rpc.ErrClosed
	if s := t.base.Env.Peers[n].Session; s != nil { // else it has not been met yet
		c.err = s.Start(t.F, &c.Call, typ, c.req[:size], c.resp[:])
	}
}

// awaitRange waits for the answer to a call, of at least so many bytes.
func (t *Tx) awaitRange(c *rangeCall, least int) (Code, error) {
	if c.err == nil {
		c.n, c.err = c.Await(t.F, 0)
	}
	switch {
	case c.err != nil:
		return 0, t.UnreachableAt(c.node, c.err)
	case c.n < least:
		return 0, errAnswer
	}
	return Code(binary.LittleEndian.Uint64(c.resp[:])), nil
}

// places are keys of a range with their places, as a host has said.
type places struct {
	table proto.TableID
	at    proto.Location
	to    proto.Key
	list  [mostKeys]pair
	n     int
	next  int  // of list, that nobody has asked for
	last  int  // of list, of which the place was asked for last
	all   bool // the range has no further keys
}

// of is the place of a key.
func (p *places) of(r *Record) (off uint64, ok bool) {
	if r.Table != p.table || r.Node != p.at.Primary {
		return 0, false
	}
	for range p.n { // they are mostly asked for in their order
		if p.last++; p.last >= p.n {
			p.last = 0
		}
		if x := &p.list[p.last]; x.key == uint64(r.Key) && x.place != 0 {
			return x.place, true
		}
	}
	return 0, false
}

// forget is told that a place is out of date.
func (p *places) forget(r *Record) {
	for i := range p.list[:p.n] {
		if r.Table == p.table && p.list[i].key == uint64(r.Key) {
			p.list[i].place = 0
		}
	}
}

// Keys implements txset.Scanner. A host is asked for more keys than are wanted now.
func (t *Tx) Keys(table proto.TableID, at proto.Location, from, to proto.Key, keys []proto.Key) (n int, err error) {
	p := &t.places
	ahead := p.n - p.next
	if at.Primary == t.base.Env.Node || p.table != table || p.at.Primary != at.Primary || p.to != to || ahead == 0 ||
		t.Stamp == 0 || !p.follows(from, to) || ahead < len(keys) && !p.all {
		most := mostKeys
		if at.Primary == t.base.Env.Node {
			most = len(keys)
		}
		stamp, _, err := t.fetch(table, at, from, to, most, false)
		if err != nil {
			return 0, err
		}
		if t.Stamp == 0 {
			t.Stamp = stamp
		}
	}
	for n < len(keys) && p.next < p.n {
		keys[n] = proto.Key(p.list[p.next].key)
		n++
		p.next++
	}
	return n, nil
}

// KeysIn is Keys in a region of the transaction, for a table of the own machine: what it has seen of the table is
// in the read set. ok is false if the region has aborted.
func (t *Tx) KeysIn(r *htm.Region, table proto.TableID, at proto.Location, from, to proto.Key,
	keys []proto.Key) (n int, ok bool) {
	b, p, w := t.base, &t.places, &t.base.walk
	x, _ := ordered(b.Env.Shares[at.Shard], table)
	if !b.Worded() && t.Stamp == 0 { // a region protects what it has seen, but not without line words
		v, ok := x.AbsentIn(r)
		if !ok {
			return 0, false
		}
		t.Stamp = uint64(v) + 1
	}
	w.list, w.n = p.list[:len(keys)], 0
	p.table, p.at, p.to, p.n, p.next, p.last = table, at, to, 0, 0, -1
	if !x.Scan(r, uint64(from), uint64(to), w.take) {
		return 0, false
	}
	p.n, p.next, p.all = w.n, w.n, w.n < len(keys)
	for i := range keys[:w.n] {
		keys[i] = proto.Key(p.list[i].key)
	}
	return w.n, true
}

// Place gives a record that a scan has found the place of its entry.
func (t *Tx) Place(r *Record) {
	if off, ok := t.places.of(r); ok {
		r.Own.Off, r.Own.Found = off, true
	}
}

// follows reports whether the keys that nobody has asked for are the first ones from a key on.
func (p *places) follows(from, to proto.Key) bool {
	if p.next == 0 {
		return false
	}
	last := proto.Key(p.list[p.next-1].key)
	return from <= to && last < from && from-last == 1 || from > to && last-from == 1
}

// fetch fills places with the first keys of a range, and says which of them are live, if that is wanted.
func (t *Tx) fetch(table proto.TableID, at proto.Location, from, to proto.Key, most int, lives bool) (stamp,
	live uint64, err error) {
	b, p, c := t.base, &t.places, Done
	p.table, p.at, p.to, p.n, p.next, p.last = table, at, to, 0, 0, -1
	if at.Primary == b.Env.Node {
		b.charge(t, b.Costs.Find*int64(1+mostOf(most, lives)/layout.LeafPairs))
		p.n, live, stamp, c = b.keysAt(b.Env.Shares[at.Shard], table, from, to, lives, p.list[:most])
	} else if stamp, live, c, err = t.fetchThere(table, at, from, to, most, lives); err != nil {
		return 0, 0, err
	}
	p.all = p.n < most
	if c != Done {
		return 0, 0, proto.Aborting(proto.ReasonConflict)
	}
	return stamp, live, nil
}

// mostOf is of how many keys a look is charged: a peek always as for a call.
func mostOf(most int, peeks bool) int {
	if peeks {
		return mostKeys
	}
	return most
}

func (t *Tx) fetchThere(table proto.TableID, at proto.Location, from, to proto.Key, most int, lives bool) (stamp,
	live uint64, code Code, err error) {
	was := t.F.Shield()
	defer t.F.Unshield(was)
	c, p, le := t.rangeCall(0), &t.places, binary.LittleEndian
	wanted := uint64(0)
	if lives {
		wanted = 1
	}
	t.startRange(c, at.Primary, TypeKeys, table, uint64(from), uint64(to), uint64(most), wanted)
	if code, err = t.awaitRange(c, keysAnswerBytes); err != nil || code != Done {
		return 0, 0, code, err
	}
	n := le.Uint64(c.resp[16:])
	if n > uint64(most) || c.n < keysAnswerBytes+int(n)*pairBytes {
		return 0, 0, 0, errAnswer
	}
	there := t.base.Env.Peers[at.Primary].Shares[at.Shard].Tables[table-1]
	for i := range p.list[:n] {
		pair := c.resp[keysAnswerBytes+i*pairBytes:]
		p.list[i].key, p.list[i].place = le.Uint64(pair), le.Uint64(pair[8:])
		if !there.Entry(p.list[i].place) {
			p.list[i].place = 0 // of another extent, or of no record: it is looked up
		}
	}
	p.n = int(n)
	return le.Uint64(c.resp[8:]), le.Uint64(c.resp[24:]), Done, nil
}

// rangeCall is call i of the transaction.
func (t *Tx) rangeCall(i int) *rangeCall {
	for i >= len(t.rangeCalls) {
		t.rangeCalls = append(t.rangeCalls, new(rangeCall))
	}
	return t.rangeCalls[i]
}

// CheckRanges is an abort if one of the ranges that the transaction has scanned may have other keys now. All
// records of the transaction are locked, leased, or about to be validated.
func (t *Tx) CheckRanges() error {
	if len(t.Ranges) == 0 || t.base.Skips(RangeCheck) {
		return nil
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	b, n := t.base, 0
	for i := range t.Ranges {
		r := &t.Ranges[i]
		keys, sum, same := t.sumOf(r)
		if !same {
			t.awaitRanges(n)
			return proto.Aborting(proto.ReasonValidation)
		}
		if r.At.Primary == b.Env.Node {
			continue
		}
		t.startRange(t.rangeCall(n), r.At.Primary, TypeCheck, r.Table, uint64(r.Low), uint64(r.High), keys, sum,
			t.stampOf(r))
		n++
	}
	code := Done
	for i := range t.Ranges {
		if r := &t.Ranges[i]; r.At.Primary == b.Env.Node {
			keys, sum, _ := t.sumOf(r)
			b.charge(t, b.Costs.Find*int64(1+keys/layout.LeafPairs))
			code = max(code, b.checkAt(b.Env.Shares[r.At.Shard], r.Table, r.Low, r.High, keys, sum, t.stampOf(r)))
		}
	}
	answered, err := t.awaitRanges(n)
	if err == nil && max(code, answered) != Done {
		err = proto.Aborting(proto.ReasonValidation)
	}
	return err
}

// awaitRanges waits for the answers to the first calls, and gives the greatest.
func (t *Tx) awaitRanges(n int) (code Code, err error) {
	for _, c := range t.rangeCalls[:n] {
		answer, failed := t.awaitRange(c, 8)
		err, code = worse(err, failed), max(code, answer)
	}
	return code, err
}

// stampOf is the stamp that a range has to have still; 0: any.
func (t *Tx) stampOf(r *txset.Range) uint64 {
	if len(t.Ranges) == 1 || t.base.Skips(RangeStamp) {
		return 0
	}
	return r.Stamp
}

// sumOf is how many entries a range has to have, and the sum of the hashes of their keys. It is not the same
// any more if the transaction itself has met a record there that its scan has not seen.
func (t *Tx) sumOf(r *txset.Range) (keys, sum uint64, same bool) {
	were := 0
	for i := range t.Records {
		x := &t.Records[i]
		if x.Table != r.Table || x.Key < r.Low || x.Key > r.High {
			continue
		}
		if x.Was {
			were++
		}
		if x.Own.Found {
			keys++
			sum += layout.Hash(uint64(x.Key))
		}
	}
	return keys, sum, were == r.Seen
}

// PeekRange reads which records there are in a range, outside of any transaction, with a transaction object that
// is free: the keys of the first ones. It proves nothing.
func (t *Tx) PeekRange(f *fiber.Fiber, table proto.TableID, from, to proto.Key, keys []proto.Key) (n int,
	err error) {
	defer func() { t.F = nil }()
	t.F, t.Records = f, t.Records[:0]
	at, err := t.Range(table, from, to)
	if err != nil {
		return 0, err
	}
	for p := &t.places; n < len(keys); {
		most := mostKeys
		if at.Primary == t.base.Env.Node { // each is looked at; a call gets them all at once
			most = min(most, len(keys)-n+peekAhead)
		}
		_, live, err := t.fetch(table, at, from, to, most, true)
		if err != nil {
			return 0, err
		}
		for i := range p.list[:p.n] {
			if live>>i&1 == 1 && n < len(keys) {
				keys[n] = proto.Key(p.list[i].key)
				n++
			}
		}
		if p.all || p.list[p.n-1].key == uint64(to) {
			break
		}
		if last := proto.Key(p.list[p.n-1].key); from <= to {
			from = last + 1
		} else {
			from = last - 1
		}
	}
	return n, nil
}
