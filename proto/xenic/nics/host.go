package nics

import (
	"errors"
	"fmt"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/recovery"
	"drtmd/store/log"
	"drtmd/store/robinhood"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// HostConfig of NewHost.
type HostConfig struct {
	Node   int
	Thread int // of the host, from 0
	Cores  int // of the own NIC that take requests
	// Tables are those of each shard that the host has a replica of; nil: it has none.
	Tables    [][]*robinhood.Table
	Functions map[uint16]Function
	Options
	Mutation Mutation

	Port   *smartnic.Port
	Worker *fiber.Worker
	Memory *verbs.MR // that has the logs
	Logs   []HostLog // of the NIC's cores, that this thread applies
	// Most is how much the records of a transaction may take, as RecordBytes says; 0: MostBytes. A log's record has all.
	Most int
	// Yard is what the host's threads know together; nil: there is one thread.
	Yard *Yard
	// Polled: the worker looks at the logs in every pass, not only when they change.
	Polled bool
	// Idle: the thread applies nothing, and has no logs: others of the host do.
	Idle bool
}

// HostLog is a log that the host reads.
type HostLog struct {
	*log.Log
	At   int // offset in Memory
	Core int // of the NIC that writes it
}

// Call is a transaction as the host asks for it: a registered function with its argument, or a body that the host
// executes.
type Call struct {
	Accesses []Access
	Function uint16 // 0: Body
	Argument []byte
	// Body is executed with what the records are, in the order of the accesses: see Step.
	Body func(values []Value) Step
}

// Result is what became of it.
type Result struct {
	Status   Status
	Accesses []Access // those of the call, and of further rounds
	Values   []Value  // as they were read
	Updates  []Update // as they were written
	Bytes    []byte   // of the function
}

// Host is a thread of a host: it asks its NIC for transactions (steps 1 and 3), and applies what NICs have put into its
// logs (step 7).
type Host struct {
	cfg   HostConfig
	epoch uint64 // of the view
	next  uint64
	calls map[uint64]*Open // looked up only
	applier

	Applied, Updates uint64 // log records, and updates that were in them or held
}

// Open is a transaction that a host executes, under way at its NIC.
type Open struct {
	h        *Host
	tx       uint64
	core     int
	function uint16
	argument []byte
	begun    bool
	over     bool // the NIC has ended it
	// What the NIC has said last; 0: nothing since.
	kind uint8
	d    decoder
	came fiber.Cond

	accesses []Access
	values   []Value
	written  int // bytes of those that may be written, in messages
}

// ErrCall: a function that is not registered, a call without a body, or one that fits in no message.
var ErrCall = errors.New("not a call")

// NewHost begins to apply.
func NewHost(cfg HostConfig) *Host {
	if cfg.Yard == nil {
		cfg.Yard = &Yard{}
	}
	if cfg.Most == 0 {
		cfg.Most = MostBytes
	}
	h := &Host{cfg: cfg, calls: map[uint64]*Open{}}
	for _, kind := range []uint8{msgValues, msgRange, msgEnd} {
		cfg.Port.Handle(kind, func(m *smartnic.Message) {
			d := decoder{b: append([]byte(nil), m.Payload...)}
			tx := d.u64()
			if a := h.calls[tx]; a != nil {
				a.kind, a.d, a.over = m.Kind, d, m.Kind == msgEnd
				a.came.Broadcast()
			} else if m.Kind == msgEnd {
				h.cfg.Yard.seen(tx) // nobody waits for it
			}
		})
	}
	h.region = htm.NewRegion(htm.Config{Flag: cfg.Worker.RegionFlag()})
	h.resize()
	if !cfg.Idle {
		h.beginApplying()
	}
	return h
}

// txOf is the ID of a transaction: its node and thread, the epoch of its view, and a number there.
func txOf(node, thread int, epoch, number uint64) uint64 {
	return uint64(recovery.MakeName(proto.NodeID(node), thread, uint32(epoch%recovery.MaxLives), uint32(number)))
}

// Adopt has transactions begin in a view, with the tables of each shard that the host has a replica of.
func (h *Host) Adopt(epoch uint64, tables [][]*robinhood.Table) {
	h.epoch, h.cfg.Tables = epoch, tables
	h.resize()
}

// Next is the ID of the transaction that is begun next.
func (h *Host) Next() uint64 { return txOf(h.cfg.Node, h.cfg.Thread, h.epoch, h.following()) }

// following is the number of the next transaction; 0 is none.
func (h *Host) following() uint64 { return max(h.next+1&(1<<32-1), 1) }

// Open begins a transaction. Finish or Drop ends it.
func (h *Host) Open() *Open {
	tx := h.Next()
	h.next = h.following()
	o := &Open{h: h, tx: tx,
		core: int(h.next+uint64(h.cfg.Thread)) % h.cfg.Cores}
	h.calls[o.tx] = o
	return o
}

// wait waits for the NIC's next message.
func (o *Open) wait(f *fiber.Fiber) error {
	for o.kind == 0 {
		if err := o.came.Wait(f, 0); err != nil {
			return err
		}
	}
	return nil
}

// send asks the NIC.
func (o *Open) send(kind uint8, e *encoder) {
	if o.over {
		return // its end has not been looked at
	}
	o.kind = 0
	o.h.cfg.Port.Send(o.core, kind, e.b)
}

// Execute has the NICs lock what is written of some records, and read all (step 2). Without Committed the transaction is
// over, and nothing is locked.
func (o *Open) Execute(f *fiber.Fiber, list []Access) ([]Value, Status, error) {
	if err := o.add(list); err != nil {
		o.Drop()
		return nil, 0, err
	}
	if o.begun {
		o.send(msgFinish, message(o.tx).step(&Step{More: list}))
	} else {
		o.begun = true
		o.send(msgBegin, message(o.tx).accesses(list).u16(o.function).bytes(o.argument))
	}
	if err := o.wait(f); err != nil {
		o.Drop()
		return nil, 0, err
	}
	if o.kind == msgEnd {
		delete(o.h.calls, o.tx)
		return nil, Status(o.d.u8()), nil
	}
	values := o.d.values()
	invariant.Assert(!o.d.bad && len(values) == len(list), "xenic: the own NIC gives other values than were asked for")
	o.values = append(o.values, values...)
	return values, Committed, nil
}

// add notes what the transaction accesses, unless that is more than fits: a round into a message, and what is written into
// a log.
func (o *Open) add(list []Access) error {
	h := &o.h.cfg
	round := 0
	for _, a := range list {
		if own := h.Tables[h.Node]; int(a.Table) < len(own) {
			bytes := RecordBytes(own[a.Table].Config().ValueBytes)
			if round += bytes; a.Write {
				o.written += bytes
			}
		}
	}
	o.accesses = append(o.accesses, list...)
	switch {
	case len(o.accesses) > MaxAccesses:
		return fmt.Errorf("%w: %d records, of up to %d: split the transaction", ErrCall, len(o.accesses), MaxAccesses)
	case round > MostBytes:
		return fmt.Errorf("%w: records of %d bytes at once, of up to %d: a round fits into a message: split the transaction",
			ErrCall, round, MostBytes)
	case o.written > h.Most:
		return fmt.Errorf("%w: %d bytes of records that are written, of up to %d: they fit into a log: split the transaction, "+
			"or give the logs more room", ErrCall, o.written, h.Most)
	}
	return nil
}

// Name is the transaction's ID.
func (o *Open) Name() uint64 { return o.tx }

// Accesses is how many records the transaction has accessed, those that it has accessed twice counted twice.
func (o *Open) Accesses() int { return len(o.accesses) }

// Finish ends the transaction: what it writes is in the order of all accesses.
func (o *Open) Finish(f *fiber.Fiber, s *Step) (Status, error) {
	o.send(msgFinish, message(o.tx).step(s))
	return o.end(f)
}

func (o *Open) end(f *fiber.Fiber) (Status, error) {
	defer delete(o.h.calls, o.tx)
	if err := o.wait(f); err != nil {
		return 0, err
	}
	invariant.Assert(o.kind == msgEnd, "xenic: the own NIC goes on with a transaction that is over")
	return Status(o.d.u8()), nil
}

// Drop ends the transaction without effect. It waits for nothing.
func (o *Open) Drop() {
	if o.h.calls[o.tx] == nil {
		return
	}
	delete(o.h.calls, o.tx)
	if o.begun {
		o.send(msgFinish, message(o.tx).step(&Step{Ends: Drops}))
	}
}

// Local commits a transaction that the host has executed on its own tables (§4.2.4), or ends one that its program rolls back:
// that is Refused if all was as it has read it. list is what it has read, at the versions of values.
func (h *Host) Local(f *fiber.Fiber, ends Ends, list []Access, values []Value, updates []Update) (Status, error) {
	o := h.Open()
	if err := o.add(list); err != nil {
		o.Drop()
		return 0, err
	}
	e := message(o.tx).accesses(list)
	for _, v := range values {
		e.u64(uint64(v.Version))
	}
	kind := msgLocal
	if ends == Aborts {
		kind = msgRefuse
	}
	o.send(kind, e.updates(updates))
	return o.end(f)
}

// Run runs a transaction, and returns when its outcome is known.
func (h *Host) Run(f *fiber.Fiber, c *Call) (Result, error) {
	fn, registered := h.cfg.Functions[c.Function]
	if c.Function != 0 && !registered {
		return Result{}, fmt.Errorf("%w: function %d: %w", ErrCall, c.Function, ErrFunction)
	}
	if c.Function == 0 && c.Body == nil {
		return Result{}, fmt.Errorf("%w: neither a function nor a body", ErrCall)
	}
	if len(c.Argument) > MaxBytes {
		return Result{}, fmt.Errorf("%w: an argument of %d bytes, of up to %d", ErrCall, len(c.Argument), MaxBytes)
	}
	o := h.Open()
	if o.function, o.argument = c.Function, c.Argument; c.Function != 0 && h.cfg.Shipping {
		return o.ship(f, c.Accesses)
	}
	var result []byte // of a function that the host executes
	for more := c.Accesses; ; {
		_, status, err := o.Execute(f, more)
		if err != nil || status != Committed {
			return Result{Status: status}, err
		}
		var s Step
		if registered {
			f.Charge(fn.ps(len(o.accesses)))
			s = fn.Run(o.accesses, o.values, c.Argument)
			result = s.Result
		} else {
			s = c.Body(o.values)
		}
		if s.Ends == Commits && len(s.Writes) != 0 && len(s.More) == 0 && len(s.Writes) != len(o.accesses) {
			o.Drop()
			return Result{}, fmt.Errorf("%w: the body says what becomes of %d records, and there are %d", ErrCall,
				len(s.Writes), len(o.accesses))
		}
		if more = s.More; s.Ends == Commits && len(more) > 0 {
			continue
		}
		status, err = o.Finish(f, &s)
		r := Result{Status: status}
		if err == nil && status == Committed {
			r.Accesses, r.Values, r.Bytes = o.accesses, o.values, result
			r.Updates = updatesFrom(o.accesses, o.values, s.Writes)
		}
		return r, err
	}
}

// ship runs a transaction whose function NICs execute.
func (o *Open) ship(f *fiber.Fiber, list []Access) (r Result, err error) {
	if err := o.add(list); err != nil {
		o.Drop()
		return Result{}, err
	}
	o.begun = true
	o.send(msgBegin, message(o.tx).accesses(list).u16(o.function).bytes(o.argument))
	if r.Status, err = o.end(f); err != nil {
		return Result{}, err
	}
	if r.Bytes = o.d.bytes(); r.Status == Committed {
		x := o.h.cfg.Yard.seen(o.tx)
		r.Accesses, r.Values, r.Updates = x.accesses, x.values, x.updates
	}
	return r, nil
}

// updatesFrom are the updates of a transaction that is committed.
func updatesFrom(list []Access, values []Value, writes []Write) (updates []Update) {
	for i, w := range writes {
		switch was := values[i].Version; {
		case !list[i].Write:
		case w.Does == Put && was.Live():
			updates = append(updates, Update{list[i].Ref, Value{was.Written(), w.Bytes}})
		case w.Does == Put:
			updates = append(updates, Update{list[i].Ref, Value{was.Inserted(), w.Bytes}})
		case w.Does == Remove && was.Live():
			updates = append(updates, Update{list[i].Ref, Value{Version: was.Deleted()}})
		}
	}
	return updates
}
