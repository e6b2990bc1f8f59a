package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Client looks keys up for the fibers of one worker.
type Client struct {
	worker *fiber.Worker
	chunks []*verbs.MR
	free   [maxClass + 1][]buffer // by class
	single []*Batch               // for Lookup, not in use
}

// buffer is registered memory for what one round of a look-up reads: a bucket, or a piece of a hopscotch
// table and a hop word.
type buffer struct {
	bytes []byte
	sge   verbs.SGE
	class uint8
}

const (
	// A buffer of class i has layout.BucketBytes << i bytes; that of the last class has the largest
	// neighbourhood.
	maxClass = 9
	// chunkBytes are registered at a time, or a few buffers.
	chunkBytes   = 64 * layout.BucketBytes
	chunkBuffers = 4
)

// classOf is the class of buffers with at least n bytes.
func classOf(n int) uint8 {
	return uint8(bits.Len(uint(n-1) / layout.BucketBytes))
}

// NewClient makes a client with registered buffers for some look-ups in flight; more are added
// as they are needed. Close it before the worker.
func NewClient(w *fiber.Worker, lookups int) (*Client, error) {
	c := &Client{worker: w}
	for len(c.free[0]) < lookups {
		if err := c.grow(0); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close frees the buffers. No look-up may be under way. It may be called twice.
func (c *Client) Close() error {
	var err error
	for _, mr := range c.chunks {
		err = errors.Join(err, mr.Close())
	}
	c.chunks, c.free = nil, [maxClass + 1][]buffer{}
	return err
}

// grow registers a chunk of buffers of a class.
func (c *Client) grow(class uint8) error {
	size := layout.BucketBytes << class
	n := max(chunkBytes/size, chunkBuffers)
	mr, err := c.worker.PD().AllocMR(n*size, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return fmt.Errorf("buffers for look-ups: %w", err)
	}
	c.chunks = append(c.chunks, mr)
	for i := range n {
		at := i * size
		c.free[class] = append(c.free[class], buffer{bytes: mr.Bytes()[at : at+size : at+size],
			sge: mr.SGE(at, size), class: class})
	}
	return nil
}

// take gives a buffer of at least some bytes.
func (c *Client) take(bytes int) (buffer, error) {
	class := classOf(bytes)
	free := &c.free[class]
	if len(*free) == 0 {
		if err := c.grow(class); err != nil {
			return buffer{}, err
		}
	}
	b := (*free)[len(*free)-1]
	*free = (*free)[:len(*free)-1]
	return b, nil
}

func (c *Client) put(b buffer) { c.free[b.class] = append(c.free[b.class], b) }

// Lookup finds the entry of key in the table t that conn's peer has, and says how many READs it
// took. cache may be nil. The error is ErrNotFound, ErrUnstable, ErrBounds, or of the transport.
func (c *Client) Lookup(f *fiber.Fiber, conn *fiber.Conn, t *Table, key uint64,
	cache *Cache) (Entry, int, error) {
	var b *Batch
	if n := len(c.single); n > 0 {
		b, c.single = c.single[n-1], c.single[:n-1]
	} else {
		b = c.NewBatch()
	}
	b.Reset()
	b.Add(conn, t, key, cache)
	_ = b.Await(f) // is the error of look-up 0
	e, err := b.Result(0)
	reads := b.Reads(0)
	c.single = append(c.single, b)
	return e, reads, err
}

// Invalidate tells the cache that the place it had for key was out of date.
func (c *Client) Invalidate(t *Table, key uint64, cache *Cache) {
	cache.Invalidate(t, key)
}

// Batch is several look-ups in flight together, on one or several conns: each round rings in the
// next READ of every look-up that is not done. It is used again after Reset, and does not
// allocate in steady state.
type Batch struct {
	client *Client
	items  []item
	n      int
	ops    fiber.Batch
	posted []int // items of the round
}

// item is one look-up of a Batch.
type item struct {
	search Search
	probe  Probe // in place of search, in a hopscotch table
	inline bool
	conn   *fiber.Conn
	buffer buffer
	held   bool // the buffer is
	ops    int  // of the round
	trips  int  // rounds
	bytes  int  // that all have read
	err    error
}

// NewBatch makes a batch.
func (c *Client) NewBatch() *Batch { return &Batch{client: c} }

// Reset forgets all look-ups, which were awaited.
func (b *Batch) Reset() {
	for i := range b.n {
		b.items[i].release(b.client)
	}
	b.n = 0
}

// release gives the buffer back.
func (x *item) release(c *Client) {
	if x.held {
		c.put(x.buffer)
		x.held = false
	}
}

// Len is the number of look-ups.
func (b *Batch) Len() int { return b.n }

// Add begins the look-up of key in the table t that conn's peer has, and gives its index. What the
// cache, which may be nil, knows is done at once.
func (b *Batch) Add(conn *fiber.Conn, t *Table, key uint64, cache *Cache) int {
	return b.AddFor(conn, t, key, cache, Proved)
}

// AddFor is Add that says what has to be proved if the key is absent.
func (b *Batch) AddFor(conn *fiber.Conn, t *Table, key uint64, cache *Cache, a Absence) int {
	if b.n == len(b.items) {
		b.items = append(b.items, item{})
	}
	x := &b.items[b.n]
	x.conn, x.err, x.trips, x.bytes = conn, nil, 0, 0
	if x.inline = t.inline(); x.inline {
		x.probe.StartFor(t, key, a)
	} else {
		x.search.Start(t, cache, key)
	}
	b.n++
	return b.n - 1
}

// Await runs all look-ups to their ends and gives the first error in their order.
func (b *Batch) Await(f *fiber.Fiber) error {
	for b.post(f) {
		_ = b.ops.Await(f) // each has its own error
		b.feed()
	}
	for i := range b.n {
		if _, err := b.Result(i); err != nil {
			return err
		}
	}
	return nil
}

// post adds the next READ of each look-up, and reports whether there was any.
func (b *Batch) post(f *fiber.Fiber) bool {
	b.ops.Reset()
	b.posted = b.posted[:0]
	for i := range b.n {
		x := &b.items[i]
		if x.err != nil || x.done() {
			continue
		}
		if !x.held {
			if x.buffer, x.err = b.client.take(x.room()); x.err != nil {
				continue
			}
			x.held = true
		}
		x.post(f, &b.ops)
		b.posted = append(b.posted, i)
	}
	return len(b.posted) > 0
}

// done reports whether the look-up has ended.
func (x *item) done() bool {
	if x.inline {
		return x.probe.done
	}
	return x.search.Done()
}

// room is the buffer that the look-up needs.
func (x *item) room() int {
	if x.inline {
		return x.probe.table.places.NeighbourhoodBytes() + 2*hopBytes
	}
	return layout.BucketBytes
}

// hopBytes of a hop word.
const hopBytes = 8

// post adds what the look-up reads next.
func (x *item) post(f *fiber.Fiber, ops *fiber.Batch) {
	sge := x.buffer.sge
	x.trips++
	if !x.inline {
		t := x.search.table
		sge.Length = x.search.bytes()
		x.bytes += int(sge.Length)
		ops.Read(f, x.conn, sge, t.Addr(x.search.Next()), t.rkey)
		x.ops = 1
		return
	}
	p := &x.probe
	hops := p.table.places.NeighbourhoodBytes() // where hop words go
	x.ops = 0
	if at, ok := p.Before(); ok {
		x.read(f, ops, at, hops+hopBytes, hopBytes)
	}
	x.read(f, ops, p.at, 0, p.bytes)
	if at, ok := p.Guard(); ok {
		x.read(f, ops, at, hops, hopBytes)
	}
}

// read adds the READ of a piece of a hopscotch table into the buffer.
func (x *item) read(f *fiber.Fiber, ops *fiber.Batch, from, to, bytes int) {
	t, sge := x.probe.table, x.buffer.sge
	sge.Addr, sge.Length = sge.Addr+uint64(to), uint32(bytes)
	ops.Read(f, x.conn, sge, t.Addr(uint64(from)), t.rkey)
	x.ops++
	x.bytes += bytes
}

// feed takes what a round has read.
func (b *Batch) feed() {
	op := 0
	for _, i := range b.posted {
		x := &b.items[i]
		for range x.ops {
			if err := b.ops.Err(op); err != nil && x.err == nil {
				x.err = err
			}
			op++
		}
		if x.err != nil {
			// An abandoned READ may still write its buffer, so that stays out until Close.
			if !x.inline && x.search.table.mutation == ReuseBuffer {
				b.client.put(x.buffer)
			}
			x.held = false
			continue
		}
		if x.inline { // the record stays in the buffer
			at := x.probe.table.places.NeighbourhoodBytes()
			if _, ok := x.probe.Before(); ok {
				x.probe.Began(layout.Hop(binary.LittleEndian.Uint64(x.buffer.bytes[at+hopBytes:])))
			}
			x.probe.Feed(x.buffer.bytes, layout.Hop(binary.LittleEndian.Uint64(x.buffer.bytes[at:])))
			continue
		}
		bucket := *(*layout.Bucket)(unsafe.Pointer(unsafe.SliceData(x.buffer.bytes)))
		if x.search.Feed(&bucket); x.search.Done() {
			x.release(b.client)
		}
	}
}

// Result is what look-up i ended with.
func (b *Batch) Result(i int) (Entry, error) {
	x := &b.items[i]
	if x.err != nil {
		return Entry{}, x.err
	}
	if x.inline {
		return x.probe.result, x.probe.err
	}
	return x.search.Result()
}

// Image is the record that look-up i has found, as the READ that found it has fetched it: of a table whose
// index has its records inside (layout.HopscotchInline), nil otherwise. It is judged as any READ of a record,
// and belongs to the batch until Reset.
func (b *Batch) Image(i int) []byte {
	x := &b.items[i]
	if !x.inline || x.err != nil || !x.probe.done || x.probe.err != nil {
		return nil
	}
	p := &x.probe
	return x.buffer.bytes[p.found : p.found+p.table.record.Bytes]
}

// Reads is the number of READs of look-up i.
func (b *Batch) Reads(i int) int {
	if x := &b.items[i]; x.inline {
		return x.probe.reads
	}
	return b.items[i].search.Reads()
}

// Trips is in how many rounds they were, one after the other, and Bytes what they have fetched.
func (b *Batch) Trips(i int) int { return b.items[i].trips }

// Bytes is that of Trips.
func (b *Batch) Bytes(i int) int { return b.items[i].bytes }
