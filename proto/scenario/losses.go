package scenario

import (
	"math/bits"
	"slices"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/placement"
	"drtmd/store/layout"
)

// What may be lost in a run with f + 1 replicas. A transaction is committed when its record is in the logs of all
// backups of what it writes. If its coordinator and f others die before the primaries have its updates, it may be lost
// though the client was told. Everything else that was told must stay.
//
// A machine that stands still, or that the registry does not hear, is out when a placement is without it: its records are
// not asked for, and it comes back with nothing. Its life may end long after that, when others have its replicas.

// losses are the deaths of a run.
type losses struct {
	replicas int
	all      []*death // in the order of time
	// open are the deaths of machines that were in no placement since with all replicas of each shard.
	open []*death
	// lived are in a placement since each shard had all its replicas; gone of these are not in a later one.
	lived, gone nodeSet
	// lives are in the newest placement; ended of these have died since it was noted, or before.
	lives, ended nodeSet
	epoch        uint64 // of the newest placement
}

// death is the end of a machine's life, or its removal from the placement before that.
type death struct {
	node history.NodeID
	atNs int64 // of true time, as in the history
	// left are the newest versions that the replicas of the living then had.
	left map[place]history.Version
	with nodeSet // gone at the same time, itself included; empty: no placement is without it yet
}

// place is a key of a table.
type place struct {
	t history.Table
	k history.Key
}

// nodeSet has a bit for each node.
type nodeSet uint64

func nodeBit[N proto.NodeID | history.NodeID](n N) nodeSet { return 1 << n }

func newLosses(replicas int) losses {
	return losses{replicas: replicas, lived: ^nodeSet(0), lives: ^nodeSet(0)} // the first that is noted may lack some
}

// noteDeath takes down that the machine has crashed, and what the others hold.
func (s *site) noteDeath() { s.losses.add(s.death(s.id)) }

// death is that of a machine, now.
func (c *cluster) death(n proto.NodeID) *death {
	d := &death{node: history.NodeID(n), atNs: trueTime{c.e.World}.Now().Nanoseconds(),
		left: map[place]history.Version{}}
	if now := c.finalPlacement(); now != nil {
		for _, o := range c.sites {
			if o.up() && now.Lives(o.id) {
				o.addVersions(now, d.left)
			}
		}
	}
	return d
}

// addVersions takes the versions in whole replicas of the machine that are newer than those before. What a backup has
// under a lock was applied when it was logged, and may be put back (package occ): it is no more than a record in a log.
func (s *site) addVersions(now *placement.Map, newest map[place]history.Version) {
	for shard, share := range s.member.Workers[0].Shares {
		if share == nil || !now.Shards[shard].Complete(s.id) {
			continue
		}
		s.member.Entries(proto.ShardID(shard), func(t proto.TableID, h layout.Head, _ []byte) bool {
			if _, locked := s.protocol.Holder(h.State); locked && now.Shards[shard].Primary != s.id {
				return true
			}
			p := place{history.Table(t), history.Key(h.Key)}
			newest[p] = max(newest[p], history.Version(h.Version))
			return true
		})
	}
}

// add takes down a death. That of a machine which was removed before is alone: what it had told was lost then, or not.
func (l *losses) add(d *death) {
	l.all = append(l.all, d)
	if l.lives&nodeBit(d.node) != 0 {
		l.open, l.ended = append(l.open, d), l.ended|nodeBit(d.node)
	}
}

// note takes down who is gone in a placement. remove gives the death of a machine that is removed and has not crashed.
func (l *losses) note(now *placement.Map, remove func(proto.NodeID) *death) {
	if now.Epoch < l.epoch {
		return // some machines hear of a placement later than others
	}
	l.epoch = now.Epoch
	var lives nodeSet
	for n := range proto.NodeID(now.Nodes()) {
		if now.Lives(n) {
			lives |= nodeBit(n)
		} else if l.lives&^l.ended&nodeBit(n) != 0 {
			l.add(remove(n))
		}
	}
	l.lives, l.ended = lives, l.ended&lives
	if l.whole(now) {
		l.open = slices.DeleteFunc(l.open, func(d *death) bool { return d.with != 0 && lives&nodeBit(d.node) != 0 })
		l.lived, l.gone = lives, 0
		return
	}
	l.gone |= l.lived &^ lives
	l.lived |= lives
	for _, d := range l.open {
		if d.with != 0 || l.gone&nodeBit(d.node) != 0 {
			d.with |= l.gone
		}
	}
}

// whole reports whether each shard has all its replicas.
func (l *losses) whole(now *placement.Map) bool {
	return !slices.ContainsFunc(now.Shards, func(x placement.Shard) bool {
		return x.Lost() || len(x.Filling) > 0 || 1+len(x.Backups) != l.replicas
	})
}

// allow reports whether a transaction may be lost though its client was told: its coordinator died later, with as
// many as there are replicas, and some of its updates were in no replica of those that lived on.
func (l *losses) allow(r *history.Record) bool {
	i := slices.IndexFunc(l.all, func(d *death) bool { return d.node == r.Node && r.EndNs <= d.atNs })
	return i >= 0 && bits.OnesCount64(uint64(l.all[i].with)) >= l.replicas && slices.ContainsFunc(r.Ops, l.all[i].lacks)
}

// lacks reports whether no replica was left with an update. An entry that is not there was given back after a deletion.
func (d *death) lacks(o history.Op) bool {
	version, there := d.left[place{o.Table, o.Key}]
	switch o.Kind {
	case history.OpWrite, history.OpAdd:
		return version < o.Version
	case history.OpDelete:
		return there && version < o.Version
	}
	return false
}
