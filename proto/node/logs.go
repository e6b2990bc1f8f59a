package node

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs"
	"drtmd/verbs/lines"
)

// logs are the rings that a member keeps for the workers of the other nodes, in one memory region: node by
// node without the own one, worker by worker.
type logs struct {
	node    proto.NodeID
	workers int
	mr      *verbs.MR
	bytes   int // of each ring's memory
	marks   bool
	rings   []*protocol.Log
}

// LogsDescriptor is the rings of a member; without any, there are none.
type LogsDescriptor struct {
	Memory verbs.RemoteMR
	Bytes  uint64 // of each ring's memory, one behind the other
	Marks  bool
	Rings  []RingDescriptor // by node without the own one, and by worker
}

// RingDescriptor is what the writer of a ring must know of it: see log.WriterConfig.
type RingDescriptor struct{ Generation, Head, Tail uint64 }

// maxLogMemory bounds the memory that a member's rings take together.
const maxLogMemory = 1 << 40

// logBytes is the size of each ring's memory; 0: there are none.
func (c *Config) logBytes() (int, error) {
	if !c.Protocol.Logs || c.Replicas == 1 {
		return 0, nil
	}
	const line = layout.LineBytes
	bytes := log.Bytes(int(c.options.Size(protocol.OptLogBytes))+line-1) / line * line
	if rings := (c.Nodes - 1) * c.Workers; bytes > maxLogMemory/rings {
		return 0, fmt.Errorf("%s: %d logs of %d bytes on each node: make them smaller, or use fewer workers",
			protocol.OptLogBytes, rings, bytes)
	}
	return bytes, nil
}

// LogBytes is the memory that a member's logs take.
func (c *Config) LogBytes() (int, error) {
	bytes, err := c.logBytes()
	return bytes*(c.Nodes-1)*c.Workers + c.ownLogBytes()*c.Workers, err
}

// Durable reports whether workers log their own transactions, so that they outlive the process in kept memory.
func (c *Config) Durable() bool { return c.ownLogBytes() > 0 }

// ownLogBytes is the memory that each worker has beside its tables for a log of its own.
func (c *Config) ownLogBytes() int {
	if c.Protocol.OwnLog == nil {
		return 0
	}
	const line = layout.LineBytes
	return (c.Protocol.OwnLog(c.options) + line - 1) / line * line
}

// makeLogs registers and formats the rings of a member, or opens those that it finds in kept memory.
func (m *Member) makeLogs() error {
	c := m.cluster
	bytes, err := c.logBytes()
	if err != nil || bytes == 0 {
		return err
	}
	l := &logs{node: m.ID, workers: c.Workers, bytes: bytes,
		marks: !m.cfg.Context.Attr().Caps.AscendingWrites}
	count := (c.Nodes - 1) * c.Workers
	o := lines.Options
	if m.cfg.Keep != "" {
		o.Keep = m.cfg.Keep + logsSuffix
	}
	if l.mr, err = m.pd.AllocMR(count*bytes, verbs.AccessAll, o); err != nil {
		return fmt.Errorf("%d logs of %d bytes: %w", count, bytes, err)
	}
	shared, err := lines.MemoryOf(l.mr)
	if err != nil {
		return err
	}
	for i := range count {
		mem := l.mr.Bytes()[i*bytes:][:bytes:bytes]
		ring := &protocol.Log{MR: l.mr, Memory: shared, Line: i * bytes / layout.LineBytes}
		if m.cfg.Attach {
			ring.Log, ring.Tail, err = attachLog(mem)
		} else {
			generation := layout.Hash(m.cfg.Incarnation+uint64(i)) | 1
			ring.Log, err = log.Format(mem, log.Config{Generation: generation, Marks: l.marks})
		}
		if err != nil {
			return fmt.Errorf("log of %s: %w", l.name(i), err)
		}
		ring.Share(shared.Part(i*bytes, bytes))
		l.rings = append(l.rings, ring)
	}
	m.logs = l
	return nil
}

// name says whose a ring is.
func (l *logs) name(ring int) string {
	n := ring / l.workers
	if n >= int(l.node) {
		n++
	}
	return fmt.Sprintf("worker %d of node %d", ring%l.workers, n)
}

// attachLog opens a log that was left in kept memory: it is read from its head on, and was wiped behind its
// last complete record, where its next writer begins.
func attachLog(mem []byte) (l *log.Log, tail uint64, err error) {
	if l, err = log.Open(mem); err != nil {
		return nil, 0, err
	}
	s, err := l.Recover(func(*log.Record) error { return nil })
	if err == nil && s.Damaged() {
		err = fmt.Errorf("%w: start the node with empty memory", s.Why)
	}
	if err != nil {
		return nil, 0, err
	}
	l, err = log.Open(mem)
	return l, s.End, err
}

