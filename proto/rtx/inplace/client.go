package inplace

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
	// Wait and MaxWait bound the pause before something is tried again.
	Wait, MaxWait time.Duration
}

// attempts is how often something is waited for before it is aborted.
const attempts = 1000

// Client is an owner.
type Client struct {
	Config
	Shape Shape
	MR    *verbs.MR
	B     fiber.Batch

	broken error
	next   rtx.Ptr // node that was taken from the pool, and the end of those
	end    rtx.Ptr

	blocks     []uint64 // of records, free: data pointers
	nextBlock  int      // the one that was given last
	blockClass int
}

// Objects is how many an operation, or a transaction, touches at most.
const Objects = 64

// Object is one that is touched: where it is, and what is to become of it.
type Object struct {
	Ptr   rtx.Ptr
	At    int  // of its block in the memory
	Bytes int  // of that
	Held  bool // its lock
	Fresh bool // nobody else knows it
	Dirty bool
}

// Object finds one that is to be touched, behind n others.
func (c *Client) Object(p rtx.Ptr, n int) (o Object, err error) {
	switch {
	case c.broken != nil:
		return o, c.broken
	case !c.Shape.Has(p):
		return o, fmt.Errorf("%w: no object %d", rtx.ErrUsage, p)
	case n == Objects:
		return o, fmt.Errorf("%w: more than %d objects", rtx.ErrTooLarge, Objects)
	}
	o.Ptr = p
	o.At, o.Bytes = c.Shape.Place(p)
	return o, nil
}

// Attach checks the memory and makes a client with so many bytes of buffers.
func (k *Kind) Attach(f *fiber.Fiber, cfg Config, bytes int) (Client, error) {
	shape, err := k.Describe(f, cfg.Conn, cfg.PD, cfg.Memory)
	if err != nil {
		return Client{}, err
	}
	if cfg.Owner < 0 || cfg.Owner >= shape.Owners {
		return Client{}, fmt.Errorf("%w: owner %d, and the memory has %d", rtx.ErrUsage, cfg.Owner, shape.Owners)
	}
	c := Client{Config: cfg, Shape: shape}
	c.MR, err = cfg.PD.AllocMR(bytes, verbs.AccessLocalWrite, verbs.MROptions{})
	return c, err
}

// Describe reads the shape of memory.
func (k *Kind) Describe(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (Shape, error) {
	if memory.Length < headerBytes {
		return k.decode(nil, int(memory.Length))
	}
	h, err := rtx.ReadHeader(f, conn, pd, memory, headerBytes)
	if err != nil {
		return Shape{}, err
	}
	return k.decode(h, int(memory.Length))
}

// ClassBytes is the size of a class's objects.
func (c *Client) ClassBytes(class int) int { return []int{RootBytes, NodeBytes}[class] }

// Class is the class of objects of a size; -1: there is none.
func (c *Client) Class(bytes int) int {
	switch bytes {
	case RootBytes:
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

// Fail makes the client useless.
func (c *Client) Fail(err error) error {
	if c.broken == nil {
		c.broken = err
	}
	return err
}

// Close frees the client's memory. Nothing of it is in flight.
func (c *Client) Close() error { return c.MR.Close() }

// Await awaits the batch. An error breaks the client.
func (c *Client) Await(f *fiber.Fiber) error {
	if err := c.B.Await(f); err != nil {
		return c.Fail(err)
	}
	return nil
}

func (c *Client) addr(off int) uint64 { return c.Memory.Addr + uint64(off) }

// Word and SetWord are of the client's buffers.
func (c *Client) Word(at int) uint64       { return binary.LittleEndian.Uint64(c.MR.Bytes()[at:]) }
func (c *Client) SetWord(at int, v uint64) { binary.LittleEndian.PutUint64(c.MR.Bytes()[at:], v) }

// Read, Write and CAS add operations on the memory to the batch.
func (c *Client) Read(f *fiber.Fiber, to, off, n int) {
	c.B.Read(f, c.Conn, c.MR.SGE(to, n), c.addr(off), c.Memory.RKey)
}

func (c *Client) Write(f *fiber.Fiber, from, off, n int) {
	c.B.Write(f, c.Conn, c.MR.SGE(from, n), c.addr(off), c.Memory.RKey)
}

// CAS returns its index in the batch.
func (c *Client) CAS(f *fiber.Fiber, off int, expect, swap uint64) (index int) {
	c.B.CAS(f, c.Conn, c.addr(off), c.Memory.RKey, expect, swap)
	return c.B.Len() - 1
}

// Own is the lock word of the client.
func (c *Client) Own() uint64 { return uint64(c.Owner) + 1 }

// Pause waits before something is tried again for the n-th time; an Abort if that was too often.
func (c *Client) Pause(f *fiber.Fiber, n int) error {
	if n >= attempts {
		return proto.Aborting(proto.ReasonLocked)
	}
	d := min(c.Wait<<min(n, 20), c.MaxWait)
	return f.Sleep(d/2 + time.Duration(c.Rand.Int64N(int64(d/2)+1)))
}

// Take takes a node from the pool.
func (c *Client) Take(f *fiber.Fiber) (rtx.Ptr, error) {
	if c.next == c.end {
		c.B.Reset()
		c.B.FAA(f, c.Conn, c.addr(c.Shape.counterAt()), c.Memory.RKey, chunk)
		if err := c.Await(f); err != nil {
			return 0, err
		}
		used := c.B.Old(0)
		if used+chunk > uint64(c.Shape.Nodes) {
			return 0, fmt.Errorf("%w: all %d nodes are in use; start the memory node with more memory", rtx.ErrFull,
				c.Shape.Nodes)
		}
		c.next = rtx.Ptr(1+c.Shape.Roots) + rtx.Ptr(used)
		c.end = c.next + chunk
	}
	c.next++
	return c.next - 1, nil
}
