package sherman

import (
	"errors"
	"fmt"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// NoKey is above all keys, and is none.
const NoKey = ^uint64(0)

// NodeBytes is the size of the paper's nodes, as a class of blocks.
const NodeBytes = 1024

// Memory is a client of the memory that a tree is in: an rtx.Client, or one of another system.
type Memory interface {
	Payload(class int) int
	Root(i int) rtx.Ptr
}

// Tx is a transaction that operations are part of: see rtx.Tx.
type Tx interface {
	Read(p rtx.Ptr) ([]byte, error)
	// ReadToUpdate is Read of an object that an Update follows.
	ReadToUpdate(p rtx.Ptr) ([]byte, error)
	Update(p rtx.Ptr) ([]byte, error)
	Write(p rtx.Ptr, class int) ([]byte, error)
	Alloc(class int) (rtx.Ptr, []byte, error)
	Confirm(p rtx.Ptr) (bool, error)
	Forget()
	Fiber() *fiber.Fiber // that it runs on
}

// Config of a Tree. All clients of a tree have the same but for Cache.
type Config struct {
	Root  int // the root object of the memory that names the tree's root
	Class int // of the nodes
	// Versions: entries have versions.
	Versions bool
	// Cache keeps internal nodes, for all trees on the thread's clients that are the same tree; nil: one of
	// DefaultCacheNodes for this Tree.
	Cache *Cache
	// Mutation switches a deliberate bug on; "" is none.
	Mutation string
}

// DefaultCacheNodes is the size of a cache that Config does not give.
const DefaultCacheNodes = 256

// bug is a deliberate one.
type bug uint8

const (
	bugNone bug = iota
	bugParentTrusted
	bugNoRightLink
	bugScanUnvalidated
	bugParentApart
	bugCopyUnconfirmed
	bugRootByWrite
)

var bugs = mutation.Table[bug]{
	{Name: "none", Doc: "correct"},
	bugParentTrusted:   {Name: "cached-parent-trusted", Doc: "the leaf that a cached node names is not checked for the key"},
	bugNoRightLink:     {Name: "right-link-not-followed", Doc: "a scan ends with its first leaf"},
	bugScanUnvalidated: {Name: "scan-without-validation", Doc: "the leaves of a scan are validated one by one, not together"},
	bugCopyUnconfirmed: {Name: "copy-not-confirmed",
		Doc: "a copy of an internal node is kept that was read while it may have been changed"},
	bugRootByWrite: {Name: "root-pointer-by-write",
		Doc: "a new root is named by a WRITE at once, not by the transaction that makes it"},
	bugParentApart: {Name: "split-updates-parent-outside-rtx",
		Doc: "a split leaves its parent to a later transaction, which never comes"},
}

// Mutations lists the deliberate bugs.
func Mutations() []mutation.Mutation { return bugs.List("sherman") }

// Entry is a key with its value. Version is 0 without Config.Versions.
type Entry struct {
	Key, Value, Version uint64
}

// Tree is one client's way to a tree.
type Tree struct {
	cfg   Config
	bug   bug
	root  rtx.Ptr // the object that names the root
	f     format
	cache *Cache
}

// Bounds of loops over nodes that a transaction sees while they change.
const (
	maxLevels = 16
	maxRight  = 256
	// maxHops is how often find goes right: more often, the cache is so old that a way from the root is shorter,
	// which needs no hop unless the view is out of date.
	maxHops = 8
)

// Open makes a way to a tree, which need not have a root yet.
func Open(c Memory, cfg Config) (*Tree, error) {
	bytes := c.Payload(cfg.Class)
	if cfg.Cache == nil {
		cfg.Cache = NewCache(DefaultCacheNodes, bytes)
	}
	t := &Tree{cfg: cfg, cache: cfg.Cache, root: c.Root(cfg.Root), f: newFormat(bytes, cfg.Versions)}
	if t.f.leaf < 4 || t.f.inner < 4 || t.f.leaf > 255 {
		return nil, fmt.Errorf("%w: nodes of %d bytes have room for %d entries, of 4..255", rtx.ErrUsage, bytes, t.f.leaf)
	}
	var err error
	if t.bug, err = bugs.Find(cfg.Mutation); err != nil {
		return nil, err
	}
	return t, nil
}

// doomed is what a transaction sees that does not fit together: its view is out of date.
func doomed() error { return proto.Aborting(proto.ReasonValidation) }

// ErrFormat: a tree has entries of another form than its user expects.
var ErrFormat = errors.New("wrong tree")

// Root object: root 8 | its level 8 | mark, and 1 if entries have versions 8.
const (
	rootFormat = 16
	formatMark = 0x5348_4552_4d41_4e00 // "SHERMAN", and a byte for the form
)

func formatWord(versions bool) uint64 {
	if versions {
		return formatMark | 1
	}
	return formatMark
}

// Versions reports whether the entries of a tree that is there have versions.
func Versions(tx Tx, root rtx.Ptr) (versions, there bool, err error) {
	b, err := tx.Read(root)
	if err != nil || b == nil {
		return false, false, err
	}
	w := word(b, rootFormat)
	if w&^1 != formatMark {
		return false, false, fmt.Errorf("%w: its root says %#x, which is no tree's", ErrFormat, w)
	}
	return w&1 == 1, true, nil
}

// top is the root and its level; 0: there is none.
func (t *Tree) top(tx Tx) (rtx.Ptr, int, error) {
	b, err := tx.Read(t.root)
	if err != nil || b == nil {
		return 0, 0, err
	}
	p, level := rtx.Ptr(word(b, 0)), int(word(b, 8))
	if got, want := word(b, rootFormat), formatWord(t.f.versions); got != want {
		return 0, 0, fmt.Errorf("%w: its root says %#x, not %#x: versions or none", ErrFormat, got, want)
	}
	if level >= maxLevels {
		return 0, 0, doomed()
	}
	return p, level, nil
}

// find is the node of a level that has the key, read by the transaction; nil: there is no tree yet.
func (t *Tree) find(tx Tx, key uint64, level int) (rtx.Ptr, []byte, error) {
	return t.findTo(tx, key, level, Tx.Read)
}

// findTo is find where the node is read in a certain way.
func (t *Tree) findTo(tx Tx, key uint64, level int, read func(Tx, rtx.Ptr) ([]byte, error)) (rtx.Ptr, []byte, error) {
	p, at, from := t.cache.root, t.cache.level, rtx.Ptr(0)
	if p == 0 || at < level {
		var err error
		if p, at, err = t.top(tx); err != nil || p == 0 || at < level {
			return 0, nil, err
		}
		ok, err := tx.Confirm(t.root)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			t.cache.root, t.cache.level = p, at
		}
	}
	for hops := 0; hops <= maxHops; {
		if at == level {
			n, err := t.readTo(tx, p, at, read)
			if err != nil {
				return 0, nil, err
			}
			if key < high(n) || t.bug == bugParentTrusted && from != 0 {
				return p, n, nil
			}
			t.forget(from)
			p, from = right(n), 0
			hops++
			continue
		}
		n := t.cache.get(p)
		if n == nil {
			var err error
			if n, err = t.read(tx, p, at); err != nil {
				return 0, nil, err
			}
			ok := t.bug == bugCopyUnconfirmed
			if !ok {
				if ok, err = tx.Confirm(p); err != nil {
					return 0, nil, err
				}
			}
			if ok {
				t.cache.put(p, n)
			}
		}
		if key >= high(n) {
			t.forget(from)
			p, from = right(n), 0
			hops++
			continue
		}
		from = p
		if p = t.f.child(n, key); p == 0 {
			return 0, nil, doomed()
		}
		at--
	}
	t.cache.clear()
	return 0, nil, doomed()
}

