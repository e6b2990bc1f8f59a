package directory

import (
	"slices"

	"drtmd/htm/bloom"
	"drtmd/internal/invariant"
)

// Access is what became of one.
type Access struct {
	Verdict Verdict
	Level   Level // what served it, if it was granted
	Cycles  int   // until then
}

// Read is a load of a local transaction. If it is denied, try again when a Locking Buffer was given back.
// After a conflict the transaction is squashed.
func (d *Directory) Read(tx TX, line bloom.Line) Access { return d.access(tx, line, false) }

// Write is a store of a local transaction.
func (d *Directory) Write(tx TX, line bloom.Line) Access { return d.access(tx, line, true) }

func (d *Directory) access(tx TX, line bloom.Line, write bool) Access {
	t := &d.txs[tx]
	invariant.Assert(t.active, "directory: an access of no transaction")
	invariant.Assert(line < maxLines, "directory: the line is behind 256 GB")
	c := &d.cores[t.core]
	d.enter(c, tx)
	d.clock++
	d.stats.Accesses++
	bit, pass := recordedRead, recordedRead|recordedWrite // a written line may be read: its tag is the transaction's
	if write {
		bit, pass = recordedWrite, recordedWrite
	}
	if level, ok := c.serves(line, pass, d.clock); ok {
		d.stats.Private++
		return Access{Granted, level, c.cyclesOf(level)}
	}
	cycles := d.cfg.LLC.Cycles
	if d.buffers.Denies(Owner(tx), line, write) {
		return Access{Verdict: Denied, Cycles: cycles}
	}
	w := d.llc.find(line)
	if w != nil && w.tagged && w.tx != tx {
		d.Squash(tx, WrittenByAnother)
		return Access{Verdict: Conflict, Cycles: cycles}
	}
	if write && d.readByAnother(tx, line) {
		d.Squash(tx, ReadByAnother)
		return Access{Verdict: Conflict, Cycles: cycles}
	}
	if write {
		t.write.Insert(line)
	} else {
		t.read.Insert(line)
		t.reads = append(t.reads, line)
	}
	level := InLLC
	if w == nil {
		level, cycles = InMemory, cycles+d.cfg.Memory
		d.stats.Misses++
		if w = d.fill(line); !t.active {
			return Access{Verdict: Conflict, Cycles: cycles}
		}
	}
	w.used = d.clock
	if write {
		d.tag(w, tx, line, t.core)
	}
	c.l1.take(line).record(c.generation, bit, d.clock)
	c.l2.take(line).record(c.generation, bit, d.clock)
	return Access{Granted, level, cycles}
}

// serves reports whether a private cache has the line with one of the bits that let the access pass; 0: with any or
// none.
func (c *core) serves(line bloom.Line, pass uint8, now uint64) (Level, bool) {
	passes := func(w *privateLine) bool { return w != nil && (pass == 0 || w.recorded(c.generation)&pass != 0) }
	if w := c.l1.find(line); passes(w) {
		w.used = now
		return InL1, true
	}
	w := c.l2.find(line)
	if !passes(w) {
		return 0, false
	}
	w.used = now
	c.l1.take(line).record(c.generation, w.recorded(c.generation), now)
	return InL2, true
}

func (c *core) cyclesOf(l Level) int {
	if l == InL1 {
		return c.l1.cycles
	}
	return c.l2.cycles
}

// readByAnother looks for a line in the read filters of the other local transactions.
func (d *Directory) readByAnother(tx TX, line bloom.Line) bool {
	d.stats.Compared++
	for i := range d.txs {
		if t := &d.txs[i]; t.active && TX(i) != tx && d.hasRead(t, line) {
			return true
		}
	}
	return false
}

func (d *Directory) hasRead(t *transaction, line bloom.Line) bool {
	d.stats.Checks++
	if !t.read.Contains(line) {
		return false
	}
	if !slices.Contains(t.reads, line) {
		d.stats.FalseConflicts++
	}
	return true
}

func (d *Directory) hasWritten(i int, line bloom.Line) bool {
	d.stats.Checks++
	if !d.txs[i].write.Contains(line) {
		return false
	}
	if w := d.llc.find(line); w == nil || !w.tagged || w.tx != TX(i) {
		d.stats.FalseConflicts++
	}
	return true
}

// tag makes a line of the LLC the transaction's. Memory gets what it had before.
func (d *Directory) tag(w *sharedLine, tx TX, line bloom.Line, on int) {
	if !w.tagged {
		if w.dirty {
			d.stats.WriteBacks++
		}
		w.tagged, w.tx, w.dirty = true, tx, false
	}
	for i := range d.cores {
		if i != on {
			d.cores[i].drop(line)
		}
	}
}

// fill brings a line into the LLC. What it replaces leaves the private caches, too, and if a transaction has
// written that, it is squashed.
func (d *Directory) fill(line bloom.Line) *sharedLine {
	w := d.llc.victim(line)
	if w.stored != 0 {
		d.stats.Evictions++
		old, tx, tagged := bloom.Line(w.stored)-1, w.tx, w.tagged
		d.dropCopies(old)
		if tagged && d.cfg.Mutation != EvictionWithoutSquash {
			d.Squash(tx, Evicted)
		}
	}
	*w = sharedLine{stored: uint32(line + 1), used: d.clock}
	return w
}

func (d *Directory) dropCopies(line bloom.Line) {
	for i := range d.cores {
		d.cores[i].drop(line)
	}
}

func (c *core) drop(line bloom.Line) {
	c.l1.drop(line)
	c.l2.drop(line)
}

// RemoteRead is a READ by the NIC for an owner of Locking Buffers. It gets what memory has: a line that a
// transaction has written is no different from one that nobody has written.
func (d *Directory) RemoteRead(o Owner, line bloom.Line) Access {
	d.stats.Remote++
	if d.buffers.Denies(o, line, false) {
		return Access{Verdict: Denied, Cycles: d.cfg.LLC.Cycles}
	}
	return d.served(d.llc.find(line))
}

// Push is a WRITE by the NIC for a remote transaction that commits. It replaces the line in the LLC, if it is
// there, and ends private copies. No buffer denies it: the line was compared with the older ones when its owner
// locked, and an owner that locked later and has read it is being squashed.
func (d *Directory) Push(line bloom.Line) Access {
	d.stats.Remote++
	d.dropCopies(line)
	w := d.llc.find(line)
	if w != nil && !w.tagged {
		w.dirty = true
	}
	return d.served(w)
}

func (d *Directory) served(w *sharedLine) Access {
	if w == nil || w.tagged {
		return Access{Granted, InMemory, d.cfg.LLC.Cycles + d.cfg.Memory}
	}
	return Access{Granted, InLLC, d.cfg.LLC.Cycles}
}

// Probe gives the local transactions that have read or written one of the lines, but for one. The list is
// valid until the next Probe.
func (d *Directory) Probe(lines []bloom.Line, except TX) []TX {
	d.probed = d.probed[:0]
	d.stats.Compared += uint64(len(lines))
	for i := range d.txs {
		t := &d.txs[i]
		if !t.active || TX(i) == except {
			continue
		}
		for _, line := range lines {
			if d.hasRead(t, line) || d.hasWritten(i, line) {
				d.probed = append(d.probed, TX(i))
				break
			}
		}
	}
	return d.probed
}

// Writer is the local transaction that has written a line and is not over.
func (d *Directory) Writer(line bloom.Line) (TX, bool) {
	if w := d.llc.find(line); w != nil && w.tagged {
		return w.tx, true
	}
	return 0, false
}
