package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/verbs"
)

// Bound is what the extents of one node's tables may take, beside the memory that the tables begin
// with. Setting names it to who reads a refusal.
type Bound struct {
	Bytes   int64
	Setting string

	used atomic.Int64
}

// Used is what extents take.
func (b *Bound) Used() int64 { return b.used.Load() }

// take reserves memory, and reports whether there was so much.
func (b *Bound) take(n int) bool {
	if b.used.Add(int64(n)) <= b.Bytes {
		return true
	}
	b.used.Add(-int64(n))
	return false
}

// GrowthConfig of a table.
type GrowthConfig struct {
	// Table is the first extent; it Grows. Each further one has room for twice the records of the one
	// before, or for as many as Bound permits.
	Table Config
	// At is the offset of the table in the first region.
	At    int
	Bound *Bound
	// Alloc registers the memory of extent i: zeroed, or as it was if it outlives the process.
	// The Growth closes it.
	Alloc func(i, bytes int) (*verbs.MR, error)
}

// Growth is what the workers of a node share of a table that grows: its extents. A worker works with
// a Growing of it. It may be used by any goroutine.
type Growth struct {
	cfg   GrowthConfig
	count atomic.Int32 // extents that are in the directory

	mu      sync.Mutex // guards what follows, and orders changes of the directory
	extents []extent   // from extent 1 on
	refused error      // the last answer of Bound, for as long as it is true
	closed  bool
}

// extent is one beyond the first.
type extent struct {
	config Config
	mr     *verbs.MR
}

// What Grow ends with.
var (
	// ErrBound: more memory than Bound permits. It is an ErrFull.
	ErrBound error = &fullError{"table is full, and may not grow"}
	// ErrDirectory: the directory has no line left. It is an ErrFull.
	ErrDirectory error = &fullError{fmt.Sprintf("table is full: it has %d extents, and can have no more; "+
		"begin with a larger table", layout.MaxExtents)}
	// ErrContended: the directory could not be written, because others kept using its lines.
	ErrContended = errors.New("directory of extents stays in use; try again")
)

// NewGrowth prepares a table whose first extent Format or Attach has opened or will open. The Config
// is one that Check accepts.
func NewGrowth(cfg GrowthConfig) *Growth {
	invariant.Assert(cfg.Table.Grows && cfg.Bound != nil && cfg.Alloc != nil,
		"a table that grows has a bound, and memory to grow by")
	g := &Growth{cfg: cfg}
	g.count.Store(1)
	return g
}

// Extents is how many there are.
func (g *Growth) Extents() int { return int(g.count.Load()) }

// Bytes is the memory of the extents beyond the first.
func (g *Growth) Bytes() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.extents {
		n += x.mr.Len()
	}
	return n
}

// Close frees the memory of the extents. No worker uses them any more. It may be called twice.
func (g *Growth) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, x := range g.extents {
		if !g.closed {
			g.cfg.Bound.used.Add(-int64(x.mr.Len()))
		}
		errs = append(errs, x.mr.Close())
	}
	g.closed = true
	return errors.Join(errs...)
}

// plan sizes the next extent so that Bound permits it, and takes its memory. Locked.
func (g *Growth) plan() (Config, error) {
	last := g.cfg.Table
	if n := len(g.extents); n > 0 {
		last = g.extents[n-1].config
	}
	if len(g.extents)+1 == layout.MaxExtents {
		return Config{}, ErrDirectory
	}
	for records := 2 * last.Entries; ; records /= 2 {
		c := g.further(records)
		if c.Check() == nil && g.cfg.Bound.take(c.Bytes()) {
			g.refused = nil
			return c, nil
		}
		if records <= g.cfg.Table.Entries {
			return Config{}, g.refuse(c.Bytes())
		}
	}
}

// further is a further extent, for some records.
func (g *Growth) further(records int) Config {
	t := &g.cfg.Table
	c := For(t.ID, t.Name, t.ValueBytes, max(records, 1))
	c.KeyBytes, c.Layout, c.Mutation = t.KeyBytes, t.Layout, t.Mutation
	return c
}

