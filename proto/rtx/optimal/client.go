package optimal

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Config of a Client.
type Config struct {
	Conn   *fiber.Conn
	PD     *verbs.PD
	Memory verbs.RemoteMR
	Owner  int // below Shape.Owners
	Rand   *rand.Rand
	// Wait and MaxWait bound the pause before a lock, or a torn block, is looked at again.
	Wait, MaxWait time.Duration
}

const (
	// objects of a transaction, and attempts at a lock or a block before it is aborted.
	objects  = 64
	attempts = 1000
	// chunk is how many nodes a client takes from the pool at a time.
	chunk = 16
)

// Client is an owner of locks.
type Client struct {
	cfg    Config
	shape  Shape
	mr     *verbs.MR
	b      fiber.Batch
	tx     Tx
	broken error
	next   rtx.Ptr // node that was taken from the pool, and the end of those
	end    rtx.Ptr

	blocks     []uint64 // of records, free: data pointers
	nextBlock  int      // the one that was given last
	blockClass int
}

// Attach checks the memory and makes a client.
func Attach(f *fiber.Fiber, cfg Config) (*Client, error) {
	shape, err := Describe(f, cfg.Conn, cfg.PD, cfg.Memory)
	if err != nil {
		return nil, err
	}
	if cfg.Owner < 0 || cfg.Owner >= shape.Owners {
		return nil, fmt.Errorf("%w: owner %d, and the memory has %d", rtx.ErrUsage, cfg.Owner, shape.Owners)
	}
	c := &Client{cfg: cfg, shape: shape}
	c.tx.set = make([]entry, 0, objects)
	// Each object has room for what was read, and for what it becomes.
	c.mr, err = cfg.PD.AllocMR(objects*2*NodeBytes, verbs.AccessLocalWrite, verbs.MROptions{})
	return c, err
}

// Describe reads the shape of memory.
func Describe(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (Shape, error) {
	if memory.Length < headerBytes {
		return decode(nil, int(memory.Length))
	}
	h, err := rtx.ReadHeader(f, conn, pd, memory, headerBytes)
	if err != nil {
		return Shape{}, err
	}
	return decode(h, int(memory.Length))
}

// Payload is how many bytes of a class's objects are the program's.
func (c *Client) Payload(class int) int { return []int{rootBytes, NodeBytes}[class] - 2*edgeBytes }

// Class is the class of objects of a size; -1: there is none.
func (c *Client) Class(bytes int) int {
	switch bytes {
	case rootBytes:
		return 0
	case NodeBytes:
		return 1
	}
	return -1
}

// Root is the i-th object that has a fixed name.
func (c *Client) Root(i int) rtx.Ptr { return rtx.Ptr(1 + i) }

// Broken is why the client is of no use any more; nil: it is.
func (c *Client) Broken() error { return c.broken }

// Close frees the client's memory. Nothing of it is in flight.
func (c *Client) Close() error { return c.mr.Close() }

func (c *Client) await(f *fiber.Fiber) error {
	err := c.b.Await(f)
	if err != nil && c.broken == nil {
		c.broken = err
	}
	return err
}

func (c *Client) addr(off int) uint64 { return c.cfg.Memory.Addr + uint64(off) }

func (c *Client) word(at int) uint64       { return binary.LittleEndian.Uint64(c.mr.Bytes()[at:]) }
func (c *Client) setWord(at int, v uint64) { binary.LittleEndian.PutUint64(c.mr.Bytes()[at:], v) }

func (c *Client) read(f *fiber.Fiber, to, off, n int) {
	c.b.Read(f, c.cfg.Conn, c.mr.SGE(to, n), c.addr(off), c.cfg.Memory.RKey)
}

func (c *Client) write(f *fiber.Fiber, from, off, n int) {
	c.b.Write(f, c.cfg.Conn, c.mr.SGE(from, n), c.addr(off), c.cfg.Memory.RKey)
}

func (c *Client) cas(f *fiber.Fiber, off int, expect, swap uint64) (index int) {
	c.b.CAS(f, c.cfg.Conn, c.addr(off), c.cfg.Memory.RKey, expect, swap)
	return c.b.Len() - 1
}

// own is the lock word of the client.
func (c *Client) own() uint64 { return uint64(c.cfg.Owner) + 1 }

// pause waits before something is tried again for the n-th time; an Abort if that was too often.
func (c *Client) pause(f *fiber.Fiber, n int) error {
	if n >= attempts {
		return proto.Aborting(proto.ReasonLocked)
	}
	d := min(c.cfg.Wait<<min(n, 20), c.cfg.MaxWait)
	return f.Sleep(d/2 + time.Duration(c.cfg.Rand.Int64N(int64(d/2)+1)))
}

// take takes a node from the pool.
func (c *Client) take(f *fiber.Fiber) (rtx.Ptr, error) {
	if c.next == c.end {
		c.b.Reset()
		c.b.FAA(f, c.cfg.Conn, c.addr(c.shape.counterAt()), c.cfg.Memory.RKey, chunk)
		if err := c.await(f); err != nil {
			return 0, err
		}
		used := c.b.Old(0)
		if used+chunk > uint64(c.shape.Nodes) {
			return 0, fmt.Errorf("%w: all %d nodes are in use; start the memory node with more memory", rtx.ErrFull,
				c.shape.Nodes)
		}
		c.next = rtx.Ptr(1+c.shape.Roots) + rtx.Ptr(used)
		c.end = c.next + chunk
	}
	c.next++
	return c.next - 1, nil
}