// forget drops what led too far to the left: a copy of a node, or of the root.
func (t *Tree) forget(from rtx.Ptr) {
	if from == 0 {
		t.cache.root = 0
		return
	}
	t.cache.drop(from)
}

// read reads a node that should be of a level.
func (t *Tree) read(tx Tx, p rtx.Ptr, level int) ([]byte, error) {
	return t.readTo(tx, p, level, Tx.Read)
}

func (t *Tree) readTo(tx Tx, p rtx.Ptr, level int, read func(Tx, rtx.Ptr) ([]byte, error)) ([]byte, error) {
	if p == 0 {
		return nil, doomed()
	}
	n, err := read(tx, p)
	if err != nil {
		if errors.Is(err, rtx.ErrUsage) {
			return nil, doomed() // a pointer from a view that is out of date
		}
		return nil, err
	}
	if n == nil || levelOf(n) != level || count(n) > t.f.room(level) {
		return nil, doomed()
	}
	return n, nil
}

// Get finds a key.
func (t *Tree) Get(tx Tx, key uint64) (Entry, bool, error) { return t.get(tx, key, Tx.Read) }

// GetToChange is Get of a key that the transaction is going to insert, update or delete.
func (t *Tree) GetToChange(tx Tx, key uint64) (Entry, bool, error) {
	return t.get(tx, key, Tx.ReadToUpdate)
}

