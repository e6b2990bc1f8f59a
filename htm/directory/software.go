package directory

import (
	"drtmd/htm/bloom"
	"drtmd/internal/invariant"
)

// Software is an access of a core that no hardware transaction makes, as all of HADES-H are: nothing is tagged and no
// filter has it. Locking Buffers are not asked, as a private cache may serve it: Buffers.Denies.
func (d *Directory) Software(on int, line bloom.Line, write bool) Access {
	invariant.Assert(line < maxLines, "directory: the line is behind 256 GB")
	d.clock++
	d.stats.Accesses++
	c := &d.cores[on]
	if level, ok := c.serves(line, 0, d.clock); ok && !(write && d.shared(on, line)) {
		d.stats.Private++
		if write {
			d.spoil(line)
		}
		return Access{Granted, level, c.cyclesOf(level)}
	}
	level, cycles := InLLC, d.cfg.LLC.Cycles
	w := d.llc.find(line)
	if w == nil {
		level, cycles = InMemory, cycles+d.cfg.Memory
		d.stats.Misses++
		w = d.fill(line)
	}
	w.used = d.clock
	if write {
		d.spoil(line)
		d.dropCopies(line)
	}
	c.l1.take(line).used = d.clock
	c.l2.take(line).used = d.clock
	return Access{Granted, level, cycles}
}

// shared reports whether another core has a copy of a line.
func (d *Directory) shared(on int, line bloom.Line) bool {
	for i := range d.cores {
		if c := &d.cores[i]; i != on && (c.l1.find(line) != nil || c.l2.find(line) != nil) {
			return true
		}
	}
	return false
}

// spoil notes that memory has an older value of a line.
func (d *Directory) spoil(line bloom.Line) {
	if w := d.llc.find(line); w != nil {
		invariant.Assert(!w.tagged, "directory: software writes a line that a transaction has written")
		w.dirty = true
	}
}

// Reread is a read of software that has to reach the directory: no private cache serves it.
func (d *Directory) Reread(line bloom.Line) Access {
	d.clock++
	d.stats.Accesses++
	return d.served(d.llc.find(line))
}
