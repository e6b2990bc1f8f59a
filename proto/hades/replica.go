package hades

import (
	"encoding/binary"
	"slices"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/store/layout"
)

// Records of transactions with replicas, and what becomes of them. A record is a body of package recovery. Its word is the
// epoch in which the transaction was begun.

// kept is a record that the node keeps.
type kept struct {
	id   hardware.ID
	body []byte
}

// tomb is the entry of a deleted record in a replica. It stays while a record of an older update is kept, or an older
// state may be copied: nothing else would tell that these are older.
type tomb struct {
	shard   proto.ShardID
	table   proto.TableID
	key     proto.Key
	version layout.Version
}

// replicate has the nodes that are to hold a record of what the transaction writes get one (recovery.Holders).
func (x *tx) replicate() {
	x.copies, x.bodies = x.copies[:0], x.bodies[:0]
	v := x.e.chip.view
	if v == nil {
		return
	}
	var room [maxHolders]proto.NodeID
	holders, writes := room[:0], 0
	for i := range x.Records {
		if r := &x.Records[i]; r.Changes() {
			holders = recovery.Holders(holders, r.At, v.self())
			writes++
		}
	}
	slices.Sort(holders)
	for _, n := range slices.Compact(holders) {
		begin := len(x.bodies)
		x.bodies = recovery.BeginBody(x.bodies, v.epoch, writes)
		for i := range x.Records {
			if r := &x.Records[i]; r.Changes() {
				w := recovery.Write{Shard: r.At.Shard, Table: r.Table, Key: r.Key, Version: r.Next()}
				if r.Is && (r.Node == n || slices.Contains(r.At.Backups(), n)) {
					w.Value = r.Value
				}
				x.bodies = recovery.AppendWrite(x.bodies, &w)
			}
		}
		x.copies = append(x.copies, hardware.Copy{Node: hardware.NodeID(n), Body: x.bodies[begin:len(x.bodies):len(x.bodies)]})
	}
	if len(x.copies) > 0 {
		id := x.e.chip.ID(x.number)
		x.Name(uint64(nameOf(id)))
		x.e.chip.Replicate(x.number, x.copies)
	}
}

const maxHolders = 64 // that are found without an allocation

// nameOf is the name of a transaction in histories.
func nameOf(id hardware.ID) recovery.Name {
	return recovery.MakeName(proto.NodeID(id.Node), 0, id.Life(), id.Number())
}

// body decodes one. A record that makes no sense is a bug: nodes are models of one program.
func (v *view) body(b []byte) (writes []recovery.Write, epoch uint64) {
	body, err := recovery.ReadBody(b)
	for err == nil {
		var w recovery.Write
		var more bool
		if more, err = body.Next(v.c.first.Specs, &w); !more {
			break
		}
		writes = append(writes, w)
	}
	invariant.Assert(err == nil, "hades: a record of a transaction makes no sense")
	return writes, body.Word
}

// find is the record of a transaction, or nil.
func (v *view) find(id hardware.ID) *kept {
	for i := range v.kept {
		if v.kept[i].id == id {
			return &v.kept[i]
		}
	}
	return nil
}

// Keep implements hardware.Replicas.
func (v *view) Keep(id hardware.ID, body []byte) {
	if v.find(id) == nil {
		v.kept = append(v.kept, kept{id, slices.Clone(body)})
	}
}

// Apply implements hardware.Replicas. What the node has served since before the transaction is there by its Validation.
func (v *view) Apply(id hardware.ID, oldest uint32) bool {
	v.settled(id.Node, oldest)
	k := v.find(id)
	if k == nil {
		return true
	}
	writes, epoch := v.body(k.body)
	return v.applyAll(id, writes, func(s proto.ShardID) bool { return !v.serves(s, epoch) })
}

// applyAll applies a record to replicas and forgets it.
func (v *view) applyAll(id hardware.ID, writes []recovery.Write, due func(proto.ShardID) bool) bool {
	for i := range writes {
		w := &writes[i]
		if s := v.share(w.Shard); s != nil && due(w.Shard) && !v.apply(s, w) {
			return false
		}
	}
	v.forget(id)
	if !v.c.lacks(appliedForgotten) {
		v.applied[id.Node] = append(v.applied[id.Node], id)
	}
	v.reclaim()
	return true
}

// settled drops what is remembered of attempts of a node before oldest: their records are applied everywhere, so nobody
// will ask. A record that another node has not applied yet keeps all later ones remembered, however many they are: without
// them recovery would abort what is applied here.
func (v *view) settled(node hardware.NodeID, oldest uint32) {
	v.applied[node] = slices.DeleteFunc(v.applied[node], func(id hardware.ID) bool { return id.Attempt < oldest })
}

// forget drops a record.
func (v *view) forget(id hardware.ID) {
	v.kept = slices.DeleteFunc(v.kept, func(k kept) bool { return k.id == id })
}

// share is the node's replica of a shard; nil: the placement gives it none.
func (v *view) share(s proto.ShardID) *protocol.Share {
	if !v.placed().Shards[s].Holds(v.self()) {
		return nil
	}
	return v.c.first.Shares[s]
}

// apply applies a write to a replica that has no newer version. It reports false if the table is full for now.
func (v *view) apply(s *protocol.Share, w *recovery.Write) bool {
	if w.Version.Live() && w.Value == nil {
		return true // another holder has the value
	}
	t := s.Tables[w.Table-1]
	place, err := v.c.entry(t, w.Key)
	if err != nil {
		return false
	}
	m, off := t.At(place)
	record := t.Record()
	image := m.Bytes[off : off+record.Bytes]
	switch has := layout.HeadOf(image).Version; {
	case w.Version <= has && (has.Live() || has.Trace() != 0) && !v.c.lacks(replicaAnyOrder):
	case w.Version.Live():
		record.Put(image, w.Version, w.Value)
	default:
		binary.LittleEndian.PutUint64(image[layout.VersionOffset:], uint64(w.Version))
		v.tombs = append(v.tombs, tomb{w.Shard, w.Table, w.Key, w.Version})
	}
	return true
}

// reclaim gives the entries of deleted records back that nothing older can be written to.
func (c *Chip) reclaim() {
	if c.view != nil {
		c.view.reclaim()
	}
}

// fills reports whether an older state of a replica's records may be on its way.
func (v *view) fills(s proto.ShardID) bool {
	return slices.Contains(v.placed().Shards[s].Filling, v.self()) ||
		slices.ContainsFunc(v.copies, func(x *copying) bool { return x.shard == s })
}

func (v *view) reclaim() {
	if len(v.tombs) == 0 {
		return
	}
	named := map[proto.Key]bool{} // of any table: looked up only
	for i := range v.kept {
		writes, _ := v.body(v.kept[i].body)
		for j := range writes {
			named[writes[j].Key] = true
		}
	}
	left := v.tombs[:0]
	for _, x := range v.tombs {
		if named[x.key] || v.fills(x.shard) {
			left = append(left, x)
			continue
		}
		s := v.c.first.Shares[x.shard]
		if s == nil {
			continue
		}
		t := s.Tables[x.table-1]
		place, ok := t.Find(uint64(x.key))
		if !ok {
			continue
		}
		m, off := t.At(place)
		used := false
		if b := v.c.banks[x.shard]; b != nil {
			used = len(b.users[place]) > 0
		}
		if layout.HeadOf(m.Bytes[off:off+t.Record().Bytes]).Version == x.version && !used {
			v.c.giveBack(t, x.key)
		}
	}
	v.tombs = left
}
