package occ

import (
	"encoding/binary"
	"slices"

	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ring"
	"drtmd/verbs/rpc"
)

// acquireHere reads or locks a record of the own machine, for whoever word is. dst takes its value, if
// flagRead asks for it; x what is there.
func (e *Engine) acquireHere(f *fiber.Fiber, s *share, i *item, word onesided.Word, dst []byte) (x found, c code) {
	if i.flags&flagLock == 0 {
		return e.readHere(f, s, i, dst)
	}
	if i.at != 0 && i.flags&flagRead == 0 && e.Worded() {
		// EXECUTE has found the place: the lock tells whether it is still the key's.
		x.off = i.at
		step(f, stepFound)
		if c = e.lockRecord(s, &x, i.table, i.key, word); c != busy {
			return e.lockedHere(s, i, x, c, word)
		}
	}
	x, ok := e.find(s, i)
	if !ok {
		return x, busy
	}
	if x.off == 0 {
		off, c := e.EnsureAt(s, i.table, i.key)
		switch c {
		case onesided.Done:
			x.off = off
		case onesided.Full:
			return x, full
		default:
			return x, busy
		}
	}
	early := e.lacks(valueFirst) && i.flags&flagRead != 0
	if early && !e.copyOut(f, s, i, &x, dst) {
		return x, busy
	}
	step(f, stepFound)
	if x, c = e.lockedHere(s, i, x, e.lockRecord(s, &x, i.table, i.key, word), word); c != done {
		return x, c
	}
	if i.flags&flagRead != 0 && x.present == layout.Live && !early {
		e.copyHeld(s, i.table, &x, dst)
	}
	return x, done
}

// lockedHere compares the version of a record of which c says whether it was locked, if that is asked for.
func (e *Engine) lockedHere(s *share, i *item, x found, c code, word onesided.Word) (found, code) {
	if c == done && i.flags&flagCompare != 0 && !e.lacks(anyVersion) &&
		!(e.dateAbsence(s, i.table, &x) && e.same(&x, i.version)) {
		e.releaseHere(nil, s, &item{table: i.table, key: i.key}, word)
		c = changed
	}
	return x, c
}

// readHere reads a record of the own machine that must not be locked.
func (e *Engine) readHere(f *fiber.Fiber, s *share, i *item, dst []byte) (x found, c code) {
	ok := true
	off, there := int(i.at), i.at != 0 && onesided.KeyOf(s.Memory, i.at) == uint64(i.key)
	if !there {
		off, there = s.Tables[i.table-1].Find(uint64(i.key))
	}
	if there && onesided.VersionOf(s.Memory, uint64(off)).Live() {
		x.off = uint64(off)
	} else if x, ok = e.find(s, i); ok && x.off == 0 {
		return x, done
	}
	if !ok || !e.copyOut(f, s, i, &x, dst) || !e.dateAbsence(s, i.table, &x) {
		return x, busy
	}
	return x, e.readable(&x)
}

// readable says what becomes of a read that has found this.
func (e *Engine) readable(x *found) code {
	if s := onesided.Word(x.head.State); s != onesided.Unlocked && (isLowered(s) || !e.lacks(lockIgnored)) {
		return locked
	}
	return done
}

// copyHeld copies the value of a record that the caller has locked: nobody changes it.
func (e *Engine) copyHeld(s *share, t proto.TableID, x *found, dst []byte) {
	m, skip := s.Memory, 0
	at := int(x.off) + layout.ValueOffset
	for n := 0; n < len(dst); {
		end := min(n+layout.LineBytes-at%layout.LineBytes, len(dst))
		if e.Worded() {
			copy(dst[n:end], m.Bytes[at:])
		}
		for i := n; i < end && !e.Worded(); i += 8 {
			var w [8]byte
			binary.NativeEndian.PutUint64(w[:], onesided.WordAt(m, uint64(at+i-n)))
			copy(dst[i:end], w[:])
		}
		skip, _ = furtherLines(s, t)
		at, n = (at|(layout.LineBytes-1))+1+skip, end
	}
}

// validateHere compares a record of the own machine with what was read of it.
func (e *Engine) validateHere(s *share, i *item) (x found, c code) {
	x, ok := e.find(s, i)
	switch {
	case !ok:
		return x, busy
	case !i.version.Live() && e.lacks(absentUnvalidated):
		return x, done
	case onesided.Word(x.head.State) != onesided.Unlocked && x.off != 0 && !e.lacks(lockUnseen):
		return x, locked
	case !e.same(&x, i.version):
		return x, changed
	}
	return x, done
}

