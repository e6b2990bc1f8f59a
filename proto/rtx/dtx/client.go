package dtx

import (
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/inplace"
	"drtmd/verbs/fiber"
)

// The log of an owner:
//
//	0 number of the transaction 62, state 2 | objects n 8 | hash of what is behind it 8
//	24 object 8, version that it gets 8, value of 1008 bytes at most | ...
const (
	logState   = 0
	logCount   = 8
	logHash    = 16
	logEntries = 24
	entryHead  = 16

	// mostLogged is how many objects a transaction updates at most, new ones apart.
	mostLogged = 16
	logBytes   = logEntries + mostLogged*(entryHead+inplace.NodeBytes-metaBytes)
)

// States of a log.
const (
	stateDone    = 0 // or it was never used
	stateLocked  = 1 // objects may be locked
	stateDecided = 2 // the values count
	stateMask    = 3
)

// The metadata of a block.
const (
	lockAt    = 0
	versionAt = 8
	metaBytes = 16
)

// Kind is the layout: a log for each owner.
var Kind = &inplace.Kind{Protocol: "dtx", Magic: 0x3158_5444_4d54_5244, Version: 1, PerOwner: logBytes} // "DRTMDTX1"

// Members is a membership service.
type Members interface {
	// Removed reports whether an owner is dead and fenced, and this client is the one that repairs it. Repaired says
	// that it has.
	Removed(owner int) bool
	Repaired(owner int)
}

// Config of a Client.
type Config struct {
	inplace.Config
	// Members says who is dead; nil: nobody does.
	Members Members
	// Idempotent: the commit changes an object's version by CAS, behind the WRITE of the value. It is a part of rTX, for the
	// factor analysis (section 6.3).
	Idempotent bool
	// Awaited has each phase of a commit awaited before the next one is posted. Otherwise phases that the order of a
	// queue pair keeps apart share a doorbell.
	Awaited bool
	// Mutation switches a deliberate bug on; "" is none.
	Mutation string
}

// Stats of a client. Its worker's thread writes them.
type Stats struct {
	Redone, Undone uint64 // transactions of the dead
}

// Client is an owner with one log.
type Client struct {
	inplace.Client
	members Members
	awaited bool
	// idempotent is Config.Idempotent.
	idempotent bool
	bug        bug
	stats      Stats
	tx         Tx
	number     uint64 // of the last transaction in the log
	// spare are nodes that attempts without a commit have allocated: nothing leads to them.
	spare []rtx.Ptr

	// Offsets of buffers: a log to write, one that was read, metadata, blocks as they were read and as they become.
	logOut, logIn, metas, blocks int
}

// Attach checks the memory, makes a client, and repairs what its former life has left, which is fenced.
func Attach(f *fiber.Fiber, cfg Config) (*Client, error) {
	m, err := bugs.Find(cfg.Mutation)
	if err != nil {
		return nil, err
	}
	at := 0
	take := func(n int) int {
		was := at
		at += (n + 63) / 64 * 64
		return was
	}
	c := &Client{members: cfg.Members, awaited: cfg.Awaited, idempotent: cfg.Idempotent, bug: m}
	c.logOut, c.logIn = take(logBytes), take(logBytes)
	c.metas, c.blocks = take(inplace.Objects*metaBytes), take(inplace.Objects*2*inplace.NodeBytes)
	base, err := Kind.Attach(f, cfg.Config, at)
	if err != nil {
		return nil, err
	}
	c.Client = base
	c.tx.set = make([]entry, 0, inplace.Objects)
	if err := c.Repair(f, cfg.Owner); err != nil {
		if c.Broken() == nil && f.Err() == nil {
			_ = c.Close() // the first error is the one to tell
		}
		return nil, err
	}
	c.number = c.Word(c.logIn+logState) >> 2
	return c, nil
}

// Stats of the client so far.
func (c *Client) Stats() *Stats { return &c.stats }

// Payload is how many bytes of a class's objects are the program's.
func (c *Client) Payload(class int) int { return c.ClassBytes(class) - metaBytes }

// Repair carries out what the log of an owner says, or undoes it. The owner is fenced, and nobody else does so.
func (c *Client) Repair(f *fiber.Fiber, owner int) error {
	log := c.Shape.OwnerAt(owner)
	c.B.Reset()
	c.Read(f, c.logIn, log, logBytes)
	if err := c.Await(f); err != nil {
		return err
	}
	state := c.Word(c.logIn + logState)
	n := c.Word(c.logIn + logCount)
	if state&stateMask == stateDone {
		return nil
	}
	// A log that is not whole was being written, and nothing was locked.
	if b := c.MR.Bytes()[c.logIn:][:logBytes]; n <= mostLogged {
		if end, ok := c.walk(int(n)); ok && rtx.Hash(b[logEntries:end]) == c.Word(c.logIn+logHash) {
			if err := c.finish(f, owner, int(n), state&stateMask == stateDecided); err != nil {
				return err
			}
		}
	}
	c.SetWord(c.logOut, state&^stateMask)
	c.B.Reset()
	c.Write(f, c.logOut, log+logState, 8)
	return c.Await(f)
}

// walk finds the end of a log's entries; false: they make no sense.
func (c *Client) walk(n int) (end int, ok bool) {
	end = logEntries
	for range n {
		p := rtx.Ptr(c.Word(c.logIn + end))
		if !c.Shape.Has(p) {
			return 0, false
		}
		_, bytes := c.Shape.Place(p)
		if end += entryHead + bytes - metaBytes; end > logBytes {
			return 0, false
		}
	}
	return end, true
}

// finish gives the objects of a log their values, if they count, and unlocks those that are still locked.
func (c *Client) finish(f *fiber.Fiber, owner, n int, decided bool) error {
	lock := uint64(owner) + 1
	at := c.logIn + logEntries
	held := false
	for range n {
		place, bytes := c.Shape.Place(rtx.Ptr(c.Word(at)))
		c.B.Reset()
		c.Read(f, c.metas, place, metaBytes)
		if err := c.Await(f); err != nil {
			return err
		}
		if c.Word(c.metas+lockAt) == lock {
			held = true
			c.B.Reset()
			if decided && c.bug != bugNotRedone {
				c.install(f, place, bytes, at+8)
			}
			if decided || c.bug != bugNotUndone {
				c.CAS(f, place+lockAt, lock, 0)
			}
			if err := c.Await(f); err != nil {
				return err
			}
		}
		at += entryHead + bytes - metaBytes
	}
	switch {
	case held && decided:
		c.stats.Redone++
	case held:
		c.stats.Undone++
	}
	return nil
}

// install adds the WRITE of a version and the value behind it to the batch.
func (c *Client) install(f *fiber.Fiber, place, bytes, from int) {
	c.Write(f, from, place+versionAt, bytes-versionAt)
}
