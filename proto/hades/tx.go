package hades

import (
	"fmt"
	"slices"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/txset"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// part is what the engine knows of a record.
type part struct {
	place  int
	first  bloom.Line
	count  int   // of its lines; 0: it has no entry
	held   bool  // the place: release
	home   *Chip // of the entry that is held
	asked  bool  // for its lines, at another node
	guard  bool  // the line of its bucket or page was asked for
	marked bool  // and will be written
	tries  int
	// toRead and toWrite are the lines of the fields that the program has declared; none: it accesses the whole record.
	// have are those that it has accessed, and dirty those that it has written.
	toRead, toWrite, have, dirty lineSet
}

type record = txset.Record[part]

// tx implements proto.Tx. One fiber has it between Begin and the end.
type tx struct {
	txset.Set[part]
	e    *Engine
	last *fiber.Fiber // that had it

	number directory.TX
	// end is how the model has ended it; 0: it is under way, or has not begun.
	end hardware.End
	on  bool // the model knows it
	// Why its fiber waits, and what for.
	waiting bool
	cond    fiber.Cond
	open    int  // requests that are not answered
	denied  bool // by a Locking Buffer
	locked  bool // all that it has reserved is
	acked   bool // HADES-H: Validate is due
	cycles  int  // that are not spent yet

	line  hardware.Data
	some  []hardware.Data // of a record of HADES-H
	lines []bloom.Line
	// shadows are lines that only the checker needs.
	shadows []bloom.Line
	keys    [peekKeys]proto.Key
	value   []byte // of a record that is loaded again
	pages   []page // that its scans have read
	// set is what the attempts before have accessed, by node.
	set []hardware.Reservation
	// epoch is that in which the attempt has begun, and setEpoch that of set.
	epoch, setEpoch uint64
	// copies are the records that nodes keep of what it writes.
	copies []hardware.Copy
	bodies []byte
}

// page is the line of one.
type page struct {
	node proto.NodeID
	line bloom.Line
}

// wake lets the fiber go on that waits.
func (x *tx) wake() {
	if x.waiting {
		x.waiting = false
		x.cond.Broadcast()
		x.e.env.Worker.Kick()
	}
}

// wait lets others run until something has happened.
func (x *tx) wait(f *fiber.Fiber) error {
	x.waiting = true
	err := x.cond.Wait(f, 0)
	x.waiting = false
	return err
}

// begin takes a pair of filters, or waits for one.
func (x *tx) begin(f *fiber.Fiber) error {
	c := x.e.chip
	c.sweep()
	x.F = f
	x.pages, x.copies = x.pages[:0], x.copies[:0]
	x.end, x.on, x.open, x.denied, x.locked, x.acked, x.cycles = 0, false, 0, false, false, false, 0
	waiting := &c.idle[x.core()]
	for first := true; ; first = false {
		if c.Spent() {
			c.leave(x)
			return fmt.Errorf("hades: node %d has begun %d attempts in this life, which is all that it can count: restart it",
				c.first.Node, hardware.MaxAttempts)
		}
		if c.view.paused() || first && len(*waiting) > 0 {
			// Others have waited longer.
		} else if n, ok := c.Begin(x.core()); ok {
			if x.number, x.on = n, true; c.view != nil {
				x.epoch = c.view.epoch
			}
			c.running[n] = x
			c.leave(x)
			return nil
		}
		if !slices.Contains(*waiting, x) {
			*waiting = append(*waiting, x)
		}
		if err := x.wait(f); err != nil {
			c.leave(x)
			return err
		}
	}
}

// leave takes a transaction from those that wait for a number, and lets the next one of its core try.
func (c *Chip) leave(x *tx) {
	waiting := &c.idle[x.core()]
	if i := slices.Index(*waiting, x); i >= 0 {
		*waiting = slices.Delete(*waiting, i, i+1)
		if len(*waiting) > 0 {
			(*waiting)[0].wake()
		}
	}
}

// core is the number of the worker in its node.
func (x *tx) core() int { return x.e.env.Index }

// over is nil while the transaction is under way, or else an abort.
func (x *tx) over() error {
	switch x.end {
	case 0:
		return nil
	case hardware.LockFailed:
		return proto.Aborting(proto.ReasonLocked)
	case hardware.Moved:
		return proto.Aborting(proto.ReasonMoved)
	case hardware.Invalid, hardware.RemoteSquash:
		return proto.Aborting(proto.ReasonValidation)
	}
	return proto.Aborting(proto.ReasonConflict)
}

// spend has the core work for the cycles that accesses have taken, and for a time.
func (x *tx) spend(ps int64) error {
	if ps += int64(x.cycles) * hardware.CyclePs; ps > 0 {
		x.cycles = 0
		x.F.Charge(ps)
	}
	return x.over()
}

// Load implements txset.Loader: it accesses records of all nodes at once.
func (x *tx) Load(from, to int) error {
	x.F.Step(stepBegin)
	if err := x.over(); err != nil {
		return err
	}
	for left := true; left; {
		left = false
		for i := from; i < to; i++ {
			r := &x.Records[i]
			if r.Loaded || r.Node == x.e.env.Node {
				continue
			}
			left = true
			if err := x.ask(r); err != nil {
				return err
			}
		}
		for i := from; i < to; i++ {
			r := &x.Records[i]
			if r.Loaded || r.Node != x.e.env.Node {
				continue
			}
			if err := x.access(r); err != nil {
				return err
			}
		}
		if err := x.answered(); err != nil {
			return err
		}
		for i := from; i < to; i++ {
			if r := &x.Records[i]; !r.Loaded && r.Node != x.e.env.Node {
				if err := x.arrived(r); err != nil {
					return err
				}
			}
		}
	}
	x.F.Step(stepAccessed)
	return x.over()
}

// answered waits until all requests are answered, when what its accesses have cost is spent.
func (x *tx) answered() error {
	err := x.spend(0)
	for err == nil && x.open > 0 {
		if err = x.wait(x.F); err == nil {
			err = x.over()
		}
	}
	return err
}

// locate finds the lines of a record; an insertion makes an entry for them.
func (x *tx) locate(r *record) error {
	p := &r.Own
	home, b, err := x.home(r.Node, r.At.Shard)
	if err != nil {
		return err
	}
	t := &b.tables[r.Table-1]
	place, ok := 0, true
	switch {
	case p.held:
		return nil
	case r.Mode >= proto.ModeInsert:
		if place, err = home.ensure(b, r.Table, r.Key, x.e.env.Node); err != nil {
			return err
		}
		p.held, p.home = true, home
	default:
		place, ok = b.find(r.Table, r.Key)
	}
	if p.asked = p.asked && ok && p.count > 0 && place == p.place; !ok {
		p.count = 0
		return nil
	}
	p.place, p.first, p.count = place, b.lineOf(t, place), (t.record.Bytes+layout.LineBytes-1)/layout.LineBytes
	return nil
}

// guardOf is the line of a record's bucket or page.
func (x *tx) guardOf(r *record) bloom.Line {
	return chipOf(x.e.env, r.Node).banks[r.At.Shard].tables[r.Table-1].guard(r.Key)
}

// home is the chip that serves a shard, with its bank. While a node that is dead does, the attempt waits until the members
// change, which ends it.
func (x *tx) home(n proto.NodeID, shard proto.ShardID) (*Chip, *bank, error) {
	c := chipOf(x.e.env, n)
	for !c.Alive() || c.banks[shard] == nil || c.view != nil && !c.view.lives[x.e.env.Node] {
		if err := x.over(); err != nil {
			return nil, nil, err
		}
		if err := x.wait(x.F); err != nil {
			return nil, nil, err
		}
	}
	return c, c.banks[shard], nil
}

const maxTries = 8 // look-ups of one record whose place goes out of date

// ask fetches what a record of another node needs.
func (x *tx) ask(r *record) error {
	if r.Own.tries++; r.Own.tries > maxTries {
		return proto.Aborting(proto.ReasonStale)
	}
	if err := x.locate(r); err != nil {
		return err
	}
	p, node := &r.Own, hardware.NodeID(r.Node)
	if p.count > 0 && !p.asked {
		p.asked = true
		if err := x.fetch(r); err != nil {
			return err
		}
	}
	if write := r.Mode >= proto.ModeInsert; write && !p.marked || p.count == 0 && !p.guard {
		p.guard, p.marked = true, write
		return x.fetchGuard(node, x.guardOf(r), write)
	}
	return nil
}

func (x *tx) fetchGuard(node hardware.NodeID, line bloom.Line, write bool) error {
	x.open++
	x.lines = append(x.lines[:0], line)
	x.e.chip.Fetch(x.number, node, x.lines, write)
	return x.spend(requestPs)
}

// arrived takes a record whose lines have come.
func (x *tx) arrived(r *record) error {
	p, n, node := &r.Own, x.e.chip, hardware.NodeID(r.Node)
	_, b, err := x.home(r.Node, r.At.Shard)
	if err != nil {
		return err
	}
	place, ok := b.find(r.Table, r.Key)
	if p.count == 0 {
		if !ok && p.guard {
			r.Absent()
		}
		return nil // or it has come meanwhile: again
	}
	if !ok || place != p.place {
		p.asked = false
		return nil
	}
	for i := range p.count {
		there := n.Copy(x.number, node, p.first+bloom.Line(i), &x.line)
		invariant.Assert(there, "hades: a line that was fetched is not there")
		copy(r.Image[i*layout.LineBytes:], x.line[:])
	}
	return x.accept(r, func() error { return x.fetchGuard(node, x.guardOf(r), false) })
}

// accept takes the image of a record for it. Of an absent one the line of its bucket or page is read, too.
func (x *tx) accept(r *record, guard func() error) error {
	h := layout.HeadOf(r.Image)
	switch h.Match(uint64(r.Key)) {
	case layout.Stale:
		r.Own.asked = false
		return nil
	case layout.Live:
		r.Accept(h.Version, true)
		return nil
	}
	if r.Own.guard {
		// The entry may have been given back and made again since: its version is the table's, and no content.
		_, b, err := x.home(r.Node, r.At.Shard)
		if err != nil {
			return err
		}
		if v := b.tables[r.Table-1].head(r.Own.place).Version; !v.Live() {
			h.Version = v
		}
		r.Accept(h.Version, false)
		return nil
	}
	r.Own.guard = true
	return guard()
}
