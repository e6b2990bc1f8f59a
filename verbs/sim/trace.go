package sim

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"drtmd/verbs"
)

// Event is one line of the trace.
type Event struct {
	Seq  uint64 // counted from 1
	At   Time
	Kind string
	Node string // the node that it happened at; "" = none
	QPN  uint32 // 0 = none
	What string // the message that it happened to, the worker, the step or fault; may be empty
}

func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s", e.Seq, e.At, e.Kind)
	if e.Node != "" {
		b.WriteString(" " + e.Node)
	}
	if e.QPN != 0 {
		fmt.Fprintf(&b, " qp=%d", e.QPN)
	}
	if e.What != "" {
		b.WriteString(" " + e.What)
	}
	return b.String()
}

// trace hashes every event and keeps the last few.
type trace struct {
	hash uint64
	ring []record
	next int
}

type record struct {
	seq  uint64
	at   Time
	arg  uint64
	node int32 // index, -1 = none
	qpn  uint32
	kind eventKind
	text string // of marked steps and faults

	// Of a message, for who reads the trace: arg is what is hashed.
	message messageKind // 0 = none
	op      verbs.Opcode
	answer  answer // of an answer
	number  uint32 // of its request on its QP, the low bits
	length  uint32
}

// The round of xxHash64 (its two primes), a word at a time.
const (
	hashPrime1 = 0x9E3779B185EBCA87
	hashPrime2 = 0xC2B2AE3D27D4EB4F
)

func mixed(hash, v uint64) uint64 {
	return bits.RotateLeft64(hash+v*hashPrime2, 31) * hashPrime1
}

func (t *trace) mix(v uint64) { t.hash = mixed(t.hash, v) }

// add keeps the hash in a register: most of what it costs are the bytes of the text, one after the other.
func (t *trace) add(r *record) {
	h := mixed(t.hash, uint64(r.at))
	h = mixed(h, uint64(r.kind)<<56^uint64(uint32(r.node))<<24^uint64(r.qpn))
	h = mixed(h, r.arg)
	for i := range len(r.text) {
		h = mixed(h, uint64(r.text[i]))
	}
	t.hash = h
	if len(t.ring) > 0 {
		t.ring[t.next] = *r
		if t.next++; t.next == len(t.ring) {
			t.next = 0
		}
	}
}

// write adds a line to the trace.
func (w *World) write(r *record) {
	w.trace.add(r)
	if w.cfg.OnEvent != nil {
		w.cfg.OnEvent(w.event(r))
	}
}

// event is a line as the outside sees it.
func (w *World) event(r *record) Event {
	e := Event{Seq: r.seq, At: r.at, Kind: r.kind.String(), QPN: r.qpn, What: r.what()}
	if r.node >= 0 {
		e.Node = w.nodes[r.node].name
	}
	return e
}

// what says in words what the event happened to.
func (r *record) what() string {
	switch {
	case r.message == mkResponse:
		return fmt.Sprintf("%s answer #%d, %s, %d B", r.op, r.number, r.answer, r.length)
	case r.message != 0:
		return fmt.Sprintf("%s %s #%d, %d B", r.op, r.message, r.number, r.length)
	case r.kind == evStep:
		return strconv.Quote(r.text)
	case r.kind == evFault:
		return r.text
	case r.kind == evCPU:
		return fmt.Sprintf("worker %d", r.arg)
	}
	return ""
}

// Hash is the hash of the trace so far: equal for equal runs.
func (w *World) Hash() uint64 {
	h := w.trace.hash // the final avalanche of xxHash64
	h = (h ^ h>>33) * hashPrime2
	h = (h ^ h>>29) * 0x165667B19E3779F9
	return h ^ h>>32
}

// Recent gives the last events, oldest first, at most Config.KeepEvents.
func (w *World) Recent() []Event {
	var out []Event
	t := &w.trace
	for i := range t.ring {
		r := &t.ring[(t.next+i)%len(t.ring)]
		if r.seq == 0 {
			continue
		}
		out = append(out, w.event(r))
	}
	return out
}
