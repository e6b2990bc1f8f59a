// Package extent lets a table grow by further memory regions. Such a table consists of extents: tables of one
// kind, each in a region of its own, which a directory behind the first one names (layout.Extent). Package
// store and package btree have tables that grow; what is the same in both is here: the list of extents that
// the workers of a node share (Growth), a worker's view of it (Views), the directory, the bound.
package extent

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/store/words"
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

// Config of a table of one kind, C itself.
type Config[C any] interface {
	Check() error
	Bytes() int
	TableName() string
	Room() int // records that there is room for
	// Further is a table of the same records, with room for some.
	Further(records int) C
	// Sizes are what the directory says of the table, beside where it is; Sized is a table that has them.
	Sizes() layout.Extent
	Sized(e *layout.Extent) C
}

// GrowthConfig of a table.
type GrowthConfig[C Config[C]] struct {
	// Table is the first extent. Each further one has room for twice the records of the one
	// before, or for as many as Bound permits.
	Table C
	// DirectoryAt is the offset of the directory in the first region.
	DirectoryAt int
	Bound       *Bound
	// Alloc registers the memory of extent i: zeroed, or as it was if it outlives the process.
	// The Growth closes it.
	Alloc func(i, bytes int) (*verbs.MR, error)
	Errors
}

// Errors are what Grow and Open wrap.
type Errors struct {
	Bound     error // more memory than Bound permits
	Directory error // the directory has no line left
	NotTable  error // the directory is damaged
}

// Growth is what the workers of a node share of a table that grows: its extents. It may be used by any
// goroutine.
type Growth[C Config[C]] struct {
	cfg   GrowthConfig[C]
	count atomic.Int32 // extents that are in the directory

	mu      sync.Mutex // guards what follows, and orders changes of the directory
	extents []extent[C]
	refused error // the last answer of Bound, for as long as it is true
	closed  bool
}

// extent is one beyond the first: extents[0] is extent 1.
type extent[C any] struct {
	config C
	mr     *verbs.MR
}

// ErrContended: the directory could not be written, because others kept using its lines.
var ErrContended = errors.New("directory of extents stays in use; try again")

// NewGrowth prepares a table whose first extent has been opened or will be.
func NewGrowth[C Config[C]](cfg GrowthConfig[C]) *Growth[C] {
	invariant.Assert(cfg.Bound != nil && cfg.Alloc != nil, "a table that grows has a bound, and memory to grow by")
	g := &Growth[C]{cfg: cfg}
	g.count.Store(1)
	return g
}

// Bound is what the extents share with those of other tables.
func (g *Growth[C]) Bound() *Bound { return g.cfg.Bound }

// Extents is how many there are.
func (g *Growth[C]) Extents() int { return int(g.count.Load()) }

// Bytes is the memory of the extents beyond the first.
func (g *Growth[C]) Bytes() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.extents {
		n += x.mr.Len()
	}
	return n
}

// MR is the memory of an extent beyond the first.
func (g *Growth[C]) MR(i int) *verbs.MR {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.extents[i-1].mr
}

// Close frees the memory of the extents. No worker uses them any more. It may be called twice.
func (g *Growth[C]) Close() error {
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
func (g *Growth[C]) plan() (c C, err error) {
	last := g.cfg.Table
	if n := len(g.extents); n > 0 {
		last = g.extents[n-1].config
	}
	if len(g.extents)+1 == layout.MaxExtents {
		return c, g.cfg.Errors.Directory
	}
	for records := 2 * last.Room(); ; records /= 2 {
		c = g.cfg.Table.Further(max(records, 1))
		if c.Check() == nil && g.cfg.Bound.take(c.Bytes()) {
			g.refused = nil
			return c, nil
		}
		if records <= g.cfg.Table.Room() {
			return c, g.refuse(c.Bytes())
		}
	}
}

// refuse says which setting does not permit an extent of n bytes. Locked.
func (g *Growth[C]) refuse(n int) error {
	if g.refused == nil {
		b := g.cfg.Bound
		g.refused = fmt.Errorf("table %q: %w: another %d bytes would exceed %s = %d, of which %d are in "+
			"use; raise %s", g.cfg.Table.TableName(), g.cfg.Errors.Bound, n, b.Setting, b.Bytes, b.Used(),
			b.Setting)
	}
	return g.refused
}

// LineAt is the offset of line i of the directory.
func (g *Growth[C]) LineAt(i int) int { return g.cfg.DirectoryAt + i*layout.LineBytes }

// words describe extent i, which is there.
func (g *Growth[C]) words(i int) layout.ExtentWords {
	x := g.extents[i-1]
	r, e := x.mr.Remote(), x.config.Sizes()
	e.Addr, e.Length, e.RKey, e.End = r.Addr, r.Length, r.RKey, uint64(x.config.Bytes())
	return e.Words(i)
}

// publishTries bounds how often a region that writes the directory is begun again.
const publishTries = 1000

// publish writes the lines of extents from on into the directory, and then how many there are. m is
// the memory of the first extent. Locked.
func (g *Growth[C]) publish(m *htm.Memory, from int) error {
	if m.Words == nil {
		publish(g, words.DirectOf(nil, m), from)
		return nil
	}
	r := htm.NewRegion(htm.Config{})
	for range publishTries {
		r.Begin()
		publish(g, words.Inside{R: r, M: m}, from)
		if r.Commit(nil) {
			return nil
		}
	}
	return ErrContended
}

func publish[C Config[C], A words.Access](g *Growth[C], a A, from int) {
	n := len(g.extents) + 1
	for i := from; i < n; i++ {
		for j, w := range g.words(i) {
			a.Store(g.LineAt(i)+8*j, w)
		}
	}
	a.Store(g.LineAt(0), uint64(n))
}

// recover opens the extents that the directory of kept memory names, and tells it where they are in
// this life. m is the memory of the first extent. Locked.
func (g *Growth[C]) recover(m *htm.Memory) error {
	a := words.DirectOf(nil, m)
	count, _ := a.Load(g.LineAt(0))
	n := int(count)
	if n == 1 {
		return nil
	}
	name := g.cfg.Table.TableName()
	if n < 1 || n > layout.MaxExtents {
		return fmt.Errorf("table %q: %w: %d extents", name, g.cfg.NotTable, n)
	}
	for i := 1; i < n; i++ {
		var w layout.ExtentWords
		for j := range w {
			w[j], _ = a.Load(g.LineAt(i) + 8*j)
		}
		e, ok := w.Extent(i)
		c := g.cfg.Table.Sized(&e)
		if !ok || c.Check() != nil || uint64(c.Bytes()) != e.End {
			return fmt.Errorf("table %q: %w: the directory's line of extent %d is damaged", name,
				g.cfg.NotTable, i)
		}
		if !g.cfg.Bound.take(c.Bytes()) {
			return g.refuse(c.Bytes())
		}
		mr, err := g.cfg.Alloc(i, c.Bytes())
		if err != nil {
			g.cfg.Bound.used.Add(-int64(c.Bytes()))
			return fmt.Errorf("table %q, extent %d: %w", name, i, err)
		}
		g.extents = append(g.extents, extent[C]{c, mr})
	}
	if err := g.publish(m, 1); err != nil {
		return err
	}
	g.count.Store(int32(n))
	return nil
}
