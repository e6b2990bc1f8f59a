package hades

import (
	"slices"

	"drtmd/htm/bloom"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
)

// forget begins a transaction that has no attempts before.
func (x *tx) forget() {
	for i := range x.set {
		s := &x.set[i]
		s.Reads, s.Writes = s.Reads[:0], s.Writes[:0]
	}
	x.set = x.set[:0]
}

// noteLine adds a line to what the attempts of the transaction have accessed.
func (x *tx) noteLine(n proto.NodeID, line bloom.Line, write bool) {
	node := hardware.NodeID(n)
	at := slices.IndexFunc(x.set, func(r hardware.Reservation) bool { return r.Node >= node })
	if at < 0 {
		at = len(x.set)
	}
	if at == len(x.set) || x.set[at].Node != node {
		if n := len(x.set); n < cap(x.set) {
			spare := x.set[:n+1][n] // its lists are used again
			spare.Node = node
			x.set = slices.Insert(x.set, at, spare)
		} else {
			x.set = slices.Insert(x.set, at, hardware.Reservation{Node: node})
		}
	}
	r := &x.set[at]
	switch {
	case slices.Contains(r.Writes, line):
	case write:
		r.Writes = append(r.Writes, line)
		if i := slices.Index(r.Reads, line); i >= 0 {
			r.Reads = slices.Delete(r.Reads, i, i+1)
		}
	case !slices.Contains(r.Reads, line):
		r.Reads = append(r.Reads, line)
	}
}

// reserve locks what the attempts before have accessed, after so many of them (§VI).
func (x *tx) reserve(attempt int) error {
	c := x.e.chip
	if c.view != nil && x.setEpoch != c.view.epoch {
		x.forget()
		x.setEpoch = c.view.epoch
	}
	if attempt < c.patient || len(x.set) == 0 {
		return x.over()
	}
	if err := x.over(); err != nil {
		return err
	}
	x.e.stats.Fallbacks++
	was := x.F.Shield() // who waits holds locks of lower nodes only
	defer x.F.Unshield(was)
	c.Reserve(x.number, x.set)
	for !x.locked && x.end == 0 {
		if err := x.wait(x.F); err != nil {
			return err
		}
	}
	return x.over()
}
