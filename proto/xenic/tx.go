package xenic

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/txset"
	"drtmd/proto/xenic/nics"
	"drtmd/store/layout"
)

// part is what the engine knows of a record.
type part struct {
	at       int // in the list of accesses, the last time
	locked   bool
	inserted bool // it was locked with room for it
}

type record = txset.Record[part]

// tx implements proto.Tx. One fiber has it between Begin and the end.
type tx struct {
	txset.Set[part]
	e    *Engine
	host bool       // so far all records were read on the host
	open *nics.Open // at the NIC; nil: nothing is

	value   []byte // room for one
	list    []nics.Access
	written []nics.Write
	values  []nics.Value
	updates []nics.Update
}

// aborting is the abort that a status stands for.
func aborting(s nics.Status) error {
	switch s {
	case nics.Locked, nics.Full:
		return proto.Aborting(proto.ReasonLocked)
	case nics.Changed:
		return proto.Aborting(proto.ReasonValidation)
	case nics.NoRoom:
		return proto.Aborting(proto.ReasonFull)
	case nics.Unstable:
		return proto.Aborting(proto.ReasonStale)
	case nics.Moved:
		return proto.Aborting(proto.ReasonMoved)
	}
	if s == nics.NoFunction {
		return fmt.Errorf("xenic: a function is not registered at the node that is to execute it: run the same program with the " +
			"same workload on all nodes")
	}
	return fmt.Errorf("xenic: the NIC refuses a transaction: %v", s)
}

// Load implements txset.Loader: it reads records, and locks those to be written, unless the host reads them.
func (x *tx) Load(from, to int) error {
	x.F.Step(stepBegin)
	first := 0
	if x.host {
		ok, err := x.readHere(from, to)
		if ok || err != nil {
			return err
		}
		x.host = false // the NIC reads all of them
	} else {
		first = from
	}
	if err := x.execute(first, to); err != nil {
		return err
	}
	x.F.Step(stepExecuted)
	return nil
}

