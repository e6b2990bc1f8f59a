package occ

import (
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
	"drtmd/verbs/lineword"
	"drtmd/verbs/rpc"
)

// Look-ups in batches (Dandelion §6, Strategy.Gathers). The look-ups of one pass of the worker, and those of the requests
// of one datagram, are made twice: first one behind the other, so that the processor overlaps their cache misses, and
// then each by whoever needs it. In the simulator misses cost what the cost model says: those of a batch overlap, others
// are one after the other. A look-up misses the bucket's line, and then the lines of the entry, unless the worker has
// touched them lately.

// lookUp is a record that is going to be looked up here.
type lookUp struct {
	s     *share
	table proto.TableID
	key   proto.Key
}

// lookUps are those of a worker.
type lookUps struct {
	gathered []lookUp
	asked    []lookUp // of a datagram, where nothing is gathered
	round    uint64   // batches that were made
	// touched has, in the simulator, which lines the worker's cache has; nil: misses cost nothing.
	touched []uint64
}

// cachedLines is half of the L2 cache of a core, which two threads share: 1 MB (Dandelion Table 2).
const cachedLines = 1 << 20 / layout.LineBytes / 2

func (e *Engine) newLookUps() {
	if e.Env.Worker.CountsMisses() {
		e.lookUps.touched = make([]uint64, cachedLines)
	}
	if e.strategy.Flows && e.Env.Port != nil {
		e.Env.Port.Ahead(e.lookUpRequests)
	}
}

// prefetch asks for what the look-up of a record reads first.
func (e *Engine) prefetch(s *share, t proto.TableID, k proto.Key) {
	if x, ok := s.Tables[t-1].(protocol.PrefetchingIndex); ok {
		x.Prefetch(uint64(k))
	}
}

// prefetch asks for what the look-ups of the records that are read here read first.
func (t *tx) prefetch() {
	for i := range t.Records {
		r := &t.Records[i]
		if s := t.placeHere(r); s != nil {
			t.e.prefetch(s, r.Table, r.Key)
		}
	}
}

// lookAhead finds the entries of records that the CPU is about to read, one look-up after the other: the processor
// overlaps their cache misses. A place proves nothing: who reads there looks whose it is.
func (t *tx) lookAhead(from, to int, which func(*record) (flags, bool)) {
	for i := from; i < to; i++ {
		r := &t.Records[i]
		f, ok := which(r)
		s := t.placeHere(r)
		if !ok || s == nil || r.Node == t.e.Env.Node && !t.e.byCPU(r, f&flagLock != 0) {
			continue
		}
		if off, there := s.Tables[r.Table-1].Find(uint64(r.Key)); there {
			if r.Node == t.e.Env.Node {
				r.Own.Off = uint64(off)
			}
			if t.e.Worded() {
				s.Memory.Prefetch(off/layout.LineBytes, 1)
			}
		}
	}
}

// gather makes the look-ups of the records that a transaction is about to read here, with those of all transactions of
// the pass.
func (t *tx) gather(from, to int) error {
	e := t.e
	any := false
	for i := from; i < to; i++ {
		r := &t.Records[i]
		if s := t.placeHere(r); s != nil && !r.Loaded {
			e.lookUps.gathered = append(e.lookUps.gathered, lookUp{s, r.Table, r.Key})
			any = true
		}
	}
	if !any {
		return nil
	}
	round := e.lookUps.round
	if err := t.F.Yield(); err != nil {
		return err
	}
	if e.lookUps.round == round {
		e.lookUpAll()
	}
	return nil
}

// placeHere is the replica of a record that is read here; nil: it is read elsewhere.
func (t *tx) placeHere(r *record) *share {
	switch {
	case r.Node == t.e.Env.Node:
		return t.e.Here(r)
	case t.e.strategy.Undo && !t.e.strategy.RemoteBackups && t.e.view != nil && !t.askedAlone():
		return t.e.replica(r.At.Shard)
	}
	return nil
}

// lookUpAll makes a batch of what was gathered.
func (e *Engine) lookUpAll() {
	a := &e.lookUps
	all := a.gathered
	a.gathered, a.round = a.gathered[:0], a.round+1
	if len(all) == 0 {
		return
	}
	e.Counters.LookAheads++
	e.Counters.LookedAhead += uint64(len(all))
	buckets, entries := 0, 0
	for i := range all {
		x := &all[i]
		e.prefetch(x.s, x.table, x.key)
	}
	for i := range all {
		x := &all[i]
		off, there := x.s.Tables[x.table-1].Find(uint64(x.key))
		if there && e.Worded() {
			lineword.Load(&x.s.Memory.Words[off/layout.LineBytes])
		}
		b, l := e.misses(x)
		buckets, entries = buckets+b, entries+l
	}
	e.Env.Worker.Missed(buckets)
	e.Env.Worker.Missed(entries)
}

