package ring

import (
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Call is a call that was started and can be awaited. The zero value is ready for Start, and so
// is one that has ended. It must not be copied while it is in flight.
type Call struct {
	link  *Link
	slot  uint16
	going bool
	n     int
	err   error
	ended fiber.Cond
}

// slot is the caller's side of a request.
type slot struct {
	call *Call // nil: free, or nobody waits for the answer any more
	id   uint32
	busy bool // the answer has not come
	resp []byte
	typ  rpc.Type
	// room that the request and its answer have reserved.
	reqRoom, respRoom int
	order             uint64 // of starting
}

// slotBits of an ID are the slot's number.
const slotBits = 12

// Start sends a request, after waiting for room. req and resp belong to the call until it has ended: await it.
func (l *Link) Start(f *fiber.Fiber, c *Call, t rpc.Type, req, resp []byte) error {
	return l.start(f, c, t, req, resp, 0)
}

func (l *Link) start(f *fiber.Fiber, c *Call, t rpc.Type, req, resp []byte, deadline time.Duration) error {
	invariant.Assert(!c.going, "a call was started that is in flight")
	p := l.port
	if err := l.ready(f, deadline); err != nil {
		return err
	}
	reqRoom, respRoom := l.out.span(len(req)), l.in.span(len(resp))
	share := p.cfg.Bytes * shareParts / shareOf
	if reqRoom > share || respRoom > share || len(req) > maxBody || respRoom > maxLines*lineBytes {
		return fmt.Errorf("%w: a request of %d bytes with an answer of up to %d takes %d and %d of rings of %d "+
			"bytes, %d are allowed; use larger rings", ErrTooLong, len(req), len(resp), reqRoom, respRoom,
			p.cfg.Bytes, share)
	}
	for len(l.free) == 0 || !p.lacks(OverwriteUnread) && (l.reqRoom+reqRoom > share ||
		l.respRoom+respRoom > share || l.room() < reqRoom) {
		p.Stats.Waits++
		if err := l.awaitRoom(f, deadline); err != nil {
			return err
		}
	}
	i := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	x := &l.slots[i]
	l.started++
	*x = slot{call: c, id: x.id + 1<<slotBits, busy: true, resp: resp, typ: t, reqRoom: reqRoom,
		respRoom: respRoom, order: l.started}
	l.reqRoom += reqRoom
	l.respRoom += respRoom
	l.busy++
	c.link, c.slot, c.going, c.n, c.err = l, i, true, 0, nil
	l.append(&header{reserve: respRoom / lineBytes, kind: request, id: x.id, typ: uint8(t)}, req)
	p.Stats.Requests++
	p.arm()
	return nil
}

// awaitRoom waits until there may be more room.
func (l *Link) awaitRoom(f *fiber.Fiber, deadline time.Duration) error {
	l.watchCredit()
	if err := l.more.Wait(f, deadline); err != nil {
		return err
	}
	return l.ready(f, deadline)
}

// Await waits until the call has ended and gives the length of its answer. After the deadline
// (0: none) or a cancellation the call is over too.
func (c *Call) Await(f *fiber.Fiber, deadline time.Duration) (int, error) {
	for c.going {
		if err := c.ended.Wait(f, deadline); err != nil && c.going {
			x := &c.link.slots[c.slot]
			x.call, x.resp = nil, nil // the slot is free when the answer comes
			c.going, c.err = false, err
		}
	}
	return c.n, c.err
}

// Ended reports whether the call has ended, or none was started.
func (c *Call) Ended() bool { return !c.going }

func (c *Call) end(n int, err error) {
	c.going, c.n, c.err = false, n, err
	c.ended.Broadcast()
}

// answered takes an answer.
func (l *Link) answered(h *header, body []byte) error {
	i := int(h.id & (1<<slotBits - 1))
	if i >= len(l.slots) || !l.slots[i].busy || l.slots[i].id != h.id {
		return errGarbage
	}
	if l.port.lacks(AnyAnswer) {
		for j := range l.slots {
			if l.slots[j].busy && l.slots[j].order > l.slots[i].order {
				i = j
			}
		}
	}
	x := &l.slots[i]
	c := x.call
	l.reqRoom -= x.reqRoom
	l.respRoom -= x.respRoom
	l.busy--
	resp, typ := x.resp, x.typ
	x.call, x.resp, x.busy = nil, nil, false
	l.free = append(l.free, uint16(i))
	l.more.Broadcast()
	if c == nil {
		return nil
	}
	switch {
	case h.flags&flagEpoch != 0:
		c.end(0, ErrEpoch)
	case h.flags&flagNoHandler != 0:
		c.end(0, rpc.ErrNoHandler)
	case h.flags&flagError != 0:
		c.end(0, &rpc.RemoteError{Type: typ, Text: string(body)})
	case len(body) > len(resp):
		c.end(0, fmt.Errorf("%w: the answer has %d bytes, the buffer %d", ErrTooLong, len(body), len(resp)))
	default:
		c.end(copy(resp, body), nil)
	}
	return nil
}
