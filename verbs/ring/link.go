package ring

import (
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lines"
	"drtmd/verbs/rpc"
)

const lineBytes = lines.Bytes

// state of a Link.
type state uint8

const (
	down state = iota
	isOpening
	up
)

// Link is the way to one worker of another node.
type Link struct {
	port *Port
	node int
	at   int // of its memory in the port's
	conn *fiber.Conn

	state  state
	opened fiber.Cond
	cause  error // of the last failure
	err    error // the same, as calls have it

	in     inRing
	out    outRing
	watch  *fiber.Watch // of the next message
	credit *fiber.Watch // of what the peer tells of the ring to it

	slots    []slot
	free     []uint16
	busy     int // calls whose answers have not come
	started  uint64
	reqRoom  int // that unanswered requests take
	respRoom int // that their answers will take
	more     fiber.Cond
	stalled  bool // a request waits for room for its answer
	telling  bool // a WRITE that tells how far the ring from the peer was read is in flight
	told     func(error)
	dirty    bool
	heard    time.Duration // when the last message came
}

// inRing is the ring from the peer, in own memory.
type inRing struct {
	shape
	next uint64 // position of the next message
	told uint64 // how far the peer knows that the ring was read
	tell uint64 // address of the word in which it is told, at the peer
	mem  lines.Memory
}

// outRing is the ring to the peer, as it is written here before it is WRITTEN there.
type outRing struct {
	shape
	tail   uint64 // of the next message
	posted uint64
	head   uint64 // how far the peer has read, as far as it has told
	addr   uint64 // of the ring
	rkey   uint32 // of the peer's memory
	mem    []byte
}

// The memory of a link: the ring from the peer, that to the peer, the word in which the peer tells how far it
// has read, and the one from which this side tells the same. Each word has a line.
func (c *Config) linkBytes() int { return 2*c.Bytes + 2*lineBytes }

func (l *Link) inAt() int     { return l.at }
func (l *Link) outAt() int    { return l.at + l.port.cfg.Bytes }
func (l *Link) creditAt() int { return l.at + 2*l.port.cfg.Bytes }
func (l *Link) tellAt() int   { return l.creditAt() + lineBytes }

func newLink(p *Port, node, at int) *Link {
	l := &Link{port: p, node: node, at: at, slots: make([]slot, p.cfg.Calls),
		err: fmt.Errorf("%w: it was not opened yet", ErrDown)}
	for i := range l.slots {
		l.slots[i].id = uint32(i)
	}
	b := p.mr.Bytes()
	l.in.mem = p.memory.Part(l.inAt(), p.cfg.Bytes)
	l.out.mem = b[l.outAt() : l.outAt()+p.cfg.Bytes]
	l.told = func(error) {
		if l.telling = false; l.state == up && l.behind() {
			l.touch()
		}
	}
	l.watch = p.w.NewWatch(l.poll)
	l.credit = p.w.NewWatch(l.credited)
	return l
}

// reset begins a new life of the link, with rings that are empty.
func (l *Link) reset(generation uint64, conn *fiber.Conn) {
	s := shape{capacity: uint64(l.port.cfg.Bytes), generation: generation, marks: l.port.marks}
	l.conn = conn
	l.in = inRing{shape: s, mem: l.in.mem}
	s.wipe(l.in.mem)
	l.out = outRing{shape: s, mem: l.out.mem}
	l.port.memory.Store(l.creditAt(), 0)
	l.free = l.free[:0]
	for i := range l.slots {
		invariant.Assert(!l.slots[i].busy, "a link is reset with calls in flight")
		l.free = append(l.free, uint16(len(l.slots)-1-i))
	}
	l.busy, l.reqRoom, l.respRoom, l.stalled, l.dirty = 0, 0, 0, false, false
}

// meet takes what the peer has said of its side.
func (l *Link) meet(o *opening) {
	l.out.addr, l.out.rkey, l.out.marks = o.ring, o.rkey, o.marks
	l.in.tell = o.credit
	l.state, l.cause, l.err = up, nil, nil
	l.heard = l.port.w.Now()
	l.port.Stats.Opened++
	l.poll()
}

// fail takes the link down, and ends its calls.
func (l *Link) fail(cause error) {
	if l.state == down {
		return
	}
	l.state, l.cause = down, cause
	l.err = fmt.Errorf("%w: node %d: %w", ErrDown, l.node, cause)
	l.watch.Stop()
	l.credit.Stop()
	if !l.port.closed {
		l.port.Stats.Down++
	}
	for i := range l.slots {
		x := &l.slots[i]
		if c := x.call; c != nil {
			c.end(0, l.err)
		}
		x.call, x.resp, x.busy = nil, nil, false
	}
	l.busy = 0
	l.more.Broadcast()
	l.opened.Broadcast()
}

// check takes the link down if its queue pair has failed or is not the peer's any more.
func (l *Link) check() {
	if l.state != up {
		return
	}
	if err := l.conn.Err(); err != nil {
		l.fail(err)
	} else if l.port.cfg.Conn(l.node) != l.conn {
		l.fail(errReplaced)
	}
}

// room in the ring to the peer, as far as is known.
func (l *Link) room() int {
	l.learn(l.port.memory.Load(l.creditAt()))
	return int(l.out.capacity - (l.out.tail - l.out.head))
}

