package nics

import (
	"maps"
	"slices"

	"drtmd/store/layout"
)

// Yard is what the threads of a host know together: what its logs have brought and is not decided. It is memory of the
// host; its NIC looks at it in a recovery. It belongs to one event loop.
type Yard struct {
	hosts []*Host // that apply
	// Threads are how many there are going to be: one that has not begun has not read its logs. 0: those that have.
	Threads int
	held    map[uint64]*held
	// gone are transactions that were decided here, and that another holder may not know as decided.
	gone map[uint64]bool
	// due are transactions that a recovery has decided, for a thread to apply.
	due []uint64
	// shown are what functions have read and written, for their hosts to take down in histories: no message has it, as a client
	// is told the result alone (§4.2.2).
	shown map[uint64]*outcome
	// Serves says whether the NIC serves a shard. nil: that of its node.
	Serves func(shard int) bool
	// Filling says whether a shard's replica is being filled: what is deleted there stays. nil: none is.
	Filling func(shard int) bool
}

// outcome is what became of a function's records.
type outcome struct {
	accesses []Access
	values   []Value
	updates  []Update
}

// show keeps an outcome until its host has seen it.
func (y *Yard) show(tx uint64, x *outcome) {
	if y.shown == nil {
		y.shown = map[uint64]*outcome{}
	}
	y.shown[tx] = x
}

// seen gives it, and forgets it; an empty one if the NIC has shown none.
func (y *Yard) seen(tx uint64) outcome {
	x := y.shown[tx]
	delete(y.shown, tx)
	if x == nil {
		return outcome{}
	}
	return *x
}

// held is a transaction that is not decided, as far as this node holds records of it.
type held struct {
	tx       uint64
	written  []int // shards
	parts    []part
	applying bool // by a thread of the host
}

// part is a record of one shard.
type part struct {
	shard   int
	updates []Update
}

func (y *Yard) init() {
	if y.held == nil {
		y.held, y.gone = map[uint64]*held{}, map[uint64]bool{}
	}
}

// hold notes a record, unless the transaction is decided or the record is there.
func (y *Yard) hold(tx uint64, written []int, p part) {
	y.init()
	if y.gone[tx] {
		return
	}
	h := y.held[tx]
	if h == nil {
		h = &held{tx: tx, written: written}
		y.held[tx] = h
	}
	if h.part(p.shard) == nil {
		h.parts = append(h.parts, p)
	}
}

func (h *held) part(shard int) *part {
	for i := range h.parts {
		if h.parts[i].shard == shard {
			return &h.parts[i]
		}
	}
	return nil
}

// names of what is held, in order.
func (y *Yard) names() []uint64 { return slices.Sorted(maps.Keys(y.held)) }

// older reports whether an update of a record is held that is older than a version.
func (y *Yard) older(shard int, r Ref, v layout.Version) bool {
	for _, h := range y.held {
		if p := h.part(shard); p != nil && slices.ContainsFunc(p.updates, func(u Update) bool {
			return u.Ref == r && u.Version < v
		}) {
			return true
		}
	}
	return false
}

// Buried is how many deleted records have not been given back.
func (y *Yard) Buried() (n int) {
	for _, h := range y.hosts {
		n += len(h.graves)
	}
	return n
}

// deleted notes the incarnations that deletions in the tables of a shard have had, by table.
func (y *Yard) deleted(shard int, tables []records) {
	for _, h := range y.hosts {
		for i := range h.graves {
			if g := &h.graves[i]; g.shard == shard {
				tables[g.ref.Table].raise(g.version.Incarnation())
			}
		}
		for t, table := range h.cfg.Tables[shard] {
			tables[t].raise(table.Incarnations())
		}
	}
}