// refuse says which setting does not permit an extent of n bytes. Locked.
func (g *Growth) refuse(n int) error {
	if g.refused == nil {
		b := g.cfg.Bound
		g.refused = fmt.Errorf("table %q: %w: another %d bytes would exceed %s = %d, of which %d are in "+
			"use; raise %s", g.cfg.Table.Name, ErrBound, n, b.Setting, b.Bytes, b.Used(), b.Setting)
	}
	return g.refused
}

// lineAt is the offset of line i of the directory.
func (g *Growth) lineAt(i int) int {
	return g.cfg.At + g.cfg.Table.tableBytes() + i*layout.LineBytes
}

// words describe extent i, which is there.
func (g *Growth) words(i int) layout.ExtentWords {
	x := g.extents[i-1]
	r := x.mr.Remote()
	e := layout.Extent{Addr: r.Addr, Length: r.Length, RKey: r.RKey,
		MainBuckets: uint64(x.config.MainBuckets), IndirectBuckets: uint64(x.config.IndirectBuckets),
		Entries: uint64(x.config.Entries), End: uint64(x.config.Bytes())}
	return e.Words(i)
}

// publishTries bounds how often a region that writes the directory is begun again.
const publishTries = 1000

// publish writes the lines of extents from on into the directory, and then how many there are. m is
// the memory of the first extent. Locked.
func (g *Growth) publish(m *htm.Memory, from int) error {
	n := len(g.extents) + 1
	if m.Words == nil {
		a := directOf(nil, baseOf(m))
		for i := from; i < n; i++ {
			for j, w := range g.words(i) {
				a.Store(g.lineAt(i)+8*j, w)
			}
		}
		a.Store(g.lineAt(0), uint64(n))
		return nil
	}
	r := htm.NewRegion(htm.Config{})
	for range publishTries {
		r.Begin()
		a := insideOf(r, m)
		for i := from; i < n; i++ {
			for j, w := range g.words(i) {
				a.Store(g.lineAt(i)+8*j, w)
			}
		}
		a.Store(g.lineAt(0), uint64(n))
		if r.Commit(nil) {
			return nil
		}
	}
	return ErrContended
}

// recover opens the extents that the directory of kept memory names, and tells it where they are in
// this life. m is the memory of the first extent. Locked.
func (g *Growth) recover(t *Table) error {
	n := int(t.word(g.lineAt(0)))
	if n == 1 {
		return nil
	}
	if n < 1 || n > layout.MaxExtents {
		return fmt.Errorf("table %q: %w: %d extents", g.cfg.Table.Name, ErrNotTable, n)
	}
	for i := 1; i < n; i++ {
		var w layout.ExtentWords
		for j := range w {
			w[j] = t.word(g.lineAt(i) + 8*j)
		}
		e, ok := w.Extent(i)
		c := g.further(1)
		c.MainBuckets, c.IndirectBuckets, c.Entries = int(e.MainBuckets), int(e.IndirectBuckets), int(e.Entries)
		if !ok || c.Check() != nil || uint64(c.Bytes()) != e.End {
			return fmt.Errorf("table %q: %w: the directory's line of extent %d is damaged", g.cfg.Table.Name,
				ErrNotTable, i)
		}
		if !g.cfg.Bound.take(c.Bytes()) {
			return g.refuse(c.Bytes())
		}
		mr, err := g.cfg.Alloc(i, c.Bytes())
		if err != nil {
			g.cfg.Bound.used.Add(-int64(c.Bytes()))
			return fmt.Errorf("table %q, extent %d: %w", g.cfg.Table.Name, i, err)
		}
		g.extents = append(g.extents, extent{c, mr})
	}
	if err := g.publish(t.m, 1); err != nil {
		return err
	}
	g.count.Store(int32(n))
	return nil
}
