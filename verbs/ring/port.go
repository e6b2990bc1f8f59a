package ring

import (
	"errors"
	"fmt"
	"math"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lines"
	"drtmd/verbs/rpc"
)

// Caller is who sent a request; it is valid during the handler only.
type Caller struct {
	Node  int
	Epoch rpc.Epoch
}

// Handler answers a request: it writes at most len(resp) bytes and says how many. An error is an
// *rpc.RemoteError at the caller, as far as the room for the answer allows. The slices are valid during the
// call; it must not wait.
type Handler func(c *Caller, req, resp []byte) (int, error)

// Port is a worker's rings.
type Port struct {
	Stats Stats

	w        *fiber.Worker
	rpc      *rpc.Port
	cfg      Config
	marks    bool // lines become visible in any order
	mr       *verbs.MR
	memory   lines.Memory // of mr
	links    []*Link      // by node; nil: the own one
	handlers [math.MaxUint8 + 1]Handler
	dirty    []*Link
	idle     []*Link // the other half of dirty
	body     []byte  // of the message at hand
	resp     []byte  // of its answer
	caller   Caller
	epoch    rpc.Epoch
	made     uint64 // generations
	timer    *fiber.Timer
	armed    bool
	closed   bool
}

// NewPort makes the rings of a worker, which opens them by its RPC port. Register handlers before peers can
// have one.
func NewPort(w *fiber.Worker, r *rpc.Port, cfg Config) (*Port, error) {
	cfg.fill()
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("ring port of worker %s: %w", w.Name(), err)
	}
	p := &Port{w: w, rpc: r, cfg: cfg, marks: !w.PD().Context().Attr().Caps.AscendingWrites,
		links: make([]*Link, cfg.Nodes), body: make([]byte, maxBody+1), resp: make([]byte, maxBody)}
	p.timer = w.NewTimer(p.tick)
	if cfg.Nodes == 1 {
		return p, nil
	}
	var err error
	p.mr, err = w.PD().AllocMR((cfg.Nodes-1)*cfg.linkBytes(), verbs.AccessAll, lines.Options)
	if err == nil {
		p.memory, err = lines.MemoryOf(p.mr)
	}
	if err != nil {
		return nil, fmt.Errorf("ring port of worker %s: %w", w.Name(), errors.Join(err, p.Free()))
	}
	at := 0
	for n := range p.links {
		if n != cfg.Node {
			p.links[n] = newLink(p, n, at)
			at += cfg.linkBytes()
		}
	}
	if _, err = w.AddPart(p, 0); err != nil {
		return nil, errors.Join(err, p.mr.Close())
	}
	p.serveOpenings()
	return p, nil
}

// Handle registers a handler; nil removes it.
func (p *Port) Handle(t rpc.Type, h Handler) { p.handlers[t] = h }

// Link is the way to a node's worker of the same index; nil for the own node.
func (p *Port) Link(node int) *Link { return p.links[node] }

// Longest is how long a request may be, and its answer, for both to fit in rings of the port's size.
func (p *Port) Longest() int {
	s := shape{marks: true} // which leave less
	return min(s.body(p.cfg.Bytes*shareParts/shareOf/lineBytes), maxBody)
}

// SetEpoch raises the epoch. It may be called from a fiber of the worker, not from a handler.
func (p *Port) SetEpoch(e rpc.Epoch) error {
	if e < p.epoch {
		return fmt.Errorf("epoch %d is refused: the rings are at %d, and an epoch is only raised", e, p.epoch)
	}
	if e == p.epoch {
		return nil
	}
	p.epoch = e
	err := fmt.Errorf("%w: epoch %d has begun; start it anew if it is still wanted", ErrEpoch, e)
	for _, l := range p.links {
		for i := 0; l != nil && i < len(l.slots); i++ {
			if x := &l.slots[i]; x.call != nil {
				x.call.end(0, err)
				x.call, x.resp = nil, nil // its room is free when the answer comes
			}
		}
	}
	return nil
}

// lacks reports whether a step is left out.
func (p *Port) lacks(m Mutation) bool { return p.cfg.Mutation == m }

// Completed implements fiber.Part: the port has no requests of its own.
func (p *Port) Completed(*verbs.WC) {}

// Flush implements fiber.Part.
func (p *Port) Flush() {
	if p.closed {
		return
	}
	for _, l := range p.links {
		if l != nil && l.state == up && (l.busy > 0 || l.dirty) {
			l.check()
		}
	}
	p.dirty, p.idle = p.idle[:0], p.dirty
	for _, l := range p.idle {
		l.dirty = false
		if l.state != up {
			continue
		}
		done, err := l.flush()
		switch {
		case err != nil:
			l.fail(err)
		case !done:
			l.touch() // its completions bring another pass
		}
		l.conn.Flush()
	}
}

// arm has the timer look after links with calls in flight.
func (p *Port) arm() {
	if !p.armed && !p.closed {
		p.armed = true
		p.timer.Set(p.w.Now() + p.cfg.Probe)
	}
}

// tick WRITES a word to the peers that owe an answer and have said nothing for some time.
func (p *Port) tick() {
	p.armed = false
	if p.closed {
		return
	}
	now := p.w.Now()
	for _, l := range p.links {
		if l == nil {
			continue
		}
		if l.check(); l.state != up || l.busy == 0 && !l.stalled {
			continue
		}
		p.arm()
		if now-l.heard < p.cfg.Probe {
			continue
		}
		l.heard = now
		p.Stats.Probes++
		if _, err := l.tell(); err != nil {
			l.fail(err)
		}
		l.conn.Flush()
	}
}

// Fence implements fiber.Part.
func (p *Port) Fence(cause error) {
	for _, l := range p.links {
		if l != nil {
			l.fail(cause)
		}
	}
}

// Close implements fiber.Part: all calls end. The memory stays, for what is in flight: see Free.
func (p *Port) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	p.timer.Stop()
	p.Fence(ErrClosed)
	return nil
}

// Free frees the memory, when the worker is closed. It may be called twice.
func (p *Port) Free() error {
	if p.mr == nil {
		return nil
	}
	mr := p.mr
	p.mr = nil
	return mr.Close()
}

// generation is one that no link of the port has had.
func (p *Port) generation() uint64 {
	p.made++
	return lines.Mix(p.rpc.Address().Incarnation, p.made)
}
