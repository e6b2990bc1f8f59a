package drtm

import (
	"time"

	"drtmd/proto"
	"drtmd/store/layout"
)

// Orphan is a record that stays locked: by a machine that died, or that is stopped, or by this
// one if the record's machine was gone when the lock was to be released. It stays so until
// recovery; transactions that need it are aborted with proto.ReasonOrphaned.
type Orphan struct {
	Node  proto.NodeID // of the record
	Table proto.TableID
	Key   proto.Key
	State State         // with the owner of the lock
	Since time.Duration // when the lock was first met, on the node's clock
}

// orphans remembers the locks that transactions ran into. A ticket makes each lock different from
// every other, so a lock that is met again after a time has been held all the while.
type orphans struct {
	seen [orphanSets][orphanWays]sighting
}

// sighting is a lock that was met.
type sighting struct {
	off      int
	state    State
	since    time.Duration
	last     time.Duration
	node     proto.NodeID
	table    proto.TableID
	key      proto.Key
	orphaned bool
}

const (
	orphanSetBits = 6
	orphanSets    = 1 << orphanSetBits
	orphanWays    = 4
)

// set are the places where a record's lock is remembered: any of them.
func (o *orphans) set(node proto.NodeID, off int) *[orphanWays]sighting {
	h := uint64(off)/layout.EntryAlignment ^ uint64(node)<<48
	return &o.seen[h*0x9e3779b97f4a7c15>>(64-orphanSetBits)] // Fibonacci hashing
}

// idleShare of Config.OrphanAfter is how long nobody has met a lock that can be forgotten. Whoever
// waits for one looks much more often.
const idleShare = 4

// met notes that a record's lock was in the way, and gives the Abort: the lock is called orphaned
// when the same one was met for Config.OrphanAfter. Locks that are waited for keep their place
// until that is decided, so that every wait is bounded however many locks stay.
func (o *orphans) met(e *Engine, it *item, s State) error {
	set := o.set(it.node, it.off)
	var x *sighting
	for i := range set {
		y := &set[i]
		if y.off == it.off && y.node == it.node && y.state != Init {
			x = y
			break
		}
		free := y.state == Init || y.orphaned || e.soft-y.last > e.cfg.OrphanAfter/idleShare
		if free && (x == nil || y.last < x.last) {
			x = y
		}
	}
	if x == nil {
		return proto.Aborting(proto.ReasonLocked)
	}
	if x.off != it.off || x.node != it.node || x.state != s {
		*x = sighting{off: it.off, node: it.node, state: s, since: e.soft,
			table: it.table, key: it.key}
	}
	x.last = e.soft
	if x.last-x.since < e.cfg.OrphanAfter {
		return proto.Aborting(proto.ReasonLocked)
	}
	x.orphaned = true
	return proto.Aborting(proto.ReasonOrphaned)
}

// Orphans appends what is known of records that stay locked, own locks that are owed included:
// this is the named condition behind proto.ReasonOrphaned. A lock that recovery has released
// meanwhile is named until another is met in its place.
func (e *Engine) Orphans(to []Orphan) []Orphan {
	for i := range e.orphans.seen {
		for j := range e.orphans.seen[i] {
			if x := &e.orphans.seen[i][j]; x.orphaned {
				to = append(to, Orphan{x.node, x.table, x.key, x.state, x.since})
			}
		}
	}
	for i := range e.debts.List {
		d := &e.debts.List[i]
		to = append(to, Orphan{Node: d.Node, Table: d.Table, Key: d.Key, State: State(d.Word)})
	}
	return to
}