// ringOf is where the ring of a worker of a node is in the list of its host.
func ringOf(host, writer proto.NodeID, worker, workers int) int {
	n := int(writer)
	if writer > host {
		n--
	}
	return n*workers + worker
}

// of are the rings that a worker of the member keeps: see Env.Logs.
func (l *logs) of(worker int) []*protocol.Log {
	if l == nil {
		return nil
	}
	list := make([]*protocol.Log, len(l.rings)/l.workers+1)
	for n := range list {
		if n != int(l.node) {
			list[n] = l.rings[ringOf(l.node, proto.NodeID(n), worker, l.workers)]
		}
	}
	return list
}

// describe is what the writers must know.
func (l *logs) describe() (d LogsDescriptor) {
	if l == nil {
		return d
	}
	d = LogsDescriptor{Memory: l.mr.Remote(), Bytes: uint64(l.bytes), Marks: l.marks}
	for _, r := range l.rings {
		d.Rings = append(d.Rings, RingDescriptor{Generation: r.Generation(), Head: r.Head(),
			Tail: max(r.Tail, r.Position())})
	}
	return d
}

// of is the ring of a worker at the node described.
func (d *LogsDescriptor) of(host proto.NodeID, w *Worker) (l proto.PeerLog) {
	if len(d.Rings) == 0 || host == w.Node {
		return l
	}
	i := ringOf(host, w.Node, w.Index, len(d.Rings)/(len(w.Peers)-1))
	r := &d.Rings[i]
	return proto.PeerLog{Addr: d.Memory.Addr + uint64(i)*d.Bytes, RKey: d.Memory.RKey,
		Writer: log.WriterConfig{Capacity: int(d.Bytes) - log.Bytes(0), Generation: r.Generation,
			Marks: d.Marks, Head: r.Head, Tail: r.Tail}}
}

// checkLogs refuses a member with other logs.
func (m *Member) checkLogs(d *Descriptor) error {
	var own LogsDescriptor
	if m.logs != nil {
		own.Bytes, own.Rings = uint64(m.logs.bytes), make([]RingDescriptor, len(m.logs.rings))
	}
	if its := &d.Logs; len(its.Rings) != len(own.Rings) || its.Bytes != own.Bytes {
		return fmt.Errorf("node %d: member %d has %d logs in %d bytes each, want %d in %d: all members must "+
			"have the same configuration", m.ID, d.Node, len(its.Rings), its.Bytes, len(own.Rings), own.Bytes)
	}
	return nil
}

// Sizes in a descriptor.
const (
	logsHeadBytes = 4 + 4 + 8 + 8 + 8
	ringBytes     = 8 + 8 + 8
)

// append encodes the rings, if there are any, little endian:
//
//	 0  rkey 4 | marks 1, zero 3 | address 8 | length 8 | bytes of each ring's memory 8
//	32  the rings, each generation 8 | head 8 | tail 8
func (d *LogsDescriptor) append(b []byte) []byte {
	if len(d.Rings) == 0 {
		return b
	}
	b = le.AppendUint32(b, d.Memory.RKey)
	marks := uint32(0)
	if d.Marks {
		marks = 1
	}
	b = le.AppendUint32(b, marks)
	for _, x := range [...]uint64{d.Memory.Addr, d.Memory.Length, d.Bytes} {
		b = le.AppendUint64(b, x)
	}
	for _, r := range d.Rings {
		for _, x := range [...]uint64{r.Generation, r.Head, r.Tail} {
			b = le.AppendUint64(b, x)
		}
	}
	return b
}

// decodeLogs takes some rings from the front of some bytes.
func decodeLogs(b []byte, rings int) (d LogsDescriptor, rest []byte, err error) {
	if rings == 0 {
		return d, b, nil
	}
	if len(b) < logsHeadBytes || (len(b)-logsHeadBytes)/ringBytes < rings {
		return d, b, fmt.Errorf("%d logs in %d bytes", rings, len(b))
	}
	d.Memory = verbs.RemoteMR{RKey: le.Uint32(b), Addr: le.Uint64(b[8:]), Length: le.Uint64(b[16:])}
	d.Bytes = le.Uint64(b[24:])
	if marks := le.Uint32(b[4:]); marks > 1 || d.Bytes > maxLogMemory {
		return d, b, errors.New("logs that cannot be")
	}
	d.Marks = b[4] == 1
	for b = b[logsHeadBytes:]; rings > 0; rings-- {
		d.Rings = append(d.Rings, RingDescriptor{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])})
		b = b[ringBytes:]
	}
	return d, b, nil
}
