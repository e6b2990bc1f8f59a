package extent

import (
	"errors"
	"fmt"

	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs"
)

// Table is one extent as a worker sees it.
type Table interface {
	Find(key uint64) (off int, ok bool)
	FindIn(r *htm.Region, key uint64) (off int, found, ok bool)
}

// Views are the extents of a table, of type T, as one worker sees them.
type Views[C Config[C], T Table] struct {
	Growth *Growth[C]
	// Tables are the worker's views, by extent. Sync adds those that others have made.
	Tables []T
	// beyond are the regions of the extents but the first: that of extent i is beyond[i-1].
	beyond []verbs.RemoteMR
	// Broken is why an extent could not be opened.
	Broken error

	first   *htm.Memory // of extent 0
	openers Openers[C, T]
}

// Openers make a worker's view of a table.
type Openers[C Config[C], T Table] struct {
	Format, Attach func(C, *htm.Memory, int) (T, error)
	// View is the worker's view of an extent's memory.
	View func(*verbs.MR) (*htm.Memory, error)
}

// Open gives a worker its views. t is that of the first extent, and m its memory. The first worker of a node
// whose memory has outlived a process says kept: it finds the extents that there were.
func Open[C Config[C], T Table](g *Growth[C], t T, m *htm.Memory, kept bool, o Openers[C, T]) (*Views[C, T], error) {
	x := &Views[C, T]{Growth: g, Tables: []T{t}, first: m, openers: o}
	g.mu.Lock()
	var err error
	if kept && g.extents == nil {
		err = g.recover(m)
	}
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !x.Sync() {
		return nil, x.Broken
	}
	return x, nil
}

// Sync opens the extents that others have added; false if it cannot.
func (x *Views[C, T]) Sync() bool {
	if len(x.Tables) == int(x.Growth.count.Load()) {
		return true
	}
	return x.open()
}

func (x *Views[C, T]) open() bool {
	g := x.Growth
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(x.Tables); i < int(g.count.Load()); i++ {
		e := g.extents[i-1]
		if err := x.attach(x.openers.Attach, e.config, e.mr); err != nil {
			x.Broken = err
			return false
		}
	}
	return true
}

// attach adds the worker's view of an extent.
func (x *Views[C, T]) attach(open func(C, *htm.Memory, int) (T, error), c C, mr *verbs.MR) error {
	m, err := x.openers.View(mr)
	if err == nil {
		var t T
		if t, err = open(c, m, 0); err == nil {
			x.Tables, x.beyond = append(x.Tables, t), append(x.beyond, mr.Remote())
			return nil
		}
	}
	return fmt.Errorf("table %q, extent %d: %w", c.TableName(), len(x.Tables), err)
}

// Grow adds an extent, unless another worker has done so meanwhile. Not inside a region.
func (x *Views[C, T]) Grow() error {
	g := x.Growth
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(x.Tables) < int(g.count.Load()) {
		return nil
	}
	if x.Broken != nil {
		return x.Broken
	}
	c, err := g.plan()
	if err != nil {
		return err
	}
	mr, err := g.cfg.Alloc(len(x.Tables), c.Bytes())
	if err != nil {
		g.cfg.Bound.used.Add(-int64(c.Bytes()))
		return fmt.Errorf("table %q, extent %d of %d bytes: %w", c.TableName(), len(x.Tables), c.Bytes(), err)
	}
	undo := func(err error) error {
		g.cfg.Bound.used.Add(-int64(c.Bytes()))
		return errors.Join(err, mr.Close())
	}
	if err := x.attach(x.openers.Format, c, mr); err != nil {
		return undo(err)
	}
	g.extents = append(g.extents, extent[C]{c, mr})
	n := len(x.Tables)
	if err := g.publish(x.first, n-1); err != nil {
		x.Tables, x.beyond, g.extents = x.Tables[:n-1], x.beyond[:n-2], g.extents[:n-2]
		return undo(err)
	}
	g.count.Store(int32(n))
	return nil
}

// Find is T's Find, which the newest extent does first: it is the largest.
func (x *Views[C, T]) Find(key uint64) (place int, ok bool) {
	if !x.Sync() {
		return 0, false
	}
	for i := len(x.Tables) - 1; i >= 0; i-- {
		if off, ok := x.Tables[i].Find(key); ok {
			return layout.MakePlace(i, off), true
		}
	}
	return 0, false
}

// FindIn is T's FindIn in the same order. If no extent has the key, others may have been added: see Whole.
func (x *Views[C, T]) FindIn(r *htm.Region, key uint64) (place int, found, ok bool) {
	if !x.Ready(r) {
		return 0, false, false
	}
	for i := len(x.Tables) - 1; i >= 0; i-- {
		if off, found, ok := x.Tables[i].FindIn(r, key); found || !ok {
			return layout.MakePlace(i, off), found, ok
		}
	}
	return 0, false, true
}

// Resolve is the address of a place (layout.MakePlace) in an extent but the first, and the key to the memory
// there.
func (x *Views[C, T]) Resolve(place int) (addr uint64, rkey uint32) {
	i, off := layout.SplitPlace(place)
	r := &x.beyond[i-1]
	return r.Addr + uint64(off), r.RKey
}

// Ready opens new extents; a region that cannot have them is aborted.
func (x *Views[C, T]) Ready(r *htm.Region) bool {
	if !x.Sync() {
		r.Abort(words.AbortCorrupt)
		return false
	}
	return true
}

// Whole reports whether the worker knows all extents that there are, and has that protected. first is access
// to the first extent, in the region r; a region that began before the table grew is aborted.
func Whole[C Config[C], T Table, A words.Access](x *Views[C, T], r *htm.Region, first A) (ok bool) {
	n, ok := first.Load(x.Growth.LineAt(0))
	if ok && int(n) != len(x.Tables) {
		if r != nil {
			r.Abort(AbortGrown)
		}
		return false
	}
	return ok
}

// AbortGrown aborts a region that began before the table grew; begin it again.
const AbortGrown uint8 = 0xc2
