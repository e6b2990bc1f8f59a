package check

import "drtmd/proto/history"

// verify reports what single operations prove: reads of what was never installed, and versions
// that were installed twice.
func (c *checker) verify() error {
	c.verifyChains()
	keys := len(c.keys.entries)
	for k := range keys {
		if k%tickEvery == 0 {
			if err := c.tick(Resolving, k, keys); err != nil {
				return err
			}
		}
		c.verifyKey(uint32(k))
	}
	return c.eachAbsenceKey(func(key uint32) {
		c.timelineOf(key).eachAbsence(func(at int, p placement) {
			if p.first < 0 {
				c.report(WrongAbsence, &c.of(key)[at], nil)
			}
		})
	})
}

func (c *checker) verifyKey(key uint32) {
	ops := c.of(key)
	written := false // whatever came of it: from here on no version is an initial one
	var initial *op  // the first read of what was there before, if that was not recorded
	last := c.beginning(key, nil)
	before := standing{}
	for i := 0; i < len(ops); {
		end := version(ops, i)
		from := i + reads(ops[i:end])
		writes := ops[i:from]
		written = written || len(writes) > 0
		if w := c.installed(writes); w >= 0 {
			if again := c.installed(writes[w+1:]); again >= 0 {
				c.report(LostUpdate, &writes[w], &writes[w+1+again])
			}
		}
		c.verifyBases(ops[from:end], writes, last)
		before, last = c.verifyWrites(writes, before, last)
		for j := from; j < end; j++ {
			r := &ops[j]
			if r.version == 0 || r.class() == classBase || !c.inGraph[r.txn()] || c.sawLoaded(key, r) {
				continue
			}
			s, at := c.seen(writes, r)
			switch {
			case s == sawIntermediate:
				c.report(DirtyRead, r, &writes[at])
			case s == sawAborted:
				c.report(AbortedRead, r, &writes[at])
			case s == sawNothing && !written && initial == nil && !c.initial.known:
				initial = r
				last = c.beginning(key, r)
			case s == sawNothing && !written && initial != nil && initial.version == r.version &&
				initial.class() == r.class() && initial.digest == r.digest:
			case s == sawNothing:
				c.report(TornRead, r, c.tornFrom(writes, initial, r))
			}
		}
		i = end
	}
	if c.final.known {
		c.verifyFinal(key, before, last)
	}
}

// verifyWrites goes on from how a key stood to how it stands after the writes of one version, if one
// of them counts, and reports a write before them that must have been and is not there.
func (c *checker) verifyWrites(writes []op, before, last standing) (standing, standing) {
	w, deletes := c.effective(writes)
	if w == nil {
		return before, last
	}
	switch {
	case last.write == nil && last.known && last.version >= w.version:
		c.report(LostUpdate, w, nil)
	case c.counting:
		c.verifyAlone(writes, w)
		if l := last.write; l != nil && l.class() == classIntermediate && l.txn() != w.txn() {
			c.report(LostUpdate, w, l)
		}
		if v, _ := missing(last, w.version, deletes); v != 0 {
			c.reportGap(w, last)
		}
	}
	return last, after(w, deletes)
}

// verifyAlone reports a write that its transaction overwrote and that has the version of another
// transaction's write w: both replaced the same version. Of those that stayed, verifyKey tells.
func (c *checker) verifyAlone(writes []op, w *op) {
	for i := range writes {
		x := &writes[i]
		if x.txn() != w.txn() && x.class() == classIntermediate && c.installs[x.txn()] {
			c.report(LostUpdate, w, x)
		}
	}
}

// effective finds the write of a run that was there for a time, be it within its transaction; nil if
// none counts.
func (c *checker) effective(writes []op) (w *op, deletes bool) {
	if i := c.installed(writes); i >= 0 {
		return &writes[i], writes[i].class() == classDelete
	}
	for i := range writes {
		if w := &writes[i]; c.installs[w.txn()] {
			return w, w.version>>32&1 == 0 // what it was is not kept: Counting tells it
		}
	}
	return nil, false
}

// sawLoaded reports whether a read is of what the key was loaded with, or was deleted before.
func (c *checker) sawLoaded(key uint32, r *op) bool {
	if !c.initial.known {
		return false
	}
	i := c.initial.of(key)
	switch r.class() {
	case classRead:
		return i.state == history.Present && i.version == r.version && i.digest == r.digest
	case classAbsent:
		return i.state == history.Deleted && i.version == r.version
	}
	return false
}

// tornFrom finds what to compare a torn read with: the write or the read of the same version.
func (c *checker) tornFrom(writes []op, initial, r *op) *op {
	if w := c.installed(writes); w >= 0 {
		return &writes[w]
	}
	if initial != nil && initial.version == r.version {
		return initial
	}
	return nil
}
