package drtm

import (
	"bytes"
	"errors"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs/fiber"
)

// peekLooks bounds how often Peek reads a record that changes meanwhile or is locked.
const peekLooks = 64

// Peek reads one record outside of any transaction, as it was at one moment (§7.4's
// reconnaissance). It takes no lock and proves nothing.
func (e *Engine) Peek(f *fiber.Fiber, table proto.TableID, k proto.Key, dst []byte) error {
	if table == 0 || int(table) > len(e.cfg.Specs) {
		return proto.UnknownTable(table, k, len(e.cfg.Specs))
	}
	if want := e.cfg.Specs[table-1].ValueBytes; len(dst) != want {
		return proto.WrongSize(table, k, len(dst), want)
	}
	t := e.take(nil, 0)
	defer func() { e.free = append(e.free, t) }()
	t.decl = nil
	// Two images: a remote record is read twice.
	if err := t.buffer.grow(e.cfg.Worker.PD(), 2); err != nil {
		return err
	}
	n := layout.HeaderBytes + len(dst)
	for range peekLooks {
		it := item{table: table, key: k, image: t.buffer.mr.Bytes()[:n]}
		whole, err := t.peekOnce(f, &it)
		if err != nil {
			return err
		}
		key, v, s := it.decode()
		if whole && (!s.Locked() || e.lacks(PeekNoLock)) {
			presence := layout.Match(uint64(k), key, v)
			if e.lacks(PeekNoKeyCheck) {
				presence = layout.Live
			}
			switch presence {
			case layout.Live:
				copy(dst, it.value())
				return nil
			case layout.Absent:
				return proto.ErrNotFound
			}
		}
		if s.Locked() && key == uint64(k) {
			if err := e.met(&it, s); proto.AbortReason(err) == proto.ReasonOrphaned {
				return err
			}
		}
		if err := f.Yield(); err != nil {
			return err
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}

// peekOnce finds a record, copies it into its image, and reports whether the copy is of one moment.
func (t *tx) peekOnce(f *fiber.Fiber, it *item) (bool, error) {
	e, table, k, image := t.e, it.table, it.key, it.image
	node, err := proto.Home(e.cfg.Placement, table, k, len(e.cfg.Peers))
	if err != nil {
		return false, err
	}
	it.node = node
	if node == e.cfg.Node {
		off, found := e.cfg.Tables[table-1].Find(uint64(k))
		if !found {
			return false, proto.ErrNotFound
		}
		it.off = off
		return e.peek(f, off, image), nil
	}
	p := &e.cfg.Peers[node]
	there := p.Tables[table-1]
	found, _, err := e.client.Lookup(f, p.Conn, there, uint64(k), e.cfg.Cache)
	switch {
	case errors.Is(err, remote.ErrNotFound):
		return false, proto.ErrNotFound
	case errors.Is(err, remote.ErrUnstable):
		return false, nil
	case err != nil:
		return false, unreachable(f, err)
	}
	it.off = int(found.Off)
	// Twice, the second time the header only: see Engine.peek.
	was := f.Shield() // the buffer is in use until both are done
	t.batch.Reset()
	t.batch.Read(f, p.Conn, t.buffer.mr.SGE(0, len(image)), found.Addr, there.RKey())
	t.batch.Read(f, p.Conn, t.buffer.mr.SGE(t.buffer.stride, layout.HeaderBytes), found.Addr,
		there.RKey())
	err = t.batch.Await(f)
	f.Unshield(was)
	if err != nil {
		return false, unreachable(f, err)
	}
	again := t.buffer.mr.Bytes()[t.buffer.stride:][:layout.HeaderBytes]
	whole := bytes.Equal(again[:layout.StateOffset], image[:layout.StateOffset]) &&
		(&item{image: again}).unlocked() || e.lacks(PeekNoSecondLook)
	if whole && found.Cached {
		key, v, _ := (&item{image: image}).decode()
		if layout.Match(uint64(k), key, v) == layout.Stale {
			e.client.Invalidate(there, uint64(k), e.cfg.Cache)
		}
	}
	return whole, nil
}

// unlocked reports whether the image's state has no write lock.
func (it *item) unlocked() bool {
	_, _, s := it.decode()
	return !s.Locked()
}
