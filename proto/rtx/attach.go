package rtx

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Attach makes the client of an owner: it checks the memory, and repairs what a former life of the owner has left,
// which is fenced. An error of the transport, or ErrLayout: nothing was written before the check.
func Attach(f *fiber.Fiber, cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if cfg.Clock.Now() <= leaseEpoch {
		return nil, fmt.Errorf("%w: the wall clock says %s since 1970, and leases count from 2020", ErrUsage, cfg.Clock.Now())
	}
	c := &Client{cfg: cfg}
	m, err := bugs.Find(cfg.Mutation)
	if err != nil {
		return nil, err
	}
	c.bug = m
	c.nodes = append([]Remote{{cfg.Conn, cfg.Memory}}, cfg.More...)
	c.cfg.Awaited = cfg.Awaited || c.scattered()
	if err := c.fetchLayouts(f); err != nil {
		return nil, err
	}
	if cfg.Owner < 0 || cfg.Owner >= c.l.Owners {
		return nil, fmt.Errorf("%w: owner %d, and the memory has %d", ErrUsage, cfg.Owner, c.l.Owners)
	}
	classes := len(c.l.Classes)
	c.fresh = cfg.Owner
	c.slots, c.next = make([]uint64, c.l.Slots), make([]int, classes)
	c.chunk, c.used = make([]int, classes), make([]int, classes)
	for i := range c.chunk {
		c.chunk[i] = -1
	}
	c.entries, c.found = make([]logEntry, 0, c.l.Slots), make([]logEntry, 0, c.l.Slots)
	c.tx.set = make([]entry, 0, cfg.Objects)
	if err := c.open(); err != nil {
		return nil, err
	}
	if err := c.fix(f); err != nil {
		c.closeLater(f)
		return nil, err
	}
	return c, nil
}

// closeLater frees the memory of a client that could not be made, unless something of it is in flight.
func (c *Client) closeLater(f *fiber.Fiber) {
	if c.broken == nil && f.Err() == nil {
		_ = c.mr.Close() // the first error is the one to tell
	}
}

// fetchLayouts reads the beginning of the memory of all nodes and checks that they belong together.
func (c *Client) fetchLayouts(f *fiber.Fiber) error {
	for i, n := range c.nodes {
		l, err := fetchLayout(f, n.Conn, c.cfg.PD, n.Memory)
		switch {
		case err != nil && len(c.nodes) > 1 && errors.Is(err, ErrLayout):
			return fmt.Errorf("memory node %d of %d: %w", i+1, len(c.nodes), err)
		case err != nil && len(c.nodes) > 1:
			return &LostError{Node: i, Nodes: len(c.nodes), Err: err}
		case err != nil:
			return err
		case l.Nodes != len(c.nodes) || l.Node != i:
			return fmt.Errorf("%w: the memory node in place %d of %d is number %d of %d: name all of them, in their order",
				ErrLayout, i+1, len(c.nodes), l.Node+1, l.Nodes)
		case i > 0 && !l.likens(c.l):
			return fmt.Errorf("%w: memory node %d has another shape than the first: %+v, %+v", ErrLayout, i+1, l.Shape, c.l.Shape)
		case i == 0:
			c.l = l
		}
	}
	return nil
}