// learn takes how far the peer has read.
func (l *Link) learn(head uint64) {
	if head > l.out.head && head <= l.out.posted {
		l.out.head = head
		l.more.Broadcast()
	}
}

// watchCredit has credited called when the peer tells how far it has read.
func (l *Link) watchCredit() {
	if err := l.credit.Set(l.port.mr, l.creditAt()/lineBytes); err != nil {
		l.fail(err)
	}
}

// credited looks how far the peer has read.
func (l *Link) credited() bool {
	before := l.out.head
	if l.state != up || l.room() < 0 || l.out.head == before {
		return false
	}
	l.credit.Stop()
	if l.stalled {
		l.stalled = false
		l.poll()
	}
	return true
}

// append puts a message at the end of the ring to the peer. There is room.
func (l *Link) append(h *header, body []byte) {
	h.epoch, h.head = uint32(l.port.epoch), l.in.next
	n := l.out.put(l.out.mem, l.out.tail, h, body)
	l.out.tail += uint64(n)
	l.in.told = l.in.next
	l.port.Stats.Bytes += uint64(n)
	l.port.w.RPCWork(1, 0)
	l.touch()
}

// touch has the link flushed at the end of the pass.
func (l *Link) touch() {
	if !l.dirty {
		l.dirty = true
		l.port.dirty = append(l.port.dirty, l)
	}
}

// poll takes the messages that have arrived, and reports whether there were any.
func (l *Link) poll() (found bool) {
	p := l.port
	for l.state == up && !l.stalled {
		var h header
		ok, at, err := l.in.look(l.in.mem, l.in.next, &h, p.lacks(TakenEarly))
		if err == nil && ok {
			found = true
			err = l.message(&h)
		} else if err == nil {
			if err = l.watch.Set(p.mr, (l.inAt()+at)/lineBytes); err == nil {
				break
			}
		}
		if err != nil {
			p.Stats.Garbage++
			l.fail(err)
		}
	}
	if l.state == up && l.behind() {
		l.touch()
	}
	return found
}

// behind reports whether the peer is to be told how far its ring was read.
func (l *Link) behind() bool {
	return l.in.next-l.in.told >= uint64(l.port.cfg.Bytes)/tellPart
}

// message takes the next message, if there is room for its answer.
func (l *Link) message(h *header) error {
	p := l.port
	if h.kind == request {
		if h.reserve < 1 || h.reserve*lineBytes > p.cfg.Bytes {
			return errGarbage
		}
		if l.room() < h.reserve*lineBytes && !p.lacks(OverwriteUnread) {
			p.Stats.Stalls++
			l.stalled = true
			l.watch.Stop()
			l.watchCredit()
			return nil
		}
	}
	body := p.body[:h.length]
	l.in.next += uint64(l.in.take(l.in.mem, l.in.next, h, body))
	l.heard = p.w.Now()
	p.Stats.Received++
	p.w.Polled(1)
	l.learn(h.head)
	if h.kind == answer {
		return l.answered(h, body)
	}
	l.serve(h, body)
	return nil
}

// serve executes a request and answers it.
func (l *Link) serve(h *header, body []byte) {
	p := l.port
	a := header{kind: answer, id: h.id, typ: h.typ}
	most := min(l.out.body(h.reserve), len(p.resp))
	n := 0
	switch handle := p.handlers[h.typ]; {
	case h.epoch < uint32(p.epoch) && !p.lacks(OldEpochTaken):
		p.Stats.OldEpochs++
		a.flags = flagEpoch
	case handle == nil:
		a.flags = flagError | flagNoHandler
	default:
		p.caller = Caller{Node: l.node, Epoch: rpc.Epoch(h.epoch)}
		var err error
		if n, err = handle(&p.caller, body, p.resp[:most]); err != nil {
			a.flags, n = flagError, copy(p.resp[:most], err.Error())
		}
	}
	p.Stats.Answers++
	if l.state == up {
		l.append(&a, p.resp[:n])
	}
}

// flush WRITES what was appended, and how far the ring from the peer was read; false if the queue pair has no
// room for that now.
func (l *Link) flush() (done bool, err error) {
	p := l.port
	for l.out.posted < l.out.tail {
		at := l.out.at(l.out.posted)
		n := min(int(l.out.tail-l.out.posted), p.cfg.Bytes-at)
		ok, err := l.write(l.outAt()+at, n, l.out.addr+uint64(at), nil)
		if !ok || err != nil {
			return ok, err
		}
		p.Stats.Writes++
		l.out.posted += uint64(n)
	}
	if l.behind() {
		return l.tell()
	}
	return true, nil
}

// tell WRITES how far the ring from the peer was read. The word stays as it is while a WRITE reads it.
func (l *Link) tell() (done bool, err error) {
	if l.telling {
		return true, nil
	}
	l.port.memory.Store(l.tellAt(), l.in.next)
	ok, err := l.write(l.tellAt(), 8, l.in.tell, l.told)
	if ok {
		l.telling = true
		l.in.told = l.in.next
		l.port.Stats.Told++
	}
	return ok, err
}

// write posts a WRITE of n bytes of the port's memory.
func (l *Link) write(at, n int, addr uint64, then func(error)) (ok bool, err error) {
	wr := verbs.WR{Op: verbs.OpWrite, NumSGE: 1, RemoteAddr: addr, RKey: l.out.rkey}
	wr.SGE[0] = l.port.mr.SGE(at, n)
	return l.conn.TryPost(&wr, then)
}
