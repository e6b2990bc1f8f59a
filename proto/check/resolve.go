package check

import (
	"cmp"
	"slices"

	"drtmd/proto/history"
)

// sight is what a read turns out to have seen, the best explanation first.
type sight uint8

const (
	sawInstalled    sight = iota + 1 // the last write of a transaction that counts
	sawUnknown                       // of one that is unknown and does not count yet
	sawIntermediate                  // a write that its own transaction overwrote
	sawAborted                       // a write of a transaction that aborted
	sawNothing                       // no write of this version and value
)

// seen finds the write that a read saw among those of its version. Reads of own writes were left
// out when the history was loaded, so it is another transaction's.
func (c *checker) seen(writes []op, r *op) (best sight, at int) {
	best, at = sawNothing, -1
	for i := range writes {
		w := &writes[i]
		if w.txn() == r.txn() || !sameValue(w, r) {
			continue
		}
		if s := c.sightOf(w); s < best {
			best, at = s, i
		}
	}
	return best, at
}

// sameValue: a read finds what was written, an absent read what was deleted. A delete has digest
// 0, and so has an absent read; for intermediate writes that is all that is left to compare.
func sameValue(w, r *op) bool {
	switch w.class() {
	case classWrite, classAdd:
		return r.class() == classRead && w.digest == r.digest
	case classDelete:
		return r.class() != classRead
	}
	return w.digest == r.digest
}

func (c *checker) sightOf(w *op) sight {
	t := w.txn()
	unknown := c.txns[t].outcome == history.Unknown
	switch {
	case w.class() == classIntermediate && (c.installs[t] || unknown):
		return sawIntermediate
	case c.installs[t]:
		return sawInstalled
	case unknown:
		return sawUnknown
	}
	return sawAborted
}

// installed finds the write of a run that counts, -1 if there is none.
func (c *checker) installed(writes []op) int {
	for i := range writes {
		if writes[i].class() != classIntermediate && c.installs[writes[i].txn()] {
			return i
		}
	}
	return -1
}

// admit decides who is in the graph before any unknown transaction is looked at.
func (c *checker) admit() {
	c.inGraph = make([]bool, len(c.txns))
	c.installs = make([]bool, len(c.txns))
	for t := range c.txns {
		switch c.txns[t].outcome {
		case history.Committed, history.Recovered:
			c.inGraph[t], c.installs[t] = true, true
		case history.UserAborted:
			c.inGraph[t] = c.options.UserAborts
		}
	}
}

// observer finds the unknown transactions that count as committed.
type observer struct {
	*checker
	reads []uint32 // positions of the reads of unknown transactions, by transaction
	// writes are those of their writes.
	writes []uint32
	queue  []uint32 // counted, their reads not looked at yet
	// doubtful are the positions of reads of what several unknown transactions wrote alike.
	doubtful []uint32
	// keys are those that unknown transactions wrote; rivals are two or more of these that can have
	// made a write which must have been made.
	keys   []uint32
	rivals []uint32
}

// observe counts each unknown transaction of which a counted one read a write, until no further
// one is found.
func (c *checker) observe() error {
	if c.result.Unknown == 0 {
		return nil
	}
	o := &observer{checker: c}
	for _, t := range c.recount {
		o.count(t)
	}
	c.recount = nil
	if err := o.scan(); err != nil {
		return err
	}
	for _, positions := range [][]uint32{o.reads, o.writes} {
		slices.SortFunc(positions, func(a, b uint32) int { return cmp.Compare(c.ops[a].txn(), c.ops[b].txn()) })
	}
	for {
		o.drain()
		if err := o.absences(); err != nil {
			return err
		}
		o.proven()
		if len(o.queue) == 0 && !o.guess() {
			return nil
		}
	}
}

// guess counts a writer for the first doubtful read that has none yet.
func (o *observer) guess() bool {
	for i, p := range o.doubtful {
		writes := o.writesFor(p)
		if s, _ := o.seen(writes, &o.ops[p]); s == sawUnknown {
			o.doubtful = o.doubtful[i+1:]
			o.guessOne(o.alike(writes, &o.ops[p]))
			return true
		}
	}
	if len(o.rivals) > 0 {
		o.guessOne(o.rivals)
		return true
	}
	return false
}

// guessOne counts one of several that can have made a write; one that is contradicted is not taken if there is another.
func (o *observer) guessOne(txns []uint32) {
	o.guessed, o.guessedWriter = true, true
	if apart := slices.DeleteFunc(slices.Clone(txns), o.contradicted); len(apart) > 0 {
		txns = apart
	}
	o.count(txns[o.variant%len(txns)])
}

