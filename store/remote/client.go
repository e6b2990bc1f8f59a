package remote

import (
	"errors"
	"fmt"
	"unsafe"

	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Client looks keys up for the fibers of one worker.
type Client struct {
	worker *fiber.Worker
	chunks []*verbs.MR
	free   []buffer
	single []*Batch // for Lookup, not in use
}

// buffer is registered memory for one bucket.
type buffer struct {
	bytes *layout.Bucket
	sge   verbs.SGE
}

// chunkBuffers is the number of buffers that are registered at a time.
const chunkBuffers = 64

// NewClient makes a client with registered buffers for some look-ups in flight; more are added
// as they are needed. Close it before the worker.
func NewClient(w *fiber.Worker, lookups int) (*Client, error) {
	c := &Client{worker: w}
	for len(c.free) < lookups {
		if err := c.grow(); err != nil {
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
	c.chunks, c.free = nil, nil
	return err
}

// grow registers a chunk of buffers.
func (c *Client) grow() error {
	mr, err := c.worker.PD().AllocMR(chunkBuffers*layout.BucketBytes, verbs.AccessLocalWrite,
		verbs.MROptions{NoHuge: true})
	if err != nil {
		return fmt.Errorf("buffers for look-ups: %w", err)
	}
	c.chunks = append(c.chunks, mr)
	for i := range chunkBuffers {
		at := i * layout.BucketBytes
		c.free = append(c.free, buffer{
			bytes: (*layout.Bucket)(unsafe.Pointer(&mr.Bytes()[at])),
			sge:   mr.SGE(at, layout.BucketBytes),
		})
	}
	return nil
}

// take gives a buffer.
func (c *Client) take() (buffer, error) {
	if len(c.free) == 0 {
		if err := c.grow(); err != nil {
			return buffer{}, err
		}
	}
	b := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return b, nil
}

func (c *Client) put(b buffer) { c.free = append(c.free, b) }

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
	conn   *fiber.Conn
	buffer buffer
	held   bool // the buffer is
	err    error
}

// NewBatch makes a batch.
func (c *Client) NewBatch() *Batch { return &Batch{client: c} }

// Reset forgets all look-ups.
func (b *Batch) Reset() { b.n = 0 }

// Len is the number of look-ups.
func (b *Batch) Len() int { return b.n }

// Add begins the look-up of key in the table t that conn's peer has, and gives its index. What the
// cache, which may be nil, knows is done at once.
func (b *Batch) Add(conn *fiber.Conn, t *Table, key uint64, cache *Cache) int {
	if b.n == len(b.items) {
		b.items = append(b.items, item{})
	}
	x := &b.items[b.n]
	x.conn, x.err = conn, nil
	x.search.Start(t, cache, key)
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
		if x.search.Done() || x.err != nil {
			continue
		}
		if !x.held {
			if x.buffer, x.err = b.client.take(); x.err != nil {
				continue
			}
			x.held = true
		}
		t := x.search.table
		sge := x.buffer.sge
		sge.Length = x.search.bytes()
		b.ops.Read(f, x.conn, sge, t.Addr(x.search.Next()), t.rkey)
		b.posted = append(b.posted, i)
	}
	return len(b.posted) > 0
}

// feed takes what a round has read.
func (b *Batch) feed() {
	for j, i := range b.posted {
		x := &b.items[i]
		if x.err = b.ops.Err(j); x.err != nil {
			// An abandoned READ may still write its buffer, so that stays out until Close.
			if t := x.search.table; t.mutation == ReuseBuffer {
				b.client.put(x.buffer)
			}
			x.held = false
			continue
		}
		bucket := *x.buffer.bytes
		if x.search.Feed(&bucket); x.search.Done() {
			b.client.put(x.buffer)
			x.held = false
		}
	}
}

// Result is what look-up i ended with.
func (b *Batch) Result(i int) (Entry, error) {
	x := &b.items[i]
	if x.err != nil {
		return Entry{}, x.err
	}
	return x.search.Result()
}

// Reads is the number of READs of look-up i.
func (b *Batch) Reads(i int) int { return b.items[i].search.Reads() }
