package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Types of the calls of package rpc by which links are opened.
const (
	typeOpen rpc.Type = 0x78 // here is my ring, give me yours
	typeAsk  rpc.Type = 0x79 // open our link
)

// opening is what a side says of its memory:
//
//	 0  version 1 | marks 1 | zero 2 | capacity 4
//	 8  generation 8
//	16  address of the ring 8
//	24  address of the word that says how far the other ring was read 8
//	32  rkey 4 | number of the queue pair 4
//	40  first packet number of the queue pair 4 | zero 4
type opening struct {
	marks      bool
	capacity   int
	generation uint64
	ring       uint64
	credit     uint64
	rkey       uint32
	qpn, psn   uint32
}

const (
	openingBytes   = 48
	openingVersion = 2
	// askBytes is the generation of the asker's last link.
	askBytes = 8
)

var (
	errOpening  = errors.New("malformed opening of a ring; peers must run the same version")
	errReplaced = errors.New("the queue pair was replaced")
	errNoWay    = errors.New("the peer was not met yet")
	errOtherEnd = errors.New("the queue pair was replaced at one end and not yet at the other")
)

func (o *opening) put(b []byte) {
	_ = b[openingBytes-1]
	clear(b[:openingBytes])
	le := binary.LittleEndian
	b[0] = openingVersion
	if o.marks {
		b[1] = 1
	}
	le.PutUint32(b[4:], uint32(o.capacity))
	le.PutUint64(b[8:], o.generation)
	le.PutUint64(b[16:], o.ring)
	le.PutUint64(b[24:], o.credit)
	le.PutUint32(b[32:], o.rkey)
	le.PutUint32(b[36:], o.qpn)
	le.PutUint32(b[40:], o.psn)
}

// takeOpening decodes what a peer says, whose rings must have the capacity of this side's.
func takeOpening(b []byte, capacity int, o *opening) error {
	le := binary.LittleEndian
	if len(b) != openingBytes || b[0] != openingVersion || b[1] > 1 || b[2]|b[3] != 0 || le.Uint32(b[44:]) != 0 {
		return errOpening
	}
	*o = opening{marks: b[1] == 1, capacity: int(le.Uint32(b[4:])), generation: le.Uint64(b[8:]),
		ring: le.Uint64(b[16:]), credit: le.Uint64(b[24:]), rkey: le.Uint32(b[32:]), qpn: le.Uint32(b[36:]),
		psn: le.Uint32(b[40:])}
	if o.capacity != capacity {
		return fmt.Errorf("the peer has rings of %d bytes, this side of %d: give all nodes the same", o.capacity,
			capacity)
	}
	if o.generation == 0 || o.ring%lineBytes != 0 || o.credit%8 != 0 {
		return errOpening
	}
	return nil
}

// opening of this side.
func (l *Link) opening() opening {
	mr, end := l.port.mr.Remote(), l.conn.Endpoint()
	return opening{qpn: end.QPN, psn: end.PSN, marks: l.port.marks, capacity: l.port.cfg.Bytes, generation: l.in.generation,
		ring: mr.Addr + uint64(l.inAt()), credit: mr.Addr + uint64(l.creditAt()), rkey: mr.RKey}
}

// conn is the queue pair to the peer, if it is good.
func (l *Link) connNow() (*fiber.Conn, error) {
	c := l.port.cfg.Conn(l.node)
	if c == nil {
		return nil, errNoWay
	}
	return c, c.Err()
}

// ready waits until the link can be used, and opens it if it is down.
func (l *Link) ready(f *fiber.Fiber, deadline time.Duration) error {
	if err := f.Err(); err != nil {
		return err
	}
	if l.port.closed {
		return ErrClosed
	}
	l.check()
	if l.state == up {
		return nil
	}
	for l.state == isOpening {
		if err := l.opened.Wait(f, deadline); err != nil {
			return err
		}
	}
	if l.state == up {
		return nil
	}
	var err error
	if l.port.cfg.Node < l.node {
		err = l.open(f, deadline)
	} else {
		err = l.ask(f, deadline)
	}
	if err != nil {
		return fmt.Errorf("%w: node %d: %w", ErrDown, l.node, err)
	}
	if l.state != up {
		return l.err
	}
	return nil
}

