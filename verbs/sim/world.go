package sim

import (
	"fmt"
	"math/rand/v2"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// Config of a World.
type Config struct {
	// Seed decides every random draw.
	Seed uint64
	// Cost is the model of the hardware; nil is the preset DefaultPreset.
	Cost *CostModel
	// EventLimit bounds the events of the world; Run fails with a *LimitError past it. 0 = none.
	EventLimit uint64
	// KeepEvents is how many of the last events Recent gives. 0 = 64, -1 = none.
	KeepEvents int
	// OnEvent, if set, is called with each line of the trace as it is written. It must not touch
	// the world.
	OnEvent func(Event)
	// OnAccess, if set, is called with each remote READ, WRITE and atomic that is about to touch an MR, again
	// where a READ is repeated. It must not touch the world.
	OnAccess func(Access)
}

// Access is what a remote operation does to an MR.
type Access struct {
	Node   string // of the MR
	RKey   uint32
	Op     verbs.Opcode
	Offset int // bytes into the MR
	Length int
}

const (
	defaultKeepEvents = 64
	maxSpent          = 4096 // slots at the start of World.instant that were run
)

// World is a simulated cluster and its event loop. It belongs to one goroutine.
type World struct {
	cfg  Config
	cost *CostModel
	rate rates // the cost model in picoseconds per operation and byte

	now      Time
	seq      uint64
	heap     eventHeap
	slab     []event
	instant  []uint32 // slots of events for now, in the order of scheduling, from first on
	first    int
	freeSlot []uint32
	canceled int // events of heap and instant that were canceled
	stopped  bool

	trace trace
	stats Stats

	nodes  []*Node
	byName map[string]*Node // looked up only, never iterated

	streams map[string]*rand.Rand // looked up only

	links  links
	steps  steps
	pool   pool
	inFire bool
	order  *order // nil: messages arrive at their times

	outcomes []*Outcome // of the schedule, in its order
}

// Stats are counters of a world.
type Stats struct {
	Events      uint64 // events run
	Messages    uint64 // messages that left a NIC
	Bytes       uint64 // their size on the wire
	Dropped     uint64 // messages lost to faults, dead nodes and the rules of UD
	Retransmits uint64
	Doorbells   uint64 // lists of requests that were posted
	Completions uint64
	Virtual     Time // the virtual time reached
}

// LimitError says that a world ran more events than Config.EventLimit allows.
type LimitError struct {
	Events uint64
	At     Time
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("simulation stopped after %d events at %s: the event limit", e.Events,
		e.At)
}

// New makes an empty world at time 0.
func New(cfg Config) (*World, error) {
	if cfg.Cost == nil {
		c, err := Preset(DefaultPreset)
		if err != nil {
			return nil, err
		}
		cfg.Cost = c
	}
	if err := cfg.Cost.Check(); err != nil {
		return nil, err
	}
	if cfg.KeepEvents == 0 {
		cfg.KeepEvents = defaultKeepEvents
	}
	w := &World{cfg: cfg, cost: cfg.Cost, rate: cfg.Cost.rates(), byName: map[string]*Node{},
		streams: map[string]*rand.Rand{}}
	if cfg.KeepEvents > 0 {
		w.trace.ring = make([]record, cfg.KeepEvents)
	}
	w.trace.mix(cfg.Seed)
	w.links.init(w)
	return w, nil
}

// Now is the virtual time.
func (w *World) Now() Time { return w.now }

// Cost is the cost model; it must not be changed.
func (w *World) Cost() *CostModel { return w.cost }

// Seed is the seed of the world.
func (w *World) Seed() uint64 { return w.cfg.Seed }

// Stats are the counters so far.
func (w *World) Stats() Stats {
	s := w.stats
	s.Virtual = w.now
	return s
}

// Rand is the random source of a named stream: the same generator at each call. Streams are
// independent, and each depends on the seed and its own name only.
func (w *World) Rand(stream string) *rand.Rand {
	r := w.streams[stream]
	if r == nil {
		var h trace
		h.mix(w.cfg.Seed)
		for i := range len(stream) {
			h.mix(uint64(stream[i]))
		}
		first := h.hash
		h.mix(uint64(len(stream)))
		r = rand.New(rand.NewPCG(first, h.hash))
		w.streams[stream] = r
	}
	return r
}

// Timer names a call that At or After scheduled.
type Timer struct {
	slot uint32
	gen  uint32 // 0 = none
}

// At schedules f for a time; the past means now. Calls for the same time run in the order in
// which they were scheduled.
func (w *World) At(t Time, f func()) Timer {
	return w.schedule(t, event{kind: evCall, call: f})
}

// After schedules f for a span from now.
func (w *World) After(d Time, f func()) Timer { return w.At(w.now.add(d), f) }

// Cancel takes a call back and reports whether it was still to come.
func (w *World) Cancel(t Timer) bool {
	if t.gen == 0 || w.slab[t.slot].gen != t.gen || w.slab[t.slot].kind <= evCanceled {
		return false
	}
	w.slab[t.slot] = event{kind: evCanceled, gen: t.gen}
	w.canceled++
	if w.canceled > 64 && w.canceled > w.heap.len()/2 {
		w.compact()
	}
	return true
}

// compact removes canceled events from the heap, so that timeouts which never strike cost
// memory for a bounded time only.
func (w *World) compact() {
	w.heap.filter(func(e entry) bool {
		if w.slab[e.slot()].kind != evCanceled {
			return true
		}
		w.release(e.slot())
		return false
	})
	w.canceled = 0
	for _, slot := range w.instant[w.first:] {
		if w.slab[slot].kind == evCanceled {
			w.canceled++
		}
	}
}

// schedule puts an event into the heap.
func (w *World) schedule(t Time, ev event) Timer {
	t = max(t, w.now)
	var slot uint32
	if n := len(w.freeSlot); n > 0 {
		slot, w.freeSlot = w.freeSlot[n-1], w.freeSlot[:n-1]
	} else {
		slot = uint32(len(w.slab))
		invariant.Assert(slot < maxSlots, "too many events wait")
		w.slab = append(w.slab, event{})
	}
	gen := w.slab[slot].gen + 1
	if gen == 0 {
		gen = 1
	}
	ev.gen = gen
	w.slab[slot] = ev
	w.seq++
	if t == w.now { // behind everything of the heap for now, which was scheduled before
		w.instant = append(w.instant, slot)
	} else {
		invariant.Assert(w.seq < maxSeq, "too many events")
		w.heap.push(newEntry(t, w.seq, slot))
	}
	return Timer{slot: slot, gen: gen}
}

// release gives a slot back; its generation stays, so that old Timers do not match.
func (w *World) release(slot uint32) {
	w.slab[slot] = event{kind: evFree, gen: w.slab[slot].gen}
	w.freeSlot = append(w.freeSlot, slot)
}

// RunOne runs the next event that is not later than limit, and reports whether there was one.
func (w *World) RunOne(limit Time) bool {
	invariant.Assert(!w.inFire, "the event loop was entered from inside an event")
	for {
		if w.order != nil && w.letArrive() {
			continue
		}
		e, ok := w.take(limit)
		if !ok {
			return false
		}
		slot := e.slot()
		ev := w.slab[slot]
		w.release(slot)
		switch ev.kind {
		case evCanceled:
			w.canceled--
			continue
		case evTimeout:
			if !ev.qp.timeoutDue(e.at) {
				continue // the clock of retries was set back meanwhile: nothing happened
			}
		}
		w.now = e.at
		w.stats.Events++
		w.inFire = true
		w.record(&ev)
		w.fire(&ev)
		w.inFire = false
		return true
	}
}

// take removes the next event that is not later than limit: what the heap has for now, then what
// was scheduled for now since, then what comes later.
func (w *World) take(limit Time) (entry, bool) {
	heap := w.heap.len() > 0 && w.heap.a[0].at <= limit
	if w.first < len(w.instant) && w.now <= limit && !(heap && w.heap.a[0].at <= w.now) {
		e := newEntry(w.now, 0, w.instant[w.first])
		if w.first++; w.first == len(w.instant) || w.first == maxSpent {
			n := copy(w.instant, w.instant[w.first:])
			w.instant, w.first = w.instant[:n], 0
		}
		return e, true
	}
	if !heap {
		return entry{}, false
	}
	return w.heap.pop(), true
}

// Run runs events until none are left, Stop was called, or the event limit is reached, which is
// the only error.
func (w *World) Run() error { return w.RunUntil(Forever) }

// RunUntil is Run that ends after the last event that is not later than t. Unless it was
// stopped, and t is not Forever, the virtual time is t then.
func (w *World) RunUntil(t Time) error {
	w.stopped = false
	for !w.stopped {
		if w.cfg.EventLimit > 0 && w.stats.Events >= w.cfg.EventLimit {
			return &LimitError{Events: w.stats.Events, At: w.now}
		}
		if !w.RunOne(t) {
			if t != Forever {
				w.now = max(w.now, t)
			}
			return nil
		}
	}
	return nil
}

// Stop makes Run return after the current event.
func (w *World) Stop() { w.stopped = true }

// Pending is the number of events to come, the clocks of retries included.
func (w *World) Pending() int {
	return w.heap.len() + len(w.instant) - w.first - w.canceled
}

// record adds an event to the trace.
func (w *World) record(ev *event) {
	r := record{seq: w.stats.Events, at: w.now, node: -1, kind: ev.kind, arg: ev.arg}
	switch {
	case ev.cpu != nil:
		r.node, r.arg = int32(ev.cpu.node.index), uint64(ev.cpu.worker)
	case ev.qp != nil:
		r.node, r.qpn = int32(ev.qp.node.index), ev.qp.qpn
	case ev.msg != nil:
		m := ev.msg
		r.node, r.qpn = int32(m.at().index), m.dstQPN
		r.message, r.op, r.answer = m.kind, m.op, m.answer
		r.number, r.length = uint32(m.seq), m.length
		r.arg ^= m.seq<<16 ^ uint64(m.kind)<<8 ^ uint64(m.op) ^ uint64(m.length)<<32
	}
	w.write(&r)
}

// Stream is random numbers that depend on two numbers alone, for what is drawn before there is a world.
func Stream(seed, number uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, number)) }
