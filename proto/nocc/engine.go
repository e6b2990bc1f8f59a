package nocc

import (
	"encoding/binary"
	"unsafe"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Config of an Engine.
type Config struct {
	// Tables are those of each node, as this worker sees them: table t is Tables[n][t-1].
	Tables    [][]*store.Table
	Placement proto.Placement
	Region    htm.Config // of the regions in which buckets are changed
	// Recorder takes the history, with times of Clock; nil is off.
	Recorder *history.Recorder
	Clock    verbs.Clock
	// ChargePs is the CPU time of a transaction in the simulator, in picoseconds.
	ChargePs int64
}

// Engine implements proto.Engine. It has one transaction at a time: none ever waits.
type Engine struct {
	cfg    Config
	stats  proto.Stats
	region *htm.Region
	tx     tx
}

// New makes an engine.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, region: htm.NewRegion(cfg.Region)}
	e.tx.e = e
	return e
}

// Stats of the engine.
func (e *Engine) Stats() *proto.Stats { return &e.stats }

// Begin begins a transaction.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, _ int) (proto.Tx, error) {
	if e.cfg.ChargePs > 0 {
		f.Charge(e.cfg.ChargePs)
	}
	x := &e.tx
	invariant.Assert(!x.running, "a transaction without concurrency control began inside another")
	x.running = true
	x.found, x.undo, x.old = x.found[:0], x.undo[:0], x.old[:0]
	e.stats.Begun++
	// All look-ups at once: the processor overlaps their cache misses, as it does those of the
	// other protocols.
	for i := range d.Accesses {
		a := &d.Accesses[i]
		p, err := e.locate(a.Table, a.Key)
		if err != nil {
			x.running = false
			return nil, err
		}
		x.found = append(x.found, p)
	}
	if r := e.cfg.Recorder; r != nil {
		x.record = r.Begin(int64(e.cfg.Clock.Now()))
		x.record.SetKind(history.Kind(d.Kind))
	}
	return x, nil
}

// Peek reads one record.
func (e *Engine) Peek(_ *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	p, err := e.locate(t, k)
	if err != nil {
		return err
	}
	if len(dst) != p.table.ValueBytes() {
		return proto.WrongSize(t, k, len(dst), p.table.ValueBytes())
	}
	if !layout.Version(p.version()).Live() {
		return proto.ErrNotFound
	}
	copyValue(dst, p.value(len(dst)))
	return nil
}

// place is an entry that was found, or a key that has none.
type place struct {
	table *store.Table
	entry unsafe.Pointer // nil: there is none
	id    proto.TableID
	key   proto.Key
	// changed: the transaction has written it, and saved what it held.
	changed bool
}

func (p *place) word(offset int) *uint64 { return (*uint64)(unsafe.Add(p.entry, offset)) }

// version is the version word; that of a key without an entry is 0, which is absent.
func (p *place) version() layout.Version {
	if p.entry == nil {
		return 0
	}
	return layout.Version(*p.word(layout.VersionOffset))
}

func (p *place) value(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(p.entry, layout.ValueOffset)), n)
}

// table finds the table that has a key.
func (e *Engine) table(t proto.TableID, k proto.Key) (*store.Table, error) {
	node, err := proto.Home(e.cfg.Placement, t, k, len(e.cfg.Tables))
	if err != nil {
		return nil, err
	}
	tables := e.cfg.Tables[node]
	if uint(t)-1 >= uint(len(tables)) {
		return nil, proto.UnknownTable(t, k, len(tables))
	}
	return tables[t-1], nil
}

// locate finds a record.
func (e *Engine) locate(t proto.TableID, k proto.Key) (place, error) {
	table, err := e.table(t, k)
	if err != nil {
		return place{}, err
	}
	p := place{table: table, id: t, key: k}
	if off, ok := table.Find(uint64(k)); ok {
		p.entry = unsafe.Pointer(&table.Memory().Bytes[off])
	}
	return p, nil
}

// copyValue copies a value, whose size the caller has checked. Most are a word or two.
func copyValue(dst, src []byte) {
	if len(dst) == 8 {
		binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(src))
		return
	}
	copy(dst, src)
}