// lookedUp accounts for a look-up that is made alone, unless its lines were touched before.
func (e *Engine) lookedUp(s *share, table proto.TableID, key proto.Key) {
	if e.lookUps.touched == nil || s == nil {
		return
	}
	x := lookUp{s, table, key}
	buckets, entries := e.misses(&x)
	e.Env.Worker.Missed(buckets)
	e.Env.Worker.Missed(min(entries, 1)) // the lines of an entry follow each other: they are loaded together
}

// servedLookUp is lookedUp for a record of a request: where misses cost time, what the host does with a record costs as
// much as what a transaction does with one of its own node.
func (e *Engine) servedLookUp(s *share, table proto.TableID, key proto.Key) {
	if e.lookUps.touched != nil {
		e.Env.Worker.Spend(recordCostPs)
		e.lookedUp(s, table, key)
	}
}

// misses is how many lines of the bucket and of the entry of a record no cache has, which has them from now on.
func (e *Engine) misses(x *lookUp) (buckets, entries int) {
	if e.lookUps.touched == nil {
		return 0, 0
	}
	first := (uint64(x.key)*0x9e3779b97f4a7c15 ^ uint64(x.table)) * 0xff51afd7ed558ccd
	if e.touch(first) {
		buckets = 1
	}
	lines := (layout.ValueOffset + e.Env.Specs[x.table-1].ValueBytes + layout.LineBytes - 1) / layout.LineBytes
	for i := range lines {
		if e.touch(first + uint64(i+1)*0x9e3779b97f4a7c15) {
			entries++
		}
	}
	return buckets, entries
}

// touch reports whether the cache lacks a line, and puts it there.
func (e *Engine) touch(line uint64) bool {
	line ^= line >> 32
	at := &e.lookUps.touched[line%uint64(len(e.lookUps.touched))]
	was := *at
	*at = line
	return was != line
}

// lookUpRequests makes the look-ups of the compact requests of a datagram, or asks for what they read first.
func (e *Engine) lookUpRequests(n int, request func(i int) (rpc.Type, []byte)) {
	held := len(e.lookUps.gathered)
	for i := range n {
		typ, body := request(i)
		s := scan{b: body, ok: true}
		switch {
		case typ == TypeAcquire+compactType, typ == TypeValidate+compactType,
			typ == TypeRelease+compactType && e.strategy.Gathers: // what it unlocks was locked a moment ago
			s.short()
			var x item
			for in := (items{rest: s.b, specs: e.Env.Specs, packed: true}); len(in.rest) > 0 && in.next(&x); {
				e.lookUpLater(x.table, x.key)
			}
		case typ == TypeLog+compactType:
			s.recordHead()
			var w recovery.Write
			for len(s.b) > 0 {
				if s.write(e.Env.Specs, &w); s.ok {
					e.lookUpLater(w.Table, w.Key)
				}
			}
		}
	}
	if !e.strategy.Gathers {
		e.entriesAhead()
	}
	if len(e.lookUps.gathered) == held {
		return
	}
	mine := e.lookUps.gathered[:held]
	e.lookUps.gathered = e.lookUps.gathered[held:]
	e.lookUpAll()
	e.lookUps.gathered, e.lookUps.round = mine, e.lookUps.round-1
}

// lookUpLater gathers a record of a request.
func (e *Engine) lookUpLater(t proto.TableID, k proto.Key) {
	switch share, _ := e.shareOf(t, k); {
	case share == nil:
	case e.strategy.Gathers:
		e.lookUps.gathered = append(e.lookUps.gathered, lookUp{share, t, k})
	default:
		e.prefetch(share, t, k)
		e.lookUps.asked = append(e.lookUps.asked, lookUp{share, t, k})
	}
}

// entriesAhead asks for the entries of the records of a datagram, when what their look-ups read first has been asked for.
func (e *Engine) entriesAhead() {
	all := e.lookUps.asked
	if e.lookUps.asked = all[:0]; !e.Worded() || len(all) < fewAsked {
		return
	}
	for i := range all {
		x := &all[i]
		if off, there := x.s.Tables[x.table-1].Find(uint64(x.key)); there {
			x.s.Memory.Prefetch(off/layout.LineBytes, 1)
		}
	}
}

// fewAsked: of a datagram with at most so many records no entries are asked for ahead, since the look-ups that find them
// would wait for their buckets as long.
const fewAsked = 2