// open opens the link from this side, that of the lower node.
func (l *Link) open(f *fiber.Fiber, deadline time.Duration) error {
	p := l.port
	conn, err := l.connNow()
	if err != nil {
		return err
	}
	s := p.cfg.Session(l.node)
	if s == nil {
		return errNoWay
	}
	l.state = isOpening
	l.reset(p.generation(), conn)
	generation := l.in.generation
	var req, resp [openingBytes]byte
	o := l.opening()
	o.put(req[:])
	n, err := s.Call(f, typeOpen, req[:], resp[:], deadline)
	if err == nil {
		err = takeOpening(resp[:n], p.cfg.Bytes, &o)
	}
	switch {
	case l.state != isOpening || l.in.generation != generation: // the port was closed, or fenced, meanwhile
		err = errors.Join(err, l.cause)
	case err != nil:
		l.fail(err)
		if !errors.As(err, new(*rpc.RemoteError)) {
			// The peer may have opened its side. It learns that there is no other from the queue pair.
			_ = conn.QP().ToError() // it usually is already
		}
	default:
		l.meet(&o)
		l.check()
	}
	l.opened.Broadcast()
	return err
}

// ask has the peer, the lower node, open the link.
func (l *Link) ask(f *fiber.Fiber, deadline time.Duration) error {
	if _, err := l.connNow(); err != nil {
		return err
	}
	s := l.port.cfg.Session(l.node)
	if s == nil {
		return errNoWay
	}
	var req [askBytes]byte
	binary.LittleEndian.PutUint64(req[:], l.in.generation)
	_, err := s.Call(f, typeAsk, req[:], nil, deadline)
	return err
}

// serveOpenings registers what peers call.
func (p *Port) serveOpenings() {
	p.rpc.HandleFrom(typeOpen, func(c *rpc.Caller, req, resp []byte) (int, error) {
		l, err := p.linkOf(c)
		if err != nil {
			return 0, err
		}
		return l.accept(req, resp)
	})
	p.rpc.HandleFiberFrom(typeAsk, func(f *fiber.Fiber, c *rpc.Caller, req, _ []byte) (int, error) {
		l, err := p.linkOf(c)
		if err != nil {
			return 0, err
		}
		if p.cfg.Node > l.node || len(req) != askBytes {
			return 0, errOpening
		}
		return 0, l.asked(f, binary.LittleEndian.Uint64(req))
	})
}

// asked opens the link for a peer that does not have it, or not any more: that of a generation, 0: it had none.
func (l *Link) asked(f *fiber.Fiber, lost uint64) error {
	l.check()
	for l.state == isOpening {
		if err := l.opened.Wait(f, 0); err != nil {
			return err
		}
	}
	if l.state == up && l.in.generation != lost {
		return nil // it was opened while the peer asked
	}
	l.fail(errReplaced)
	return l.open(f, 0)
}

// linkOf is the link to a caller.
func (p *Port) linkOf(c *rpc.Caller) (*Link, error) {
	if p.closed || int(c.Node) >= len(p.links) || p.links[c.Node] == nil {
		return nil, fmt.Errorf("node %d has no ring here", c.Node)
	}
	return p.links[c.Node], nil
}

// accept answers an opening.
func (l *Link) accept(req, resp []byte) (int, error) {
	var o opening
	if err := takeOpening(req, l.port.cfg.Bytes, &o); err != nil {
		return 0, err
	}
	conn, err := l.connNow()
	if err != nil {
		return 0, err
	}
	if l.port.cfg.Node < l.node || len(resp) < openingBytes {
		return 0, errOpening
	}
	// A link that the two sides have on different queue pairs would end at one of them only.
	if end := conn.Peer(); end.QPN != o.qpn || end.PSN != o.psn {
		return 0, errOtherEnd
	}
	l.fail(errReplaced)
	l.reset(o.generation, conn)
	l.meet(&o)
	own := l.opening()
	own.put(resp)
	return openingBytes, nil
}
