package race

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// Cache keeps what clients on one thread know of a table's directory. It may be out of date: the metadata of
// a subtable, which each operation reads, tells.
type Cache struct {
	bits    int
	entries []known // by as many low bits of the hash
}

// known is a subtable.
type known struct {
	ptr   rtx.Ptr // 0: not known
	depth int
	block uint64 // its data pointer, or its version where objects are changed in place
	at    int    // the offset of its block
}

// maxBits bounds a cache: subtables that lie deeper are looked up each time.
const maxBits = 20

// NewCache makes one that knows nothing.
func NewCache() *Cache { return &Cache{entries: make([]known, 1)} }

func (c *Cache) get(h uint64) *known { return &c.entries[h&(1<<c.bits-1)] }

func (c *Cache) put(h uint64, k known) {
	for c.bits < min(k.depth, maxBits) {
		c.entries = append(c.entries, c.entries...)
		c.bits++
	}
	if k.depth > c.bits {
		return
	}
	for i := h & (1<<k.depth - 1); i < uint64(len(c.entries)); i += 1 << k.depth {
		c.entries[i] = k
	}
}

// The root object: the first page 8 | mark 8 | classes of records and of subtables 8
const (
	rootPage   = 0
	rootMark   = 8
	rootClass  = 16
	formatMark = 0x4543_4152_4853_4100 // "\0ASHRACE", and a byte for the form
)

func (t *Table) mark() uint64 {
	if t.f.versions {
		return formatMark | 1
	}
	return formatMark
}

// Describe reads what records a table that is there has.
func Describe(tx Tx, root rtx.Ptr) (cfg Config, there bool, err error) {
	b, err := tx.Read(root)
	if err != nil || b == nil {
		return Config{}, false, err
	}
	w := word(b, rootMark)
	if w&^1 != formatMark {
		return Config{}, false, fmt.Errorf("%w: its root says %#x, which is no table of RACE", ErrFormat, w)
	}
	return Config{Versions: w&1 == 1, Records: int(word(b, rootClass) & 0xFF), Tables: int(word(b, rootClass) >> 8)}, true, nil
}

// transact runs a transaction of the client. Whatever the caller had begun is begun anew: it was empty.
func (t *Table) transact(f *fiber.Fiber, view bool, body func(tx Tx) error) error {
	err := t.over.transact(f, view, body)
	if t.c.Broken() == nil {
		t.over.anew(f)
	}
	return err
}

// create makes the table with one subtable, unless it is there.
func (t *Table) create(f *fiber.Fiber) error {
	return t.transact(f, false, func(tx Tx) error {
		cfg, there, err := Describe(tx, t.root)
		if err != nil {
			return err
		}
		if there {
			if cfg.Versions != t.f.versions || cfg.Records != t.cfg.Records || cfg.Tables != t.cfg.Tables {
				return fmt.Errorf("%w: it was made with %+v", ErrFormat, cfg)
			}
			return nil
		}
		sub, value, err := tx.Alloc(t.cfg.Tables)
		if err != nil {
			return err
		}
		setHeaders(value, t.groups, 0, 0)
		page, value, err := tx.Alloc(t.cfg.Tables)
		if err != nil {
			return err
		}
		for i := range pageEntries {
			setWord(value, 8*i, entryWord(sub, 0, false))
		}
		b, err := tx.Write(t.root, 0)
		if err != nil {
			return err
		}
		setWord(b, rootPage, uint64(page))
		setWord(b, rootMark, t.mark())
		setWord(b, rootClass, uint64(t.cfg.Tables)<<8|uint64(t.cfg.Records))
		return nil
	})
}

// doomed is what a transaction sees that does not fit together: its view is out of date.
func doomed() error { return proto.Aborting(proto.ReasonValidation) }

// step is a page on the way to a subtable, and the entry there.
type step struct {
	page  rtx.Ptr
	level int
	index int
	entry uint64
}

// walk finds the entry that names the subtable of a hash.
func (t *Table) walk(tx Tx, h uint64) (step, error) {
	b, err := tx.Read(t.root)
	if err != nil {
		return step{}, err
	}
	if b == nil {
		return step{}, fmt.Errorf("%w: it has no root", ErrFormat)
	}
	s := step{page: rtx.Ptr(word(b, rootPage))}
	for ; s.level*levelBits < maxDepth; s.level++ {
		value, err := tx.Read(s.page)
		if errors.Is(err, rtx.ErrUsage) || err == nil && len(value) < 8*pageEntries {
			return step{}, doomed()
		}
		if err != nil {
			return step{}, err
		}
		s.index = int(h >> (levelBits * s.level) & (pageEntries - 1))
		s.entry = word(value, 8*s.index)
		if s.entry&entryBit == 0 {
			return step{}, doomed()
		}
		if !entryPage(s.entry) {
			return s, nil
		}
		s.page = entryPtr(s.entry)
	}
	return step{}, doomed()
}

// locate finds the subtable of a hash, in the cache if it may.
func (t *Table) locate(f *fiber.Fiber, h uint64) (known, error) {
	if k := t.cache.get(h); k.ptr != 0 {
		return *k, nil
	}
	var k known
	if t.plain != nil {
		s, err := t.walkPlain(f, h)
		k.ptr, k.depth = entryPtr(s.entry), entryDepth(s.entry)
		if err == nil {
			k.at = t.plain.Place(k.ptr)
			t.cache.put(h, k)
		}
		return k, err
	}
	err := t.transact(f, true, func(tx Tx) error {
		s, err := t.walk(tx, h)
		k.ptr, k.depth = entryPtr(s.entry), entryDepth(s.entry)
		return err
	})
	if err != nil {
		return known{}, err
	}
	if t.rx == nil {
		f.Step(stepLocated)
	}
	for n := 0; ; n++ {
		t.b.Reset()
		t.read(f, t.metaAt, t.over.metaAt(k.ptr), 16)
		if err := t.await(f); err != nil {
			return known{}, err
		}
		w := t.word(t.metaAt)
		if !t.over.locked(w) {
			break
		}
		if err := t.over.meet(f, k.ptr, w, n); err != nil {
			return known{}, err
		}
	}
	class := 0
	k.block = t.word(t.metaAt + 8)
	if class, k.at = t.over.blockOf(k.ptr, k.block); class != t.cfg.Tables {
		return known{}, t.corrupt("the directory names object %d, of class %d", k.ptr, class)
	}
	// It may have been split since the directory was read: then its headers say so.
	t.cache.put(h, k)
	return k, nil
}
