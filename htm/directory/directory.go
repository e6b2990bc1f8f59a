package directory

import (
	"drtmd/htm/bloom"
	"drtmd/internal/invariant"
)

// Directory is that of one node.
type Directory struct {
	cfg     Config
	buffers *Buffers
	cores   []core
	txs     []transaction
	llc     shared
	clock   uint64 // counts accesses: the order of uses
	found   []bloom.Line
	probed  []TX
	stats   Stats
}

// core has the private caches.
type core struct {
	l1, l2     private
	current    TX // whose access was the last, or Nobody
	generation uint32
}

// Nobody is no local transaction.
const Nobody TX = -1

// transaction is a pair of filters with the transaction that has it.
type transaction struct {
	active      bool
	core        int
	read, write *bloom.Filter
	// reads are the lines in the read filter. Hardware does not have them: they tell false conflicts from
	// real ones, and nothing else.
	reads []bloom.Line
}

const shadowReads = 128

// Stats count what a Directory did.
type Stats struct {
	Accesses       uint64 // of local transactions
	Private        uint64 // of these, served by a private cache
	Misses         uint64 // of these, served by memory
	Remote         uint64 // accesses of NICs
	WriteBacks     uint64 // dirty lines before a transaction's first write
	Evictions      uint64 // of lines from the LLC
	Checks         uint64 // of a line against one filter of a local transaction
	FalseConflicts uint64 // of these, positive by mistake
	Compared       uint64 // lines, each with all filters of local transactions at once
	Squashes       [reasonEnd]uint64
}

// New makes a Directory with empty caches.
func New(c Config) (*Directory, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	buffers, err := NewBuffers(c.Buffers, c.Hooks.Unlocked, c.Mutation)
	if err != nil {
		return nil, err
	}
	sets := c.Cores * c.LLC.Sets
	d := &Directory{cfg: c, buffers: buffers, cores: make([]core, c.Cores), txs: make([]transaction, c.Transactions()),
		llc:    shared{sets: uint64(sets), ways: c.LLC.Ways, lines: make([]sharedLine, sets*c.LLC.Ways)},
		probed: make([]TX, 0, c.Transactions())}
	for i := range d.cores {
		d.cores[i] = core{l1: newPrivate(c.L1), l2: newPrivate(c.L2), current: Nobody}
	}
	for i := range d.txs {
		t := &d.txs[i]
		if t.read, err = bloom.New(c.Read); err != nil {
			return nil, err
		}
		if t.write, err = bloom.New(c.Write); err != nil {
			return nil, err
		}
		t.reads = make([]bloom.Line, 0, shadowReads)
	}
	return d, nil
}

// Buffers are the Locking Buffers.
func (d *Directory) Buffers() *Buffers { return d.buffers }

// Stats of the directory.
func (d *Directory) Stats() Stats { return d.stats }

// Begin takes a pair of filters for a transaction on a core. It reports false if the core's are all taken: no
// transaction begins there until another one of that core has ended (§VI).
func (d *Directory) Begin(on int) (TX, bool) {
	m := d.cfg.PerCore
	for i := on * m; i < (on+1)*m; i++ {
		if t := &d.txs[i]; !t.active {
			t.active, t.core = true, on
			return TX(i), true
		}
	}
	return 0, false
}

// Active reports whether a transaction is under way.
func (d *Directory) Active(tx TX) bool { return d.txs[tx].active }

// Filters are those of a transaction. They are the directory's; Locking Buffers copy them.
func (d *Directory) Filters(tx TX) (read, write *bloom.Filter) {
	return d.txs[tx].read, d.txs[tx].write
}

// Geometries are those of the filters of a local transaction.
func (d *Directory) Geometries() (read, write bloom.Geometry) { return d.cfg.Read, d.cfg.Write }

// enter makes a transaction the one that runs on its core. A switch from another one clears the filter bits.
func (d *Directory) enter(c *core, tx TX) {
	if c.current != tx {
		if c.current != Nobody && d.cfg.Mutation != BitsKeptOverSwitch {
			c.generation++
		}
		c.current = tx
	}
}

// Find gives the lines that a transaction has written, by its write filter and the tags of the LLC, and the
// cycles that it takes (Figure 8). The list is valid until the next Find, Commit or Squash.
func (d *Directory) Find(tx TX) ([]bloom.Line, int) {
	d.found = d.found[:0]
	d.each(tx, func(w *sharedLine) { d.found = append(d.found, bloom.Line(w.stored)-1) })
	return d.found, d.cfg.Find.of(len(d.found))
}

// each calls for the ways that have a transaction's tag: those of the sets that its write filter enables.
func (d *Directory) each(tx TX, do func(w *sharedLine)) {
	filter := d.txs[tx].write
	if filter.Lines() == 0 {
		return
	}
	step := filter.Geometry().IndexBits
	for group := filter.NextGroup(0); group >= 0; group = filter.NextGroup(group + 1) {
		for number := group; number < int(d.llc.sets); number += step {
			set := d.llc.set(number)
			for i := range set {
				if w := &set[i]; w.stored != 0 && w.tagged && w.tx == tx {
					do(w)
				}
			}
		}
	}
}

// Commit ends a transaction that nothing can squash any more: its lines lose their tags and are everyone's,
// and its pair of filters is free. It gives the cycles of finding the lines. Its Locking Buffer stays.
func (d *Directory) Commit(tx TX) (cycles int) {
	cycles = d.Untag(tx)
	d.end(tx)
	return cycles
}

// Untag makes the lines that a transaction has written everyone's, and keeps its pair of filters until Commit: nothing can
// squash it any more.
func (d *Directory) Untag(tx TX) (cycles int) {
	lines := 0
	d.each(tx, func(w *sharedLine) {
		w.tagged, w.dirty = false, true
		lines++
	})
	return d.cfg.Find.of(lines)
}

// Squash ends a transaction without an effect: the lines that it has written are dropped, and its pair of
// filters is free. Its Locking Buffer stays. Squashing what is not active does nothing.
func (d *Directory) Squash(tx TX, why Reason) {
	t := &d.txs[tx]
	if !t.active {
		return
	}
	c := &d.cores[t.core]
	d.each(tx, func(w *sharedLine) {
		c.drop(bloom.Line(w.stored) - 1)
		*w = sharedLine{}
	})
	d.end(tx)
	d.stats.Squashes[why]++
	if h := d.cfg.Hooks.Squashed; h != nil {
		h(tx, why)
	}
}

// end frees the pair of filters.
func (d *Directory) end(tx TX) {
	t := &d.txs[tx]
	invariant.Assert(t.active, "directory: a transaction ends twice")
	t.read.Clear()
	t.write.Clear()
	t.reads = t.reads[:0]
	t.active = false
	if c := &d.cores[t.core]; c.current == tx {
		c.current = Nobody
		c.generation++
	}
}
