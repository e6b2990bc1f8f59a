package check

import (
	"fmt"
	"strings"

	"drtmd/proto/history"
)

// Additions commute: versions tell in which order they were made, and the order of their transactions does not follow
// from that. An addition comes behind the writes and reads of versions before the last write or read, and before the
// next ones. So a key with additions has levels, of writers and readers in turn: a write alone, additions between which
// there is no write and no read, or the readers of a version. Each of a level comes before each of the next.

// level of a key. at are positions among the key's ops.
type level struct {
	at          []uint32
	reads, adds bool
}

// addAddition takes in an addition, and the digest of what it was made to.
func (c *checker) addAddition(o *history.Op, t uint32, lastWrite []uint32) []uint32 {
	c.additions = true
	base := *o
	base.Digest = history.DigestOfNumber(o.Sum - uint64(o.Delta))
	c.addOp(&base, t, classBase)
	key := c.addOp(o, t, classAdd)
	for int(key) >= len(lastWrite) {
		lastWrite = append(lastWrite, 0)
	}
	lastWrite[key] = uint32(len(c.ops))
	return lastWrite
}

// verifyBases reports additions that were made to another number than the one which was there. Where versions may be
// left out, one of a transaction that is unknown may be between.
func (c *checker) verifyBases(reads, writes []op, last standing) {
	if !c.additions || !last.known || !c.counting && c.result.Unknown > 0 {
		return
	}
	for i := range reads {
		b := &reads[i]
		if b.class() != classBase || !c.installs[b.txn()] || !last.absent && last.digest == b.digest {
			continue
		}
		for j := range writes {
			if w := &writes[j]; w.class() == classAdd && w.txn() == b.txn() {
				c.report(LostAddition, w, last.write)
			}
		}
	}
}

// hasAdditions reports whether a key has some.
func hasAdditions(ops []op) bool {
	for i := range ops {
		if ops[i].class() == classAdd {
			return true
		}
	}
	return false
}

// additionEdges is keyEdges for a key with additions.
func (c *checker) additionEdges(key uint32, emit func(edge)) {
	ops := c.of(key)
	before, now := &c.levels[0], &c.levels[1]
	before.at, now.at = before.at[:0], now.at[:0]
	next := func(reads, adds bool) {
		if len(now.at) == 0 {
			now.reads, now.adds = reads, adds
			return
		}
		c.levelEdges(key, before, now, emit)
		before, now = now, before
		now.at, now.reads, now.adds = now.at[:0], reads, adds
	}
	for i := 0; i < len(ops); {
		end := version(ops, i)
		from := i + reads(ops[i:end])
		if w := c.installed(ops[i:from]); w >= 0 {
			w += i
			if adds := ops[w].class() == classAdd; !adds || !now.adds || now.reads {
				next(false, adds)
			}
			now.at = append(now.at, uint32(w))
		}
		for j := from; j < end; j++ {
			if o := &ops[j]; o.version == 0 || o.class() == classBase || !c.inGraph[o.txn()] {
				continue
			}
			if !now.reads {
				next(true, false)
			}
			now.at = append(now.at, uint32(j))
		}
		i = end
	}
	c.levelEdges(key, before, now, emit)
}

// levelEdges emits that each of a level comes before each of the next one.
func (c *checker) levelEdges(key uint32, a, b *level, emit func(edge)) {
	if len(a.at) == 0 || len(b.at) == 0 {
		return
	}
	ops, base := c.of(key), c.first[key]
	e := edge{key: key, relation: WriteWrite}
	switch {
	case a.reads:
		e.relation = ReadWrite
	case b.reads:
		e.relation = WriteRead
	}
	pair := func(p, q uint32) {
		if e.from, e.to = ops[p].txn(), ops[q].txn(); e.from != e.to {
			e.a, e.b = base+p, base+q
			emit(e)
		}
	}
	if c.pairs != nil {
		for _, p := range a.at {
			if !c.pairs[ops[p].txn()] {
				continue
			}
			for _, q := range b.at {
				if c.pairs[ops[q].txn()] {
					pair(p, q)
				}
			}
		}
		return
	}
	if len(a.at) == 1 || len(b.at) == 1 {
		for _, p := range a.at {
			for _, q := range b.at {
				pair(p, q)
			}
		}
		return
	}
	c.jointEdges(a, b, ops, pair, emit)
}

// jointEdges has the edges lead through a joint. A transaction of both levels would come before itself by it, and has
// edges of its own: two of them already come before each other, so that more need none.
func (c *checker) jointEdges(a, b *level, ops []op, pair func(p, q uint32), emit func(edge)) {
	joint := c.txnCount + c.joint
	c.joint++
	if c.both == nil {
		c.both = make([]uint32, len(c.txns))
	}
	c.meet += 2
	for _, p := range a.at {
		c.both[ops[p].txn()] = c.meet
	}
	for _, q := range b.at {
		if t := ops[q].txn(); c.both[t] == c.meet {
			c.both[t] = c.meet + 1 // of both levels
		}
	}
	apart := 0
	for _, p := range a.at {
		switch t := ops[p].txn(); {
		case c.both[t] == c.meet:
			emit(edge{from: t, to: joint})
		case apart < 2:
			apart++
			for _, q := range b.at {
				pair(p, q)
			}
		}
	}
	apart = 0
	for _, q := range b.at {
		switch t := ops[q].txn(); {
		case c.both[t] != c.meet+1:
			emit(edge{from: joint, to: t})
		case apart < 2:
			apart++
			for _, p := range a.at {
				pair(p, q)
			}
		}
	}
}

// brokenChain is a transaction whose pieces are not those that it has.
type brokenChain struct {
	txn    uint32
	pieces string
}

// addPieces takes down a transaction that does not have all of its pieces, in their order.
func (c *checker) addPieces(r *history.Record, t uint32) {
	var b strings.Builder
	next, count := history.Key(0), history.Key(0)
	good := true
	for i := range r.Ops {
		o := &r.Ops[i]
		switch {
		case o.Kind != history.OpPiece:
			continue
		case count == 0:
			count = o.High
			good = good && i == 0
		}
		good = good && o.Key == next && o.High == count
		next++
	}
	if count == 0 || good && next == count {
		return
	}
	for i := range r.Ops {
		if o := &r.Ops[i]; o.Kind == history.OpPiece {
			fmt.Fprintf(&b, "%d of %d, ", o.Key+1, o.High)
		}
	}
	c.broken = append(c.broken, brokenChain{t, strings.TrimSuffix(b.String(), ", ")})
}

// verifyChains reports those of them that count.
func (c *checker) verifyChains() {
	for _, x := range c.broken {
		if !c.installs[x.txn] || c.enough(BrokenChain) {
			continue
		}
		v := Violation{Anomaly: BrokenChain, Txns: []Txn{c.outside(x.txn)}}
		var b strings.Builder
		fmt.Fprintf(&b, "%v: T1 counts, but has pieces %s only, in this order", BrokenChain, x.pieces)
		c.list(&b, []uint32{x.txn})
		v.Text = b.String()
		c.add(v)
	}
}
