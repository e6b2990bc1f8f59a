package check

import "drtmd/proto/history"

// What proves that an unknown transaction took effect, beside a read of its write: a write over it,
// where versions are known to leave none out, and what the tables held in the end.

// proven counts the unknown transactions that must have made a write. Where several can have, they
// become rivals.
func (o *observer) proven() {
	o.rivals = o.rivals[:0]
	for _, key := range o.keys {
		for o.provenBy(key) {
		}
	}
}

// provenBy counts one transaction by what is known of a key; false if there is none.
func (o *observer) provenBy(key uint32) bool {
	ops := o.of(key)
	last := o.beginning(key, o.initialRead(ops))
	for i := 0; i < len(ops); {
		end := version(ops, i)
		writes := ops[i : i+reads(ops[i:end])]
		i = end
		w, deletes := o.effective(writes)
		if w == nil {
			continue
		}
		if o.counting {
			v, _ := missing(last, w.version, deletes)
			if v != 0 && o.mustBe(ops, func(x *op) bool { return x.version == v }) {
				return true
			}
		}
		last = after(w, deletes)
	}
	return o.final.known && o.provenByFinal(key, last)
}

// initialRead finds a read of what was there before all writes, if that was not recorded.
func (o *observer) initialRead(ops []op) *op {
	for i := range ops {
		r := &ops[i]
		switch {
		case r.class() < classRead:
			return nil
		case r.version != 0 && o.inGraph[r.txn()]:
			return r
		}
	}
	return nil
}

// provenByFinal counts a transaction whose write is what the tables held in the end.
func (o *observer) provenByFinal(key uint32, last standing) bool {
	f := o.final.of(key)
	if last.known && f.state != 0 && f.version <= last.version {
		return false
	}
	state := f.state
	if state == history.Pending && o.counting && f.version>>32&1 == 0 && uint32(f.version) != 0 {
		state = 0 // bound to the key for an insertion that was not begun: the key is absent
	}
	return o.mustBe(o.of(key), func(x *op) bool {
		switch state {
		case history.Present:
			return (x.class() == classWrite || x.class() == classAdd) && x.version == f.version && x.digest == f.digest
		case history.Deleted:
			return x.class() == classDelete && x.version == f.version
		case history.Pending: // the version is written first
			return x.class() < classIntermediate && x.version == f.version
		}
		if !o.final.whole || !last.known || last.absent {
			return false
		}
		if o.counting {
			return x.version == (last.version>>32+1)<<32
		}
		return x.class() == classDelete && x.version > last.version
	})
}

// mustBe counts the unknown transaction that made a write, if only one can have.
func (o *observer) mustBe(ops []op, fits func(*op) bool) bool {
	var found []uint32
	for i := range ops {
		t := ops[i].txn()
		if ops[i].class() < classRead && !o.installs[t] &&
			o.txns[t].outcome == history.Unknown && fits(&ops[i]) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 0:
		return false
	case 1:
		o.count(found[0])
		return true
	}
	o.rivals = append(o.rivals, found...)
	return false
}
