package race

import (
	"errors"
	"fmt"
	"math/bits"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Config of a Table. All clients of a table have the same but for Cache.
type Config struct {
	Root    int // the root object of the memory that names the table's directory
	Records int // class of the records' blocks: a key and its value must fit
	Tables  int // class of subtables and pages
	// Versions: records have versions.
	Versions bool
	// Cache is what is known of the directory, for all clients on the thread; nil: one for this Table.
	Cache *Cache
	// Mutation switches a deliberate bug on; "" is none.
	Mutation string
}

// Errors.
var (
	// ErrFormat: the root names no table, or one of other records.
	ErrFormat = errors.New("wrong table")
	// ErrRecord: a key or a value over the bound.
	ErrRecord = errors.New("record too large")
)

// Table is one client's way to a table.
type Table struct {
	c      Client
	over   transactional // c; nil: c is plain
	rx     *rtx.Client   // c; nil: c has other transactions, or none
	plain  Plain         // c; nil: c has transactions
	cfg    Config
	bug    bug
	f      format
	root   rtx.Ptr
	spread spread
	groups int
	cache  *Cache

	b     fiber.Batch
	mr    *verbs.MR
	stats Stats

	// Offsets in mr: both combined buckets, metadata, a word, the block to write, blocks that were read.
	bucketsAt, metaAt, wordAt, outAt, inAt, copyAt int

	recordBytes int
	tableBytes  int
	found       [2 * combinedSlots]slot
	shared      []shared // by slot of a subtable that is shared out
}

// slot is one that may have a key.
type slot struct {
	at   int // in the memory
	word uint64
}

const (
	combinedSlots = 2 * bucketSlots
	// together is how many records are read in one round trip.
	together = 8
	// attempts bounds what an operation does again before it is aborted.
	attempts = 1000
	// mostStale bounds how often a slot may name a block that has another record, though it is read anew each time.
	mostStale = 16
)

// Stats of a table's client. Its worker's thread writes them.
type Stats struct {
	Rehashes  uint64
	Unclear   uint64 // changes that met a rehash
	Killed    uint64 // tentative slots of others that were emptied
	Withdrawn uint64 // own ones
	Helped    uint64 // records of others that were settled
	Again     uint64 // look-ups that read their buckets again
}

// Stats of the table's client so far.
func (t *Table) Stats() *Stats { return &t.stats }

// Open makes a way to a table, and the table if there is none.
func Open(f *fiber.Fiber, c *rtx.Client, cfg Config) (*Table, error) {
	t, err := openOn(c, cfg)
	if err != nil {
		return nil, err
	}
	return t.created(f)
}

// created is the table, when it is there.
func (t *Table) created(f *fiber.Fiber) (*Table, error) {
	if err := t.create(f); err != nil {
		t.closeLater(f)
		return nil, err
	}
	return t, nil
}

func openOn(c *rtx.Client, cfg Config) (*Table, error) {
	t, err := open(c, cfg)
	if err == nil {
		t.over, t.rx = repairable{c}, c
	}
	return t, err
}

func open(c Client, cfg Config) (*Table, error) {
	t := &Table{c: c, cfg: cfg, f: format{cfg.Versions}, root: c.Root(cfg.Root), cache: cfg.Cache,
		recordBytes: c.ClassBytes(cfg.Records), tableBytes: c.ClassBytes(cfg.Tables)}
	var err error
	if t.bug, err = bugs.Find(cfg.Mutation); err != nil {
		return nil, err
	}
	if t.cache == nil {
		t.cache = NewCache()
	}
	t.groups = (t.tableBytes - groupsAt) / groupBytes
	if t.groups < 2 || t.tableBytes-valueAt < 8*pageEntries {
		return nil, fmt.Errorf("%w: subtables of %d bytes: take 576 or more", rtx.ErrUsage, t.tableBytes)
	}
	if t.recordBytes > maxLines*lineBytes {
		return nil, fmt.Errorf("%w: records of %d bytes, of up to %d", rtx.ErrUsage, t.recordBytes, maxLines*lineBytes)
	}
	at := 0
	take := func(n int) int {
		was := at
		at += align(n, lineBytes)
		return was
	}
	t.bucketsAt, t.metaAt, t.wordAt = take(2*combinedBytes), take(16), take(8)
	t.outAt, t.inAt, t.copyAt = take(t.recordBytes), take(together*t.recordBytes), take(t.tableBytes)
	pd, nodes, longest := c.Extent()
	t.spread.bits = bits.Len(uint(nodes - 1))
	if longest > lineBytes<<(32-t.spread.bits) {
		return nil, fmt.Errorf("%w: slots reach %d bytes of a memory node, of %d", rtx.ErrUsage,
			lineBytes<<(32-t.spread.bits), longest)
	}
	t.mr, err = pd.AllocMR(at, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	return t, err
}

// Close frees the table's memory. Nothing of it is in flight.
func (t *Table) Close() error { return t.mr.Close() }

// closeLater frees it unless something of it is in flight.
func (t *Table) closeLater(f *fiber.Fiber) {
	if t.c.Broken() == nil && f.Err() == nil {
		_ = t.mr.Close() // there is another error to tell
	}
}

func (t *Table) corrupt(form string, args ...any) error {
	return fmt.Errorf("%w: %s", rtx.ErrCorrupt, fmt.Sprintf(form, args...))
}

func (t *Table) word(at int) uint64 { return word(t.mr.Bytes(), at) }

func (t *Table) read(f *fiber.Fiber, to, place, n int) {
	conn, addr, rkey := t.c.Target(place)
	t.b.Read(f, conn, t.mr.SGE(to, n), addr, rkey)
}

func (t *Table) write(f *fiber.Fiber, from, place, n int) {
	conn, addr, rkey := t.c.Target(place)
	t.b.Write(f, conn, t.mr.SGE(from, n), addr, rkey)
}

// cas adds a compare-and-swap and returns its index in the batch.
func (t *Table) cas(f *fiber.Fiber, place int, expect, swap uint64) int {
	conn, addr, rkey := t.c.Target(place)
	t.b.CAS(f, conn, addr, rkey, expect, swap)
	return t.b.Len() - 1
}

// then has what is added to the batch from now on take effect after what is in it.
func (t *Table) then(f *fiber.Fiber) error {
	if t.rx == nil {
		return nil // one memory node
	}
	return t.rx.Then(f, &t.b)
}

func (t *Table) await(f *fiber.Fiber) error {
	if err := t.b.Await(f); err != nil {
		return t.c.Fail(err)
	}
	return nil
}

// Place is where a key is, or where it is not.
type Place struct {
	Found   bool
	Value   []byte // valid until the next operation
	Version uint64 // of the record, deleted or not; 0: there is none

	hash uint64
	in   known // the subtable
	slot slot  // 0: none has the key
	self uint64
	ref  uint64 // of the record: the slot of its block, and what it replaced, if it is not settled
	old  uint64
	open bool
	told uint64 // of the record: its settled word
}

// addLook adds the READs of a key's buckets to the batch, with the metadata of the subtable behind them.
func (t *Table) addLook(f *fiber.Fiber, k *known, h uint64) error {
	for i, at := range combined(h, t.groups) {
		t.read(f, t.bucketsAt+i*combinedBytes, k.at+at, combinedBytes)
	}
	return t.addCheck(f, k)
}

// lookNow is addLook, awaited.
func (t *Table) lookNow(f *fiber.Fiber, k *known, h uint64) error {
	if err := t.addLook(f, k, h); err != nil {
		return err
	}
	return t.await(f)
}

// addCheck adds the READ that tells whether what is before it in the batch was seen by all rehashes.
func (t *Table) addCheck(f *fiber.Fiber, k *known) error {
	if t.plain != nil {
		return nil
	}
	if err := t.then(f); err != nil {
		return err
	}
	t.read(f, t.metaAt, t.over.metaAt(k.ptr), 16)
	return nil
}

// checkNow is addCheck, awaited.
func (t *Table) checkNow(f *fiber.Fiber, k *known) error {
	if err := t.addCheck(f, k); err != nil {
		return err
	}
	return t.await(f)
}

// current reports whether the subtable was unlocked, and where it was.
func (t *Table) current(k *known) bool {
	if t.bug == bugNoLockCheck || t.plain != nil {
		return true
	}
	return !t.over.locked(t.word(t.metaAt)) && (t.word(t.metaAt+8) == k.block || t.bug == bugOldDirectory)
}

// look reads a key's buckets in its subtable, when that is unlocked.
func (t *Table) look(f *fiber.Fiber, h uint64) (known, error) {
	if t.plain != nil {
		return t.lookPlain(f, h)
	}
	for n, locked := 0, 0; ; n++ {
		k, err := t.locate(f, h)
		if err != nil {
			return known{}, err
		}
		t.b.Reset()
		if err := t.lookNow(f, &k, h); err != nil {
			return known{}, err
		}
		w := t.word(t.metaAt)
		switch {
		case t.over.locked(w):
			if err := t.over.meet(f, k.ptr, w, locked); err != nil {
				return known{}, err
			}
			locked++
			continue
		case t.current(&k) && t.headed(&k, h):
			return k, nil
		}
		t.stats.Again++
		t.cache.get(h).ptr = 0
		if n == attempts {
			return known{}, proto.Aborting(proto.ReasonLocked)
		}
	}
}

// valid is current after addLook.
func (t *Table) valid(k *known, h uint64) bool {
	if t.plain != nil {
		return t.headed(k, h)
	}
	return t.current(k)
}

// headed reports whether the buckets are of the subtable that has the hash.
func (t *Table) headed(k *known, h uint64) bool {
	want := header(k.depth, h)
	for at := t.bucketsAt; at < t.bucketsAt+2*combinedBytes; at += bucketBytes {
		if t.word(at) != want && t.bug != bugOldDirectory {
			return false
		}
	}
	return true
}

// slotOf is slot i of a key's buckets, as they were read: its offset in the memory, and its word.
func (t *Table) slotOf(k *known, h uint64, bucket [2]int, i int) slot {
	c := i / combinedSlots
	at := slotAt(i % combinedSlots)
	return slot{k.at + bucket[c] + at, t.word(t.bucketsAt + c*combinedBytes + at)}
}

// verdict of a search in buckets that were read.
type verdict uint8

const (
	absent verdict = iota + 1
	present
	changed // a record was used again meanwhile: read the buckets again
)

// search finds the key among the records that the buckets name. Tentative slots count only if they are asked for, and
// the one at own never.
func (t *Table) search(f *fiber.Fiber, k *known, h uint64, key []byte, own int, all bool) (Place, verdict, error) {
	bucket := combined(h, t.groups)
	n := 0
	for i := range 2 * combinedSlots {
		if t.bug == bugOneBucket && i == combinedSlots {
			break
		}
		s := t.slotOf(k, h, bucket, i)
		if s.word == 0 || fingerprint(s.word) != fingerprint(h) || s.at == own || tentative(s.word) && !all {
			continue
		}
		t.found[n] = s
		n++
	}
	for from := 0; from < n; from += together {
		some := t.found[from:min(from+together, n)]
		if err := t.readRecords(f, some); err != nil {
			return Place{}, 0, err
		}
		for i, s := range some {
			r, b, ok := t.recordIn(i, s.word)
			if !ok {
				return Place{slot: s}, changed, nil
			}
			if !equal(r.key, key) && t.bug != bugNoCompare {
				continue
			}
			return Place{Found: !r.deleted, Value: r.value, Version: r.version, hash: h, in: *k, slot: s,
				self: word(b, recordSelf), ref: word(b, recordRef), old: word(b, recordOld),
				open: word(b, recordSettled) != word(b, recordSelf), told: word(b, recordSettled)}, present, nil
		}
	}
	return Place{hash: h, in: *k}, absent, nil
}

// readRecords reads the records of at most together slots.
func (t *Table) readRecords(f *fiber.Fiber, some []slot) error {
	t.b.Reset()
	for i, s := range some {
		n := lines(s.word) * lineBytes
		if n == 0 || n > t.recordBytes || !t.c.Holds(t.spread.offset(s.word), n) {
			return t.c.Fail(t.corrupt("a slot at %#x has word %#x", s.at, s.word))
		}
		t.read(f, t.inAt+i*t.recordBytes, t.spread.offset(s.word), n)
	}
	return t.await(f)
}

// recordIn is the record that readRecords has read for its i-th slot; false: its block is used for another one.
func (t *Table) recordIn(i int, w uint64) (r record, b []byte, ok bool) {
	b = t.mr.Bytes()[t.inAt+i*t.recordBytes:][:lines(w)*lineBytes]
	if r, ok = t.f.decode(b); !ok {
		if t.bug == bugRecordTrusted {
			return record{}, b, true
		}
		return record{}, nil, false
	}
	self := word(b, recordSelf)
	_, off := t.c.BlockAt(self)
	return r, b, t.spread.pointer(self, off) == w&(1<<linesShift-1) || t.bug == bugRecordTrusted
}

// Find looks a key up.
func (t *Table) Find(f *fiber.Fiber, key []byte) (Place, error) {
	h := hashOf(key)
	var last slot
	for n, stale := 0, 0; n < attempts; n++ {
		k, err := t.look(f, h)
		if err != nil {
			return Place{}, err
		}
		p, v, err := t.search(f, &k, h, key, 0, false)
		if err != nil || v != changed {
			return p, err
		}
		t.stats.Again++
		if stale++; p.slot != last {
			last, stale = p.slot, 0
		}
		if stale == mostStale {
			return Place{}, t.c.Fail(t.corrupt("the slot at %#x has word %#x, and there is no such record", last.at, last.word))
		}
	}
	return Place{}, proto.Aborting(proto.ReasonLocked)
}
