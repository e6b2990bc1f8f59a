package bench

import (
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/verbs"
)

// Options of a run. The zero value of a field is its default.
type Options struct {
	Ops   []Op  // nil: all
	Sizes []int // bytes; nil: defaults of each operation
	// Depth is the number of requests outstanding while the rate is measured; 0 = 128, or the
	// device's limit if that is less.
	Depth int
	// Batch is the number of requests in a post; 0 = 16, or half the depth if that is less.
	Batch int
	// Inline is the largest payload that is sent inline; -1 = the device's limit, at most 236.
	Inline int
	// Iters is the number of operations of a measurement; 0: Duration decides.
	Iters int
	// Duration of a measurement. One of Iters and Duration is positive.
	Duration time.Duration
	Phases   []Phase // nil: latency, then rate
}

const (
	// MaxSize bounds the payload of an operation in bytes; the sides hold a few times as much.
	MaxSize = 64 << 20
	// MaxIters bounds the operations of a measurement.
	MaxIters = 1 << 40
	// defaultInline is the bound that perftest uses too.
	defaultInline = 236

	defaultDepth = 128
	defaultBatch = 16
	atomicSize   = 8
)

// LimitError is an option that this device, or the peer's, does not allow.
type LimitError struct{ Text string }

func (e *LimitError) Error() string { return e.Text }

func limitf(format string, args ...any) error {
	return &LimitError{Text: fmt.Sprintf(format, args...)}
}

// plan is Options fitted to the devices of both sides.
type plan struct {
	Options
	cases     []Case
	recvDepth int // of the responder, for SEND and UD
}

// limits are what both sides can do.
type limits struct {
	device   string
	queue    int // requests
	message  int // bytes
	datagram int // bytes
	inline   int // bytes, of the initiator
	atomics  bool
}

func limitsOf(st *Station, peer exchange.Hello) limits {
	a, p := st.ctx.Attr(), st.port
	return limits{device: a.Name, queue: min(a.MaxQPWR, a.MaxCQE, peer.MaxQueue),
		message:  int(min(a.MaxMsgBytes, peer.MaxMsgBytes, MaxSize)),
		datagram: min(p.ActiveMTU, peer.ActiveMTU), inline: a.MaxInline,
		atomics: a.Atomic > verbs.AtomicNone && peer.Atomics}
}

// newPlan checks options against the limits and fills in defaults.
func newPlan(o Options, l limits) (*plan, error) {
	if o.Depth == 0 {
		o.Depth = min(defaultDepth, l.queue)
	}
	if o.Depth < 1 || o.Depth > l.queue {
		return nil, limitf("depth %d is not in 1..%d, what %s takes", o.Depth, l.queue, l.device)
	}
	if o.Batch == 0 {
		o.Batch = max(1, min(defaultBatch, o.Depth/2))
	}
	if o.Batch < 1 || o.Batch > o.Depth {
		return nil, limitf("batch %d is not in 1..%d, the depth", o.Batch, o.Depth)
	}
	if o.Inline < 0 {
		o.Inline = min(defaultInline, l.inline)
	}
	if o.Inline > l.inline {
		return nil, limitf("inline %d is not in 0..%d, what %s takes", o.Inline, l.inline, l.device)
	}
	if o.Phases == nil {
		o.Phases = []Phase{Latency, Rate}
	}
	p := &plan{Options: o, recvDepth: min(2*o.Depth, l.queue)}
	all := o.Ops == nil
	if all {
		p.Ops = Ops()
	}
	for _, op := range p.Ops {
		if err := p.addCases(op, all, l); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// addCases adds the rows of one operation. In a run of all operations what one of them cannot
// have, a size or the device's atomics, is left out.
func (p *plan) addCases(op Op, all bool, l limits) error {
	if op.atomic() && all && !l.atomics {
		return nil
	}
	sizes := p.Sizes
	if sizes == nil || op.atomic() && all {
		sizes = defaultSizes(op, l)
	}
	for _, s := range sizes {
		err := checkSize(op, s, l)
		if err != nil && all && op == Datagram && s > l.datagram && checkSize(Send, s, l) == nil {
			continue
		}
		if err != nil {
			return err
		}
		p.cases = append(p.cases, Case{Op: op, Size: s})
	}
	return nil
}

func defaultSizes(op Op, l limits) []int {
	switch op {
	case CAS, FAA:
		return []int{atomicSize}
	case Datagram:
		return []int{64, min(1024, l.datagram)}
	}
	return []int{8, 64, 1024, 4096, 65536}
}

func checkSize(op Op, size int, l limits) error {
	switch {
	case op.atomic() && !l.atomics:
		return limitf("%s: %s or the peer's device has no remote atomics", op, l.device)
	case op.atomic() && size != atomicSize:
		return limitf("size %d: %s works on %d bytes", size, op, atomicSize)
	case size < 0:
		return limitf("size %d is negative", size)
	case op == Datagram && size > l.datagram:
		return limitf("size %d: a datagram on %s has at most %d bytes, the path MTU", size,
			l.device, l.datagram)
	case size > l.message:
		return limitf("size %d: a message on %s has at most %d bytes here", size, l.device,
			l.message)
	}
	return nil
}

// endless reports options with which no measurement would ever end.
func (o *Options) endless() error {
	if o.Iters < 0 || o.Duration < 0 || o.Iters == 0 && o.Duration == 0 {
		return limitf("%d operations and %s: a measurement needs a positive number of operations or "+
			"a positive duration", o.Iters, o.Duration)
	}
	return nil
}

// creditEvery is after how many messages the receiver returns a credit: seldom, but before the
// sender's window is closed for a whole batch.
func (p *plan) creditEvery() int {
	return max(1, min(p.recvDepth/4, p.recvDepth-p.Batch))
}