// execute is an EXECUTE round of some records, or several where they do not fit into a message. Those that were read before
// must be as they were.
func (x *tx) execute(from, to int) error {
	for from < to {
		end, bytes := from, 0
		for end < to {
			bytes += nics.RecordBytes(x.e.env.Specs[x.Records[end].Table-1].ValueBytes)
			if end > from && bytes > nics.MostBytes {
				break
			}
			end++
		}
		if err := x.executeRound(from, end); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// executeRound is one.
func (x *tx) executeRound(from, to int) error {
	x.list = x.list[:0]
	next := 0
	if x.open == nil {
		x.open = x.e.host.Open()
		x.Name(x.open.Name())
	} else {
		next = x.open.Accesses()
	}
	for i := from; i < to; i++ {
		r := &x.Records[i]
		r.Own = part{at: next + len(x.list), locked: r.Mode >= proto.ModeWrite, inserted: r.Mode == proto.ModeInsert}
		x.list = append(x.list, access(r))
	}
	values, err := x.round()
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if err := x.accept(&x.Records[i], &values[i-from]); err != nil {
			return err
		}
	}
	return nil
}

// Keys implements txset.Scanner: the primary's NIC knows them, and the commit validates that there are no others.
func (x *tx) Keys(t proto.TableID, _ proto.Location, from, to proto.Key, keys []proto.Key) (n int, err error) {
	if err := x.F.Err(); err != nil {
		return 0, err
	}
	if x.host { // what it has read in its own tables, the NIC reads again
		x.host = false
		if err := x.execute(0, len(x.Records)); err != nil {
			return 0, err
		}
	}
	if x.open == nil {
		x.open = x.e.host.Open()
		x.Name(x.open.Name())
	}
	for n < len(keys) {
		r := nics.Range{Table: uint8(t - 1), From: uint64(from), To: uint64(to), Most: min(len(keys)-n, nics.MaxKeys)}
		some, status, err := x.open.Keys(x.F, &r)
		if err != nil || status != nics.Committed {
			x.open = nil
			if err == nil {
				err = aborting(status)
			}
			return 0, err
		}
		for _, k := range some {
			keys[n] = proto.Key(k)
			n++
		}
		if len(some) < r.Most || keys[n-1] == to {
			break
		}
		if from = keys[n-1] + 1; r.From > r.To {
			from = keys[n-1] - 1
		}
	}
	return n, nil
}

// round has the NIC execute the accesses of x.list.
func (x *tx) round() ([]nics.Value, error) {
	values, status, err := x.open.Execute(x.F, x.list)
	if err != nil {
		x.open = nil
		return nil, err
	}
	if status != nics.Committed {
		x.open = nil
		return nil, aborting(status)
	}
	return values, nil
}

func access(r *record) nics.Access {
	return nics.Access{Ref: refOf(r), Write: r.Mode >= proto.ModeWrite, Insert: r.Mode == proto.ModeInsert}
}

func refOf(r *record) nics.Ref { return nics.Ref{Table: uint8(r.Table - 1), Key: uint64(r.Key)} }

// accept takes what a record is.
func (x *tx) accept(r *record, v *nics.Value) error {
	if r.Loaded {
		if r.Version != v.Version {
			return proto.Aborting(proto.ReasonValidation)
		}
		return nil
	}
	live := v.Version.Live()
	if live {
		copy(r.Value, v.Bytes)
	}
	r.Take(v.Version, live)
	return nil
}

const maxReads = 32 // regions of one look-up that abort

// readHere reads records on the host, if they are of its shard and there (§4.2.4).
func (x *tx) readHere(from, to int) (ok bool, err error) {
	e := x.e
	for i := from; i < to; i++ {
		if r := &x.Records[i]; r.Node != e.env.Node || r.At.Shard != proto.ShardID(e.env.Node) {
			return false, nil
		}
	}
	for i := from; i < to; i++ {
		r := &x.Records[i]
		x.F.Charge(findPs)
		tries := 0
		for !x.look(r) {
			if tries++; tries == maxReads {
				return false, nil
			}
			if err := x.F.Yield(); err != nil {
				return false, err
			}
		}
		if !r.Loaded {
			return false, nil
		}
	}
	return true, nil
}

// look reads a record in a region; false: again. A record that is not there stays unloaded.
func (x *tx) look(r *record) bool {
	e := x.e
	t, region := e.tables[r.Table-1], e.region
	if !region.Begin() {
		return false
	}
	place, found, ok := t.FindIn(region, uint64(r.Key))
	if !ok {
		return false
	}
	image := e.image[:t.Record().Bytes]
	if found {
		m, off := t.At(place)
		if !region.Load(m, off, image) {
			return false
		}
	}
	if !region.Commit(nil) {
		return false
	}
	if v := layout.HeadOf(image).Version; found && v.Live() {
		copy(r.Value, t.Record().Value(image, make([]byte, t.Record().Room)))
		r.Take(v, true)
	}
	return true
}

// Commit implements proto.Tx.
func (x *tx) Commit() error {
	if x.Err != nil {
		err := x.Err
		x.Abort(err)
		return err
	}
	x.F.Step(stepCommit)
	if err := x.lock(); err != nil {
		x.Abort(err)
		return err
	}
	x.NoteWrites()
	status, err := x.end(nics.Commits)
	if err == nil && status != nics.Committed {
		err = aborting(status)
	}
	if err != nil {
		x.Abort(err)
		return err
	}
	x.F.Step(stepCommitted)
	if !x.changes() && !x.mayTell() {
		x.finish(history.Aborted)
		return aborting(nics.Moved)
	}
	x.e.stats.Committed++
	x.finish(history.Committed)
	return nil
}

// mayTell reports whether the client may be told of what was read in the own memory alone: nobody serves in the place of
// this node. What was written has records that other nodes hold, and these know who is a member.
func (x *tx) mayTell() bool {
	return x.e.env.MayServe() || x.e.chip.mutation == nics.ServeLeaseless
}

// Rollback implements proto.Tx: the NIC confirms that what was read was there at one moment.
func (x *tx) Rollback() error {
	if x.Err != nil {
		err := x.Err
		x.Abort(err)
		return err
	}
	status, err := x.end(nics.Aborts)
	if err == nil && status != nics.Committed && status != nics.Refused {
		err = aborting(status)
	}
	if err != nil {
		x.Abort(err)
		return err
	}
	if !x.mayTell() {
		x.finish(history.Aborted)
		return aborting(nics.Moved)
	}
	for i := range x.Records {
		x.Records[i].Dirty = false
	}
	x.e.stats.RolledBack++
	x.finish(history.UserAborted)
	return nil
}

// Abort implements proto.Tx.
func (x *tx) Abort(error) {
	x.drop()
	x.finish(history.Aborted)
}

// drop gives back what the NIC holds.
func (x *tx) drop() {
	if x.open != nil {
		x.open.Drop()
		x.open = nil
	}
}

func (x *tx) finish(o history.Outcome) {
	x.Close(o)
	x.e.free = append(x.e.free, x)
}

// lock has the NIC lock what the program changes and has not declared so: another round.
func (x *tx) lock() error {
	if x.host {
		return nil
	}
	x.list = x.list[:0]
	next := 0
	if x.open != nil {
		next = x.open.Accesses()
	}
	for i := range x.Records {
		r := &x.Records[i]
		if !r.Changes() || r.Own.locked && (r.Was || r.Own.inserted) {
			continue
		}
		r.Mode = proto.ModeWrite
		if !r.Was {
			r.Mode = proto.ModeInsert
		}
		r.Own = part{at: next + len(x.list), locked: true, inserted: !r.Was}
		x.list = append(x.list, access(r))
	}
	if len(x.list) == 0 {
		return nil
	}
	values, err := x.round()
	if err != nil {
		return err
	}
	for i := range x.Records {
		r := &x.Records[i]
		if at := r.Own.at - next; at >= 0 && r.Changes() {
			if err := x.accept(r, &values[at]); err != nil {
				return err
			}
		}
	}
	return nil
}

// end ends the transaction at the NIC, and waits for the outcome. It is not cancelled.
func (x *tx) end(ends nics.Ends) (nics.Status, error) {
	was := x.F.Shield()
	defer x.F.Unshield(was)
	if x.host {
		return x.endHere(ends)
	}
	if x.open == nil {
		return nics.Committed, nil // it has touched nothing
	}
	s := nics.Step{Ends: ends}
	if ends == nics.Commits && x.changes() {
		x.written = append(x.written[:0], make([]nics.Write, x.open.Accesses())...)
		for i := range x.Records {
			if r := &x.Records[i]; r.Changes() {
				w := nics.Write{Does: nics.Remove}
				if r.Is {
					w = nics.Write{Does: nics.Put, Bytes: r.Value}
				}
				x.written[r.Own.at] = w
			}
		}
		s.Writes = x.written
	}
	o := x.open
	x.open = nil
	return o.Finish(x.F, &s)
}

func (x *tx) changes() bool {
	for i := range x.Records {
		if x.Records[i].Changes() {
			return true
		}
	}
	return false
}

// endHere ends a transaction that the host has executed (§4.2.4).
func (x *tx) endHere(ends nics.Ends) (nics.Status, error) {
	x.list, x.values, x.updates = x.list[:0], x.values[:0], x.updates[:0]
	for i := range x.Records {
		r := &x.Records[i]
		if !r.Loaded {
			continue
		}
		changed := ends == nics.Commits && r.Changes()
		x.list = append(x.list, nics.Access{Ref: refOf(r), Write: changed})
		x.values = append(x.values, nics.Value{Version: r.Version})
		if changed {
			invariant.Assert(r.Was, "xenic: a host inserts a record")
			u := nics.Update{Ref: refOf(r), Value: nics.Value{Version: r.Next()}}
			if r.Is {
				u.Bytes = r.Value
			}
			x.updates = append(x.updates, u)
		}
	}
	if len(x.list) == 0 {
		return nics.Committed, nil
	}
	if x.e.chip.mutation == nics.ReadsPastLog && len(x.updates) == 0 {
		return x.unchangedHere(), nil
	}
	x.Name(x.e.host.Next())
	return x.e.host.Local(x.F, ends, x.list, x.values, x.updates)
}

// unchangedHere is a deliberate bug: the host alone says whether what it has read is as it was, by its own tables.
func (x *tx) unchangedHere() nics.Status {
	region := x.e.region
	for i := range x.Records {
		r := &x.Records[i]
		if !r.Loaded {
			continue
		}
		region.Begin()
		t, version := x.e.tables[r.Table-1], uint64(0)
		place, found, ok := t.FindIn(region, uint64(r.Key))
		if ok && found {
			m, off := t.At(place)
			version, ok = region.Load64(m, off+layout.VersionOffset)
		}
		if !ok || !region.Commit(nil) {
			return nics.Unstable
		}
		if !found || layout.Version(version) != r.Version {
			return nics.Changed
		}
	}
	return nics.Committed
}