// serve registers what the host does for others. It runs at once, on whichever worker the peer calls.
func (e *Engine) serve() {
	for _, typ := range [...]rpc.Type{TypeAcquire, TypeValidate, TypeRelease} {
		e.Env.Port.HandleFrom(typ, func(_ *rpc.Caller, req, resp []byte) (int, error) { return e.serveItems(typ, req, resp) })
		e.handlePacked(typ, func(c *rpc.Caller, req, resp []byte) ([]byte, error) { return e.servePacked(c, typ, req, resp) })
		if e.rings != nil {
			e.rings.Handle(typ, func(_ *ring.Caller, req, resp []byte) (int, error) {
				return e.serveItems(typ, req, resp)
			})
		}
	}
}

// serveItems serves a request in the form of wire.go.
func (e *Engine) serveItems(typ rpc.Type, req, resp []byte) (int, error) {
	if len(req) < wordBytes || len(resp) < headBytes {
		return 0, errRequest
	}
	in := items{rest: req[wordBytes:], specs: e.Env.Specs}
	h, resp, err := e.serveEach(typ, onesided.Word(le.Uint64(req)), in, resp[:headBytes:len(resp)])
	if err != nil {
		return 0, err
	}
	h.put(resp)
	return len(resp), nil
}

// servePacked serves a compact request, and appends the answer to resp.
func (e *Engine) servePacked(c *rpc.Caller, typ rpc.Type, req, resp []byte) ([]byte, error) {
	s := scan{b: req, ok: true}
	word := onesided.WordOf(c, uint32(s.short()))
	if !s.ok || cap(resp) == 0 {
		return nil, errRequest
	}
	in := items{rest: s.b, specs: e.Env.Specs, packed: true}
	h, resp, err := e.serveEach(typ, word, in, resp[:1])
	if err != nil {
		return nil, err
	}
	if resp[0] = byte(h.code); !h.plain() {
		resp = packHead(resp[:0], &h) // of release, or of a refusal: no items follow
	}
	return resp, nil
}

// serveEach serves every item of a request until one is refused, and appends the answers to resp, which has room for
// their head.
func (e *Engine) serveEach(typ rpc.Type, word onesided.Word, in items, resp []byte) (head, []byte, error) {
	h, begin, all := head{code: done}, len(resp), in
	var i item
	for index := 0; len(in.rest) > 0; index++ {
		if !in.next(&i) {
			return h, nil, errRequest
		}
		if index == 0 && !in.packed { // of compact requests lookUpRequests has asked for all of a datagram
			e.prefetchItems(in)
		}
		s, serves := e.shareOf(i.table, i.key)
		if s == nil && e.view == nil {
			return h, nil, errRequest
		}
		e.servedLookUp(s, i.table, i.key)
		var x found
		var c code
		switch {
		case s == nil || !serves && typ != TypeRelease:
			c = moved
		case typ == TypeAcquire:
			resp, x, c = e.serveAcquire(s, &i, word, resp, in.packed)
		case typ == TypeValidate:
			x, c = e.validateHere(s, &i)
		default:
			c = e.releaseHere(nil, s, &i, word)
		}
		if c == done {
			continue
		}
		h = head{code: c, index: index, state: onesided.Word(x.head.State), version: x.head.Version, off: x.off}
		if c == notHeld {
			continue // what else is held is given back
		}
		e.takeBack(all, index, word)
		return h, resp[:begin], nil
	}
	return h, resp, nil
}

// prefetchItems asks for what the look-ups of items behind the first one read first, before that is served: the processor
// overlaps their cache misses (Dandelion §6).
func (e *Engine) prefetchItems(in items) {
	var i item
	for len(in.rest) > 0 && in.next(&i) {
		if s, _ := e.shareOf(i.table, i.key); s != nil {
			e.prefetch(s, i.table, i.key)
		}
	}
}

// takeBack unlocks what a request has locked before it was refused an item.
func (e *Engine) takeBack(in items, n int, word onesided.Word) {
	var i item
	for range n {
		in.next(&i)
		if i.flags&flagLock != 0 {
			i.flags = 0
			s, _ := e.shareOf(i.table, i.key)
			e.releaseHere(nil, s, &i, word)
		}
	}
}

// serveAcquire reads or locks a record, and appends the answer of its item.
func (e *Engine) serveAcquire(s *share, i *item, word onesided.Word, resp []byte, packed bool) ([]byte, found, code) {
	size := 0
	if i.flags&flagRead != 0 {
		size = e.Env.Specs[i.table-1].ValueBytes
	}
	at := len(resp)
	if cap(resp)-at < answerRoom(size, packed) {
		return resp, found{}, busy
	}
	if packed {
		e.value = slices.Grow(e.value[:0], size)[:size]
		x, c := e.acquireHere(nil, s, i, word, e.value)
		return append(putOffset(putVersion(resp, x.version()), x.off), e.value...), x, c
	}
	resp = resp[:at+answerBytes+padded(size)]
	x, c := e.acquireHere(nil, s, i, word, resp[at+answerBytes:][:size])
	le.PutUint64(resp[at:], uint64(x.version()))
	le.PutUint64(resp[at+8:], x.off)
	return resp, x, c
}
