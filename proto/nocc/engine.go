package nocc

import (
	"unsafe"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/protocol"
	"drtmd/proto/txset"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Config of an Engine.
type Config struct {
	Specs []proto.TableSpec
	// Tables are those of each node, as this worker sees them: table t is Tables[n][t-1].
	Tables    [][]protocol.Entries
	Placement proto.Placement
	Region    htm.Config // of the regions in which buckets are changed
	// Recorder takes the history, with times of Clock; nil is off.
	Recorder *history.Recorder
	Clock    verbs.Clock
}

// Engine implements proto.Engine. It has one transaction at a time: none ever waits.
type Engine struct {
	cfg     Config
	set     txset.Config
	buffers txset.Buffers
	stats   proto.Stats
	region  *htm.Region
	keys    keys          // of a scan
	some    [16]proto.Key // of PeekRange
	tx      tx
}

// New makes an engine.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, region: htm.NewRegion(cfg.Region)}
	e.set = txset.Config{Specs: cfg.Specs, Placement: cfg.Placement, Nodes: len(cfg.Tables),
		Recorder: cfg.Recorder, Clock: cfg.Clock}
	for _, s := range cfg.Specs {
		e.set.Records = append(e.set.Records, layout.NewRecord(layout.KindOneVersion, s.ValueBytes))
	}
	e.buffers.Init(nil, e.set.Records)
	e.keys.take = e.keys.add
	e.tx.e = e
	e.tx.Init(&e.set, &e.buffers, &e.tx)
	return e
}

// Stats of the engine.
func (e *Engine) Stats() *proto.Stats { return &e.stats }

// Close implements proto.Engine: nothing is registered.
func (e *Engine) Close() error { return nil }

// Begin begins a transaction.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, _ int) (proto.Tx, error) {
	f.Charge(beginCostPs)
	x := &e.tx
	invariant.Assert(x.F == nil, "a transaction without concurrency control began inside another")
	e.stats.Begun++
	x.Open(f, d)
	err := x.Declare(d)
	if err == nil {
		err = x.Load(0, len(x.Records))
	}
	if err != nil {
		x.Abort(err)
		return nil, err
	}
	return x, nil
}

// Peek reads one record.
func (e *Engine) Peek(f *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	n := len(e.cfg.Specs)
	if uint(t)-1 >= uint(n) {
		return proto.UnknownTable(t, k, n)
	}
	if want := e.cfg.Specs[t-1].ValueBytes; len(dst) != want {
		return proto.WrongSize(t, k, len(dst), want)
	}
	node, err := proto.Home(e.cfg.Placement, t, k, len(e.cfg.Tables))
	if err != nil {
		return err
	}
	p := e.find(node, t, k)
	live := p.version().Live()
	if live {
		copy(dst, p.value(len(dst)))
	}
	f.Charge(recordCostPs)
	if !live {
		return proto.ErrNotFound
	}
	return nil
}

// PeekRange implements proto.RangePeeker.
func (e *Engine) PeekRange(f *fiber.Fiber, t proto.TableID, from, to proto.Key, keys []proto.Key) (n int,
	err error) {
	at, err := e.tx.Range(t, from, to)
	if err != nil {
		return 0, err
	}
	some := e.some[:]
	table := &e.cfg.Tables[at.Primary][t-1]
	looked := 0
	defer func() { f.Charge(recordCostPs * int64(looked)) }()
	for {
		found, err := e.someKeys(table, from, to, some)
		if err != nil {
			return 0, err
		}
		looked += found
		for _, k := range some[:found] {
			if p := e.find(at.Primary, t, k); p.version().Live() && n < len(keys) {
				keys[n] = k
				n++
			}
		}
		if n == len(keys) || found < len(some) || some[found-1] == to {
			return n, nil
		}
		if from = some[found-1] - 1; to > some[found-1] {
			from = some[found-1] + 1
		}
	}
}

// place is where a record lies: an entry that was found, or none.
type place struct {
	table *protocol.Entries
	entry unsafe.Pointer // nil: there is none
}

// find looks a record up in its node's table.
func (e *Engine) find(n proto.NodeID, t proto.TableID, k proto.Key) place {
	p := place{table: &e.cfg.Tables[n][t-1]}
	if h := p.table.Hash; h != nil {
		if off, ok := h.Find(uint64(k)); ok {
			p.entry = unsafe.Pointer(&h.Memory().Bytes[off])
		}
		return p
	}
	if at, ok := p.table.Ordered.Find(uint64(k)); ok {
		p.put(at)
	}
	return p
}

// put is where the record's entry is.
func (p *place) put(at int) {
	m, off := p.table.Index().At(at)
	p.entry = unsafe.Pointer(&m.Bytes[off])
}

func (p *place) setVersion(v layout.Version) {
	*(*layout.Version)(unsafe.Add(p.entry, layout.VersionOffset)) = v
}

// version is the version word; that of a key without an entry is 0, which is absent.
func (p *place) version() layout.Version {
	if p.entry == nil {
		return 0
	}
	return *(*layout.Version)(unsafe.Add(p.entry, layout.VersionOffset))
}

func (p *place) value(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(p.entry, layout.ValueOffset)), n)
}