// contradicted reports whether a counted transaction wrote a version that an unknown one wrote, or the tables held an
// older one in the end.
func (o *observer) contradicted(t uint32) bool {
	return slices.ContainsFunc(o.within(o.writes, t), func(p uint32) bool {
		w := &o.ops[p]
		if f := o.final.of(w.key); (f.state == history.Present || f.state == history.Deleted) && f.version < w.version {
			return true
		}
		first := p
		for first > o.first[w.key] && o.ops[first-1].version == w.version {
			first--
		}
		for i := first; int(i) < len(o.ops) && o.ops[i].key == w.key && o.ops[i].version == w.version; i++ {
			if other := &o.ops[i]; other.class() < classIntermediate && other.txn() != t &&
				o.installs[other.txn()] {
				return true
			}
		}
		return false
	})
}

// within are those of some positions, which are in the order of their transactions, that belong to t.
func (o *observer) within(positions []uint32, t uint32) []uint32 {
	compare := func(p, t uint32) int { return cmp.Compare(o.ops[p].txn(), t) }
	from, _ := slices.BinarySearchFunc(positions, t, compare)
	to, _ := slices.BinarySearchFunc(positions[from:], t+1, compare)
	return positions[from : from+to]
}

// alike are the unknown transactions that wrote what a read saw.
func (c *checker) alike(writes []op, r *op) (txns []uint32) {
	for i := range writes {
		w := &writes[i]
		if w.txn() != r.txn() && sameValue(w, r) && c.sightOf(w) == sawUnknown {
			txns = append(txns, w.txn())
		}
	}
	return txns
}

func (o *observer) count(t uint32) {
	if o.inGraph[t] {
		return
	}
	o.inGraph[t], o.installs[t] = true, true
	o.result.UnknownCommitted++
	o.result.Observed = append(o.result.Observed,
		history.TxnID{Worker: o.txns[t].worker, Seq: o.txns[t].seq})
	o.queue = append(o.queue, t)
}

// scan looks at all reads once.
func (o *observer) scan() error {
	for i := 0; i < len(o.ops); {
		if i&(tickEvery-1) == 0 {
			if err := o.tick(Resolving, i, len(o.ops)); err != nil {
				return err
			}
		}
		end := i + 1
		for end < len(o.ops) && o.ops[end].version == o.ops[i].version &&
			o.ops[end].key == o.ops[i].key {
			end++
		}
		from := i + reads(o.ops[i:end])
		for j := i; j < from; j++ {
			if o.txns[o.ops[j].txn()].outcome != history.Unknown {
				continue
			}
			o.writes = append(o.writes, uint32(j))
			if n, k := len(o.keys), o.ops[j].key; n == 0 || o.keys[n-1] != k {
				o.keys = append(o.keys, k)
			}
		}
		for j := from; j < end; j++ {
			switch t := o.ops[j].txn(); {
			case o.ops[j].class() == classBase:
			case o.txns[t].outcome == history.Unknown:
				o.reads = append(o.reads, uint32(j))
			case o.inGraph[t]:
				o.look(o.ops[i:from], uint32(j))
			}
		}
		i = end
	}
	return nil
}

// look counts the writer that a read proves.
func (o *observer) look(writes []op, read uint32) {
	r := &o.ops[read]
	s, at := o.seen(writes, r)
	if s != sawUnknown || o.sawLoaded(r.key, r) {
		return
	}
	if other, _ := o.seen(writes[at+1:], r); other == sawUnknown {
		o.doubtful = append(o.doubtful, read)
		return
	}
	o.count(writes[at].txn())
}

// writesFor gives the writes of the version of a read.
func (c *checker) writesFor(read uint32) []op {
	first := read
	for first > c.first[c.ops[read].key] && c.ops[first-1].version == c.ops[read].version {
		first--
	}
	return c.ops[first : first+uint32(reads(c.ops[first:read+1]))]
}

// drain looks at the reads of newly counted transactions.
func (o *observer) drain() {
	for len(o.queue) > 0 {
		t := o.queue[len(o.queue)-1]
		o.queue = o.queue[:len(o.queue)-1]
		for _, p := range o.within(o.reads, t) {
			o.look(o.writesFor(p), p)
		}
	}
}

// absences counts those whose delete is the only one that an absent read can have seen.
func (o *observer) absences() error {
	return o.eachAbsenceKey(func(key uint32) {
		l := o.timelineOf(key)
		l.eachAbsence(func(_ int, p placement) {
			if p.first == p.last && p.first >= 0 && l.states[p.first].maybe {
				o.count(l.states[p.first].txn)
			}
		})
	})
}
