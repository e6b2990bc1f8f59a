package sherman

import "drtmd/proto/rtx"

// rootClass is that of the object that names the root: the smallest.
const rootClass = 0

// Insert adds a key; false: it is there already, and has the entry that is returned.
func (t *Tree) Insert(tx Tx, key, value uint64) (Entry, bool, error) {
	if key == NoKey {
		return Entry{}, false, rtx.ErrUsage
	}
	p, n, err := t.findTo(tx, key, 0, Tx.ReadToUpdate)
	if err != nil {
		return Entry{}, false, err
	}
	if n == nil {
		if p, n, err = t.plant(tx); err != nil {
			return Entry{}, false, err
		}
	}
	i, there := t.f.search(n, key)
	if there {
		return t.f.entry(n, i), false, nil
	}
	e := Entry{Key: key, Value: value}
	if count(n) == t.f.leaf {
		if p, err = t.split(tx, p, 0, key); err != nil {
			return Entry{}, false, err
		}
	}
	if n, err = tx.Update(p); err != nil {
		return Entry{}, false, err
	}
	i, _ = t.f.search(n, key)
	e.Version = t.f.fresh(n)
	t.f.put(n, i, e)
	return e, true, nil
}

// plant makes the first leaf. Two that do so at once conflict on the object that names the root.
func (t *Tree) plant(tx Tx) (rtx.Ptr, []byte, error) {
	p, n, err := tx.Alloc(t.cfg.Class)
	if err != nil {
		return 0, nil, err
	}
	setHead(n, 0, 0, 0, NoKey)
	return p, n, t.setTop(tx, p, 0)
}

// setTop makes a node the root.
func (t *Tree) setTop(tx Tx, p rtx.Ptr, level int) error {
	if t.bug == bugRootByWrite && level > 0 {
		return t.setTopAtOnce(tx, p, level)
	}
	b, err := tx.Write(t.root, rootClass)
	if err != nil {
		return err
	}
	t.putTop(b, p, level)
	return nil
}

func (t *Tree) putTop(b []byte, p rtx.Ptr, level int) {
	setWord(b, 0, uint64(p))
	setWord(b, 8, uint64(level))
	setWord(b, rootFormat, formatWord(t.f.versions))
	t.cache.root = 0
}

// overwriter is a transaction that can change an object outside itself.
type overwriter interface {
	Overwrite(p rtx.Ptr, change func(value []byte)) error
}

// setTopAtOnce is setTop of a mutation.
func (t *Tree) setTopAtOnce(tx Tx, p rtx.Ptr, level int) error {
	o, ok := tx.(overwriter)
	if !ok {
		return rtx.ErrUsage
	}
	return o.Overwrite(t.root, func(value []byte) { t.putTop(value, p, level) })
}

// split moves the upper half of a full node to a new one on its right, tells the parent, which may split too, and
// returns the half that has the key.
func (t *Tree) split(tx Tx, p rtx.Ptr, level int, key uint64) (rtx.Ptr, error) {
	q, upper, err := tx.Alloc(t.cfg.Class)
	if err != nil {
		return 0, err
	}
	lower, err := tx.Update(p)
	if err != nil {
		return 0, err
	}
	t.cache.drop(p)
	all := count(lower)
	half := all / 2
	at := t.f.at
	if level > 0 {
		at = innerAt
	}
	middle := word(lower, at(half))
	copy(upper, lower[:at(0)])
	copy(upper[at(0):], lower[at(half):at(all)])
	setCount(upper, all-half)
	setHead(lower, q, half, level, middle)
	if t.bug != bugParentApart {
		if err := t.tellParent(tx, p, q, level, middle); err != nil {
			return 0, err
		}
	}
	if key >= middle {
		return q, nil
	}
	return p, nil
}

// tellParent adds a node to the level above that of its left half.
func (t *Tree) tellParent(tx Tx, left, p rtx.Ptr, level int, key uint64) error {
	top, height, err := t.top(tx)
	if err != nil {
		return err
	}
	if height == level {
		if top != left {
			return doomed()
		}
		q, n, err := tx.Alloc(t.cfg.Class)
		if err != nil {
			return err
		}
		setHead(n, 0, 2, level+1, NoKey)
		setWord(n, innerAt(0), 0)
		setWord(n, innerAt(0)+8, uint64(left))
		setWord(n, innerAt(1), key)
		setWord(n, innerAt(1)+8, uint64(p))
		return t.setTop(tx, q, level+1)
	}
	parent, n, err := t.find(tx, key, level+1)
	if err != nil {
		return err
	}
	if n == nil {
		return doomed()
	}
	if count(n) == t.f.inner {
		if parent, err = t.split(tx, parent, level+1, key); err != nil {
			return err
		}
	}
	if n, err = tx.Update(parent); err != nil {
		return err
	}
	t.cache.drop(parent)
	t.f.putChild(n, key, p)
	return nil
}
