package nics

import (
	"encoding/binary"
	"errors"
	"fmt"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/store/robinhood"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// HostConfig of NewHost.
type HostConfig struct {
	Node  int
	Cores int // of the own NIC that take requests
	// Tables are those of each shard that the host has a replica of; nil: it has none.
	Tables    [][]*robinhood.Table
	Functions map[uint16]Function
	Options
	Mutation Mutation

	Port   *smartnic.Port
	Worker *fiber.Worker
	Memory *verbs.MR // that has the logs
	Logs   []HostLog // of the NIC's cores
}

// HostLog is a log that the host reads.
type HostLog struct {
	*log.Log
	At int // offset in Memory
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
	next  uint64
	calls map[uint64]*asked // looked up only
	due   bool              // a log has got something
	more  fiber.Cond
	watch []*fiber.Watch

	Applied uint64 // log records
}

// asked is a call under way.
type asked struct {
	kind uint8
	d    decoder
	came fiber.Cond
}

// ErrCall: a function that is not registered, a call without a body, or one that fits in no message.
var ErrCall = errors.New("not a call")

// NewHost begins to apply.
func NewHost(cfg HostConfig) *Host {
	h := &Host{cfg: cfg, calls: map[uint64]*asked{}}
	for _, kind := range []uint8{msgValues, msgEnd} {
		cfg.Port.Handle(kind, func(m *smartnic.Message) {
			if a := h.calls[binary.LittleEndian.Uint64(m.Payload)]; a != nil {
				a.kind, a.d = m.Kind, decoder{append([]byte(nil), m.Payload[8:]...)}
				a.came.Broadcast()
			}
		})
	}
	for range cfg.Logs {
		h.watch = append(h.watch, cfg.Worker.NewWatch(func() bool {
			h.due = true
			h.more.Broadcast()
			return true
		}))
	}
	cfg.Worker.Submit("apply", h.apply, nil)
	return h
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
	if len(c.Accesses) > MaxAccesses || len(c.Argument) > MaxBytes {
		return Result{}, fmt.Errorf("%w: %d records and an argument of %d bytes, of up to %d and %d", ErrCall, len(c.Accesses),
			len(c.Argument), MaxAccesses, MaxBytes)
	}
	h.next++
	tx := uint64(h.cfg.Node+1)<<48 | h.next
	core := int(h.next) % h.cfg.Cores
	a := &asked{}
	h.calls[tx] = a
	defer delete(h.calls, tx)
	var result []byte // of a function that the host executes
	h.cfg.Port.Send(core, msgBegin, message(tx).u8(0).accesses(c.Accesses).u16(c.Function).bytes(c.Argument).b)
	for {
		a.kind = 0
		for a.kind == 0 {
			if err := a.came.Wait(f, 0); err != nil {
				return Result{}, err
			}
		}
		if a.kind == msgEnd {
			r := Result{Status: Status(a.d.u8()), Bytes: a.d.bytes()}
			if r.Status == Committed {
				r.Accesses, r.Values, r.Updates = a.d.accesses(), a.d.values(), a.d.updates()
				if len(r.Bytes) == 0 {
					r.Bytes = result
				}
			}
			return r, nil
		}
		values := a.d.values()
		var s Step
		if registered {
			f.Charge(fn.HostPs)
			s = fn.Run(values, c.Argument)
			result = s.Result
		} else {
			s = c.Body(values)
		}
		h.cfg.Port.Send(core, msgFinish, message(tx).step(&s).b)
	}
}

// apply is the host's Robinhood worker (step 7).
func (h *Host) apply(f *fiber.Fiber) error {
	r := htm.NewRegion(htm.Config{Flag: h.cfg.Worker.RegionFlag()})
	for {
		h.due = false
		found := false
		for i, l := range h.cfg.Logs {
			first := l.At / verbs.LineBytes
			if err := h.watch[i].Set(h.cfg.Memory, first+l.AwaitedLine()); err != nil {
				return err
			}
			var applied []Ref
			var record log.Record
			for len(applied) < maxApplied && l.Next(&record) == nil {
				found = true
				h.Applied++
				applied = append(applied, h.applyRecord(f, r, &record)...)
			}
			if l.Position() == l.Head() {
				continue
			}
			if err := l.Truncate(l.Position()); err != nil {
				return err
			}
			e := (&encoder{}).u64(l.Head()).u16(uint16(len(applied)))
			for _, x := range applied {
				e.ref(x)
			}
			h.cfg.Port.Send(i, msgApplied, e.b)
		}
		if !found && !h.due {
			if err := h.more.Wait(f, 0); err != nil {
				return err
			}
		}
	}
}

// maxApplied is how many updates of a log are applied before its NIC is told of them: with those of one more transaction, they fit
// into a message.
const maxApplied = 4096

const _ = uint(smartnic.MaxPayload - 10 - (maxApplied+MaxAccesses)*refBytes)

// applyPs is the CPU time of a record's application. Assumed.
const applyPs = 100_000

// applyRecord applies the updates of a log record that are newer than the table's, and gives the keys of a commit.
func (h *Host) applyRecord(f *fiber.Fiber, r *htm.Region, record *log.Record) (commits []Ref) {
	d := &decoder{record.Body}
	shard := int(d.u16())
	for _, u := range d.updates() {
		f.Charge(applyPs)
		t := h.cfg.Tables[shard][u.Table]
		for !h.applyUpdate(r, t, &u) {
		}
		if record.Type == logCommit {
			commits = append(commits, u.Ref)
		}
	}
	return commits
}

// applyUpdate is one update in one region; false: try again.
func (h *Host) applyUpdate(r *htm.Region, t *robinhood.Table, u *Update) bool {
	r.Begin()
	place, found, ok := t.FindIn(r, u.Key)
	if !ok {
		return false
	}
	invariant.Assert(found, "xenic: an update of a record that the table does not have")
	m, off := t.At(place)
	now, ok := r.Load64(m, off+layout.VersionOffset)
	if !ok {
		return false
	}
	if layout.Version(now) >= u.Version && h.cfg.Mutation != ApplyOlder {
		return r.Commit(nil)
	}
	record := t.Record()
	image := make([]byte, record.Bytes)
	binary.LittleEndian.PutUint64(image, u.Key)
	record.Put(image, u.Version, u.Bytes)
	return r.Store64(m, off+layout.VersionOffset, uint64(u.Version)) &&
		r.Store(m, off+layout.ValueOffset, image[layout.ValueOffset:]) && r.Commit(nil)
}
