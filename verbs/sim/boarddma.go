package sim

import (
	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// element is a part of a vector for the DMA engine: bytes of a host region, and a buffer of the NIC.
type element struct {
	mr  *mr
	off int
	buf []byte
	bad bool // there is no such region, or the bytes are outside
}

// vector is what the DMA engine carries out at one submission. Pooled.
type vector struct {
	board    *Board
	write    bool
	elements []element
	done     func(ok bool)
	failed   bool
	at, pos  int  // element, and byte of it, that come next
	begun    bool // the queue has started with it
	lines    int
	bytes    int // with their headers on PCIe
	pace     Time
	ends     Time // not before
	since    Time // of waiting for a locked line; 0 = not waiting
	run      func()
	next     *vector
}

// Stage implements smartnic.Board.
func (b *Board) Stage(core int, write bool, rkey uint32, off int, buf []byte) {
	e := element{off: off, buf: buf, mr: b.node.findMR(rkey)}
	e.bad = e.mr == nil || off < 0 || off > len(e.mr.mem.bytes) || len(buf) > len(e.mr.mem.bytes)-off
	c := &b.cores[core]
	if write {
		c.writes = append(c.writes, e)
	} else {
		c.reads = append(c.reads, e)
	}
}

// Submit implements smartnic.Board. A queue starts with a vector when those before it have gone through; the vector is
// complete the same time later, however many elements it has (Xenic §3.5). Lines are accessed one after the other, in
// ascending order, the last one when the vector completes.
func (b *Board) Submit(core int, write bool, done func(ok bool)) {
	c := &b.cores[core]
	staged := &c.reads
	if write {
		staged = &c.writes
	}
	if !b.alive() {
		*staged = (*staged)[:0]
		return
	}
	n, w := b.node, b.node.world
	invariant.Assert(len(*staged) > 0 && len(*staged) <= b.MaxVector(), "a vector has from one to so many elements")
	v := b.freeVectors
	if v == nil {
		v = &vector{board: b}
		v.run = v.step
	} else {
		b.freeVectors = v.next
	}
	v.write, v.done, v.next, v.failed, v.at, v.pos, v.since = write, done, nil, false, 0, 0, 0
	v.elements = append(v.elements[:0], *staged...)
	*staged = (*staged)[:0]
	v.lines, v.bytes, v.begun = 0, 0, false
	for i := range v.elements {
		e := &v.elements[i]
		v.failed = v.failed || e.bad
		if e.bad || len(e.buf) == 0 {
			e.buf = nil
			continue
		}
		v.lines += (e.off+len(e.buf)-1)/verbs.LineBytes - e.off/verbs.LineBytes + 1
		v.bytes += w.cost.pcieBytes(len(e.buf))
	}
	queue := &b.queues[core%len(b.queues)]
	start := max(w.now, queue.busy)
	queue.take(w.now, n.slow(Time(len(v.elements))*w.rate.element))
	w.schedule(start, event{kind: evCall, call: v.run})
}

// begin is when the queue starts with the vector: it takes its turn on PCIe.
func (v *vector) begin() {
	n := v.board.node
	w := n.world
	v.begun = true
	link, latency := &n.toNIC, w.cost.PCIe.Read
	if v.write {
		link, latency = &n.toHost, w.cost.PCIe.Write
	}
	v.ends = max(w.now+n.slow(latency), link.take(w.now, n.slow(span(v.bytes, w.rate.pciePerByte))))
	v.pace = span(w.cost.pcieBytes(verbs.LineBytes), w.rate.pciePerByte)
	w.schedule(max(w.now, v.ends-Time(v.lines)*v.pace), event{kind: evCall, call: v.run})
}

// step begins the vector, accesses a line, or ends the vector.
func (v *vector) step() {
	b := v.board
	w := b.node.world
	if !b.alive() {
		v.free()
		return
	}
	if !v.begun {
		v.begin()
		return
	}
	for v.at < len(v.elements) && v.pos == len(v.elements[v.at].buf) {
		v.at, v.pos = v.at+1, 0
	}
	if v.at == len(v.elements) {
		if v.ends > w.now {
			w.schedule(v.ends, event{kind: evCall, call: v.run})
			return
		}
		done, ok := v.done, !v.failed
		v.free()
		done(ok)
		return
	}
	e := &v.elements[v.at]
	if e.mr.closed {
		v.failed, v.pos = true, len(e.buf)
		w.schedule(w.now, event{kind: evCall, call: v.run})
		return
	}
	off := e.off + v.pos
	line := off / verbs.LineBytes
	if lineword.Word(e.mr.mem.lines[line]).Locked() {
		v.wait()
		return
	}
	v.since = 0
	size := min(verbs.LineBytes-off%verbs.LineBytes, len(e.buf)-v.pos)
	host, nic := e.mr.mem.bytes[off:off+size], e.buf[v.pos:v.pos+size]
	if v.write {
		copy(host, nic)
		e.mr.mem.lines[line] = uint64(lineword.Word(e.mr.mem.lines[line]).Next())
		e.mr.touched(line, line)
	} else {
		copy(nic, host)
	}
	v.pos += size
	w.schedule(w.now+v.pace, event{kind: evCall, call: v.run})
}

// wait puts the access off because its line is locked, or gives the vector up.
func (v *vector) wait() {
	w := v.board.node.world
	if v.since == 0 {
		v.since = w.now
	}
	waited := w.now - v.since
	if waited > lineLimit {
		v.failed = true
		v.at, v.pos = len(v.elements), 0
		w.schedule(w.now, event{kind: evCall, call: v.run})
		return
	}
	w.schedule(w.now+min(max(waited, lineRetry), lineRetryMax), event{kind: evCall, call: v.run})
}

func (v *vector) free() {
	clear(v.elements)
	v.elements, v.done = v.elements[:0], nil
	v.next, v.board.freeVectors = v.board.freeVectors, v
}