func (t *Tree) get(tx Tx, key uint64, read func(Tx, rtx.Ptr) ([]byte, error)) (Entry, bool, error) {
	_, n, err := t.findTo(tx, key, 0, read)
	if err != nil || n == nil {
		return Entry{}, false, err
	}
	i, ok := t.f.search(n, key)
	if !ok {
		return Entry{}, false, nil
	}
	return t.f.entry(n, i), true, nil
}

// change is the leaf that has a key, for the transaction to change, and the key's index in it; nil: it is not there.
func (t *Tree) change(tx Tx, key uint64) ([]byte, int, error) {
	p, n, err := t.findTo(tx, key, 0, Tx.ReadToUpdate)
	if err != nil || n == nil {
		return nil, 0, err
	}
	i, ok := t.f.search(n, key)
	if !ok {
		return nil, 0, nil
	}
	n, err = tx.Update(p)
	return n, i, err
}

// Update changes the value of a key; false: it is not there. It returns the entry as it will be.
func (t *Tree) Update(tx Tx, key, value uint64) (Entry, bool, error) {
	n, i, err := t.change(tx, key)
	if err != nil || n == nil {
		return Entry{}, false, err
	}
	e := t.f.entry(n, i)
	e.Value, e.Version = value, e.Version+t.f.step()
	t.f.set(n, i, e)
	return e, true, nil
}

// Delete removes a key; false: it is not there. It returns the entry with the version of its absence.
func (t *Tree) Delete(tx Tx, key uint64) (Entry, bool, error) {
	n, i, err := t.change(tx, key)
	if err != nil || n == nil {
		return Entry{}, false, err
	}
	e := t.f.entry(n, i)
	e.Version = t.f.remove(n, i)
	return e, true, nil
}

// Scan calls each with the entries of keys from..to, both included, in ascending order, until it returns false. A
// transaction may scan as many leaves as rtx.Config has objects for.
func (t *Tree) Scan(tx Tx, from, to uint64, each func(Entry) bool) error {
	_, n, err := t.find(tx, from, 0)
	if err != nil || n == nil {
		return err
	}
	for range maxRight {
		i, _ := t.f.search(n, from)
		for ; i < count(n); i++ {
			e := t.f.entry(n, i)
			if e.Key > to || !each(e) {
				return nil
			}
		}
		if high(n) > to || high(n) == NoKey || t.bug == bugNoRightLink {
			return nil
		}
		if t.bug == bugScanUnvalidated {
			tx.Forget()
		}
		from = high(n)
		if n, err = t.read(tx, right(n), 0); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: a scan of more than %d leaves", rtx.ErrTooLarge, maxRight)
}

// Leaf calls each with the entries of the leaf that has a key, and gives the first key of the next leaf; false: there
// is none.
func (t *Tree) Leaf(tx Tx, key uint64, each func(Entry)) (next uint64, more bool, err error) {
	_, n, err := t.find(tx, key, 0)
	if err != nil || n == nil {
		return 0, false, err
	}
	for i := range count(n) {
		each(t.f.entry(n, i))
	}
	return high(n), high(n) != NoKey, nil
}
