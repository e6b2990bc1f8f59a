package scenario

import (
	"math/bits"
	"slices"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/placement"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
)

// What may be lost in a run with f + 1 replicas: see "What may be lost" in the package comment.
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
	// lost are the shards that had no replica in some placement; shardOf finds that of a key, nil: nobody asks.
	lost    nodeSet
	shardOf func(place) proto.ShardID
	// revoked are the transactions that survivors have aborted, by name, and unmade what these wrote in lost shards.
	revoked map[uint64]bool
	unmade  map[unmade]bool
}

// unmade is a version of a record that nobody is left with.
type unmade struct {
	place
	version history.Version
}

// death is the end of a machine's life, or its removal from the placement before that.
type death struct {
	node history.NodeID
	atNs int64 // of true time, as in the history
	// left are the newest versions that the living then had in replicas, or could make of records in logs; of those who
	// died since before all replicas were there again, what is still so.
	left map[place]leftover
	held nodeSet // shards of which a machine that lived had a whole replica
	with nodeSet // gone at the same time, itself included; empty: no placement is without it yet
}

// place is a key of a table.
type place struct {
	t history.Table
	k history.Key
}

// leftover is the newest version of a record, and its shard.
type leftover struct {
	version history.Version
	shard   proto.ShardID
}

// nodeSet has a bit for each node, or shard.
type nodeSet uint64

func nodeBit[N proto.NodeID | history.NodeID | proto.ShardID](n N) nodeSet { return 1 << n }

func newLosses(replicas int) losses {
	return losses{replicas: replicas, lived: ^nodeSet(0), lives: ^nodeSet(0)} // the first that is noted may lack some
}

// noteDeath takes down that the machine has crashed, and what the others hold.
func (s *site) noteDeath() { s.losses.add(s.death(s.id)) }

// death is that of a machine, now.
func (c *cluster) death(n proto.NodeID) *death {
	d := &death{node: history.NodeID(n), atNs: trueTime{c.e.World}.Now().Nanoseconds(),
		left: map[place]leftover{}}
	if now := c.finalPlacement(); now != nil {
		for _, o := range c.sites {
			if o.up() && now.Lives(o.id) {
				o.addVersions(now, d)
			}
		}
	}
	return d
}

// leave notes a version of a record that is left.
func (d *death) leave(t proto.TableID, k proto.Key, shard proto.ShardID, v layout.Version) {
	p := place{history.Table(t), history.Key(k)}
	d.left[p] = leftover{max(d.left[p].version, history.Version(v)), shard}
}

// addVersions takes the versions in whole replicas of the machine that are newer than those before. What a backup has
// under a lock was applied when it was logged, and may be put back (package occ): it is no more than a record in a log.
// Engines that can tell say what their logs have.
func (s *site) addVersions(now *placement.Map, d *death) {
	type logger interface{ EachLogged(func(*recovery.Write)) }
	if logs, ok := s.managers[0].w.Engine.(logger); ok {
		logs.EachLogged(func(w *recovery.Write) { d.leave(w.Table, w.Key, w.Shard, w.Version) })
	}
	for shard, share := range s.member.Workers[0].Shares {
		if share == nil || !now.Shards[shard].Complete(s.id) {
			continue
		}
		d.held |= nodeBit(proto.ShardID(shard))
		s.member.Entries(proto.ShardID(shard), func(t proto.TableID, h layout.Head, _ []byte) bool {
			if _, locked := s.protocol.Holder(h.State); locked && now.Shards[shard].Primary != s.id {
				return true
			}
			d.leave(t, proto.Key(h.Key), proto.ShardID(shard), h.Version)
			return true
		})
	}
}

// shardOf is the shard of a key, whose primary is the node of that number in the beginning.
func (c *cluster) shardOf(p place) proto.ShardID {
	return proto.ShardID(c.load.Placement().Locate(proto.TableID(p.t), proto.Key(p.k)).Primary)
}

// add takes down a death. That of a machine which was removed before is alone: what it had told was lost then, or not.
func (l *losses) add(d *death) {
	l.all = append(l.all, d)
	if l.lives&nodeBit(d.node) != 0 {
		for _, before := range l.open {
			before.lose(d)
		}
		l.open, l.ended = append(l.open, d), l.ended|nodeBit(d.node)
	}
}

// lose takes from what was left what the next death has left nowhere. What is gone from a replica that is left was deleted.
func (d *death) lose(next *death) {
	for p, was := range d.left {
		switch now, there := next.left[p]; {
		case there && now.version < was.version:
			d.left[p] = now
		case !there && next.held&nodeBit(was.shard) == 0:
			delete(d.left, p)
		}
	}
}

// note takes down who is gone in a placement. remove gives the death of a machine that is removed and has not crashed.
func (l *losses) note(now *placement.Map, remove func(proto.NodeID) *death) {
	if now.Epoch < l.epoch {
		return // some machines hear of a placement later than others
	}
	l.epoch = now.Epoch
	for _, s := range now.Lost() {
		l.lost |= nodeBit(s)
	}
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
// many as there are replicas, and the survivors have nothing of one of its updates whose shard they have, or of what it
// has read there. Of lost shards alone it may be if the survivors have revoked it, or what it has read of them.
func (l *losses) allow(r *history.Record) bool {
	i := slices.IndexFunc(l.all, func(d *death) bool { return d.node == r.Node && r.EndNs <= d.atNs })
	return i >= 0 && bits.OnesCount64(uint64(l.all[i].with)) >= l.replicas && (l.revoked[r.Name] && l.lostAll(r) ||
		slices.ContainsFunc(r.Ops, func(o history.Op) bool {
			if l.lostShard(o) {
				return o.Kind == history.OpRead && l.unmade[unmade{place{o.Table, o.Key}, o.Version}]
			}
			return l.all[i].lacks(o)
		}))
}

// lostAll reports whether a transaction has written in lost shards only.
func (l *losses) lostAll(r *history.Record) bool {
	return !slices.ContainsFunc(r.Ops, func(o history.Op) bool { return writes(o) && !l.lostShard(o) })
}

func writes(o history.Op) bool {
	return o.Kind == history.OpWrite || o.Kind == history.OpAdd || o.Kind == history.OpDelete
}

// noteRevoked takes down what survivors have aborted.
func (l *losses) noteRevoked(h *history.History) error {
	l.revoked, l.unmade = map[uint64]bool{}, map[unmade]bool{}
	err := h.Each(func(r *history.Record) error {
		if r.Outcome == history.Revoked {
			l.revoked[r.Name] = true
		}
		return nil
	})
	if err != nil || len(l.revoked) == 0 {
		return err
	}
	return h.Each(func(r *history.Record) error {
		for _, o := range r.Ops {
			if l.revoked[r.Name] && writes(o) && l.lostShard(o) {
				l.unmade[unmade{place{o.Table, o.Key}, o.Version}] = true
			}
		}
		return nil
	})
}

// lostShard reports whether all replicas of an operation's shard were lost.
func (l *losses) lostShard(o history.Op) bool {
	return l.shardOf != nil && l.lost&nodeBit(l.shardOf(place{o.Table, o.Key})) != 0
}

// lacks reports whether nothing was left of an update, or of what was read. An entry that is not there was given back after a deletion.
func (d *death) lacks(o history.Op) bool {
	left, there := d.left[place{o.Table, o.Key}]
	switch o.Kind {
	case history.OpWrite, history.OpAdd, history.OpRead:
		return left.version < o.Version
	case history.OpDelete:
		return there && left.version < o.Version
	}
	return false
}