// fetchLayout reads the beginning of the memory and checks it.
func fetchLayout(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (*layout, error) {
	if memory.Length < headerBytes {
		return decode(nil, int(memory.Length))
	}
	h, err := ReadHeader(f, conn, pd, memory, headerBytes)
	if err != nil {
		return nil, err
	}
	return decode(h, int(memory.Length))
}

// ReadHeader reads the first bytes of memory, where its layout is.
func ReadHeader(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR, bytes int) ([]byte, error) {
	mr, err := pd.AllocMR(bytes, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return nil, err
	}
	if err := conn.Read(f, mr.SGE(0, bytes), memory.Addr, memory.RKey); err != nil {
		return nil, err // what is in flight may still use the buffer
	}
	return slices.Clone(mr.Bytes()[:bytes]), mr.Close()
}

// fix repairs what the former life of the owner has left (section 4.4: after a reboot).
func (c *Client) fix(f *fiber.Fiber) error {
	log := c.l.ownerAt(c.cfg.Owner)
	if err := c.readNow(f, c.logIn, log, c.l.ownerBytes); err != nil {
		return err
	}
	c.header = c.word(c.logIn)
	c.horizon = c.word(c.logIn + logHorizon)
	c.born, c.last = c.horizon, c.horizon
	for i := range c.slots {
		c.slots[i] = c.word(c.logIn + c.l.logBytes + 8*i)
	}
	if err := c.fixLog(f, log); err != nil {
		return err
	}
	for i := range c.slots {
		if c.bug == bugSlotNotFixed {
			break
		}
		if err := c.fixSlot(f, i); err != nil {
			return err
		}
	}
	for class := range c.l.Classes {
		if err := c.fixChunks(f, class); err != nil {
			return err
		}
		if err := c.provide(f, class, 0); err != nil && !errors.Is(err, ErrFull) {
			return err
		}
	}
	return nil
}

// fixLog ends the transaction of the log.
func (c *Client) fixLog(f *fiber.Fiber, log int) error {
	if stateOf(c.header) == stateDone || c.bug == bugAttachNoLog {
		return nil
	}
	lock, whole := c.decodeLog()
	if !whole || !sameTag(c.header, lock) || ownerOf(lock) != c.cfg.Owner {
		return c.corrupt("the log of owner %d is in use and makes no sense", c.cfg.Owner)
	}
	c.entries = append(c.entries[:0], c.found...)
	if stateOf(c.header) == stateInit {
		abort := header(stateAbort, lock, 0)
		old, err := c.casNow(f, log, c.header, abort)
		if err != nil {
			return err
		}
		c.header = abort
		if old == header(stateInit, lock, 0) {
			c.stats.Undone++
		}
	}
	if stateOf(c.header) == stateAbort {
		if err := c.releaseAborted(f, lock, c.entries); err != nil {
			return err
		}
		done := header(stateDone, lock, 0)
		if _, err := c.casNow(f, log, c.header, done); err != nil {
			return err
		}
		c.header = done
		return nil
	}
	// DOING: what a repairer is doing meanwhile is the same.
	state, err := c.settle(f, log, lock, c.header)
	if err != nil {
		return err
	}
	if stateOf(state) != stateDone {
		return c.corrupt("the log of owner %d went from DOING to header %#x", c.cfg.Owner, state)
	}
	c.stats.Finished++
	return nil
}

// fixSlot sees whether the block of a slot has become an object's, and gives back a lock without log. Repairers may
// do the same meanwhile, so it looks at the slot again after it has looked at the object.
func (c *Client) fixSlot(f *fiber.Fiber, i int) error {
	at := c.l.slotAt(c.cfg.Owner*c.l.Slots + i)
	if err := c.readNow(f, c.words, at, 8); err != nil { // fixLog may have changed it
		return err
	}
	for {
		d := c.word(c.words)
		c.slots[i] = d
		if isNil(d) {
			return nil
		}
		if k := c.l.classOf(d); k < 0 || k != c.l.slotClass(i) {
			return c.corrupt("slot %d of owner %d has data pointer %#x", i, c.cfg.Owner, d)
		}
		if err := c.fixBlock(f, c.cfg.Owner*c.l.Slots+i, d); err != nil {
			return err
		}
		if err := c.readNow(f, c.words, at, 8); err != nil || c.word(c.words) == d {
			return err
		}
	}
}

// fixBlock looks whether the block that a slot has was installed, and if so leaves in the slot what it replaced.
func (c *Client) fixBlock(f *fiber.Fiber, slot int, d uint64) error {
	if err := c.readNow(f, c.blockIn, int(offsetOf(d)), blockHeader); err != nil {
		return err
	}
	r, old := c.word(c.blockIn), c.word(c.blockIn+8)
	if p := refPtr(r); refSlot(r) == slot && p&indexBit != 0 && c.l.has(p&^indexBit) && c.cfg.Installed != nil {
		is, err := c.cfg.Installed(f, c, p&^indexBit, d)
		if err == nil && is {
			_, err = c.casNow(f, c.l.slotAt(slot), d, c.retired(old))
		}
		return err
	}
	if refSlot(r) != slot || !c.l.has(refPtr(r)) {
		return nil // it was not used from this slot
	}
	meta := c.l.metaAt(refPtr(r))
	if err := c.readNow(f, c.words, meta, metaBytes); err != nil {
		return err
	}
	w := c.word(c.words)
	if c.word(c.words+8) == d {
		if _, err := c.casNow(f, c.l.slotAt(slot), d, c.retired(old)); err != nil {
			return err
		}
	}
	if locked(w) && noLog(w) && ownerOf(w) == c.cfg.Owner {
		return c.repairOne(f, refPtr(r), w)
	}
	return nil
}

// fixChunks finds the chunks of the owner, and stores what was on its way into slots.
func (c *Client) fixChunks(f *fiber.Fiber, class int) error {
	each := c.l.chunkCount(class)
	chunks := each * c.l.Nodes
	const step = wordBytes / 8
	for at, n := 0, 0; at < chunks; at += n {
		n = min(step, each-at%each) // of one node
		if err := c.readNow(f, c.words, c.l.chunkAt(class, at), 8*n); err != nil {
			return err
		}
		for i := 0; i < n; i++ {
			w := c.word(c.words + 8*i)
			if w == 0 || chunkOwner(w) != c.cfg.Owner {
				continue
			}
			stored, given := chunkStored(w), chunkGiven(w)
			if given > ChunkBlocks || stored > given {
				return c.corrupt("chunk %d of class %d has word %#x", at+i, class, w)
			}
			switch {
			case stored < given:
				if err := c.store(f, class, at+i, stored, given); err != nil {
					return err
				}
			case given < ChunkBlocks:
				c.chunk[class], c.used[class] = at+i, given
			}
		}
	}
	return nil
}

// Describe reads the shape of memory on a way to it. Memory that was not laid out for transactions is ErrLayout.
func Describe(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (Shape, error) {
	l, err := fetchLayout(f, conn, pd, memory)
	if err != nil {
		return Shape{}, err
	}
	return l.Shape, nil
}

// trips is how many READs measure a round trip.
const trips = 11

// RoundTrip is the median time of a READ of 8 bytes.
func RoundTrip(f *fiber.Fiber, conn *fiber.Conn, pd *verbs.PD, memory verbs.RemoteMR) (trip time.Duration, err error) {
	buffer, err := pd.AllocMR(8, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return 0, err
	}
	var times [trips]time.Duration
	for i := range times {
		begin := f.Now()
		if err := conn.Read(f, buffer.SGE(0, 8), memory.Addr, memory.RKey); err != nil {
			return 0, err // what is in flight may still use the buffer
		}
		times[i] = f.Now() - begin
	}
	slices.Sort(times[:])
	return times[trips/2], buffer.Close()
}
