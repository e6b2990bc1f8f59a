package scenario

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs/scenario"
)

// Names of the checks, beside those that every scenario has.
const (
	checkHistory = "strictly serializable"
	checkSums    = "sums"
	checkLocks   = "locks"
	checkPeers   = "peers"
)

// check looks at everything when nothing more can happen.
func (c *cluster) check() {
	c.count()
	for _, s := range c.sites {
		for _, m := range s.managers {
			m.checkTrouble()
		}
	}
	if c.replicated() && !c.checkHeld() {
		return
	}
	if !c.unrecorded {
		c.checkHistory()
	}
	if c.replicated() {
		c.checkReplicated()
		c.checkReplicatedSums()
		return
	}
	for _, s := range c.sites {
		if s.counts() {
			s.checkLocks()
		}
	}
	c.checkSums()
}

// checkTrouble: no engine has met what no correct node does.
func (m *manager) checkTrouble() {
	if e, ok := m.w.Engine.(proto.Troubled); ok && e.Trouble() != nil {
		m.e.Fail(checkPeers, "node %d, worker %d: %v", m.id, m.i, e.Trouble())
	}
}

// count reports what became of the transactions.
func (c *cluster) count() {
	var outcomes [proto.OutcomeEnd]uint64
	var ended [workload.MaxKinds]uint64 // of each type: committed or rolled back
	var attempts, unknown uint64
	for _, s := range c.sites {
		for _, cl := range s.clients {
			for k := range cl.counts.Kinds {
				kind := &cl.counts.Kinds[k]
				attempts += kind.Attempts
				ended[k] += kind.Outcomes[proto.Committed] + kind.Outcomes[proto.RolledBack]
				for o, n := range kind.Outcomes {
					outcomes[o] += n
				}
			}
			if cl.open {
				unknown++
			}
		}
	}
	for o := proto.Committed; o < proto.OutcomeEnd; o++ {
		if o == proto.Unknown {
			outcomes[o] += unknown
		}
		c.e.Count(o.String(), outcomes[o])
	}
	c.e.Count("attempts", attempts)
	for i, name := range c.load.Kinds() {
		c.e.Count(name, ended[i+1])
	}
}

// checkHistory joins the recordings of all lives and checks them.
func (c *cluster) checkHistory() {
	var segments []*history.Segment
	for _, s := range c.sites {
		for _, r := range s.recorders {
			segment, err := r.Close()
			if err != nil {
				c.e.Fail(checkHistory, "recorder of %s: %v", s.machine.Node.Name(), err)
				return
			}
			segments = append(segments, segment)
		}
	}
	run := c.run
	if c.replicated() {
		run = c.replicatedRun
	}
	h, err := history.NewRun(run(), segments...)
	if err == nil && !c.replicated() {
		err = c.findBehind(h)
	}
	if err == nil {
		c.losses.shardOf = c.shardOf
		err = c.losses.noteRevoked(h)
	}
	if err == nil {
		err = judge(c.e, h, c.losses.allow)
	}
	if err != nil {
		c.e.Fail(checkHistory, "%v", err)
	}
}

// judge checks a history and closes it. A history that is not serializable fails the run. void is that of
// check.Options.
func judge(e *scenario.Env, h *history.History, void func(*history.Record) bool) error {
	r, err := check.History(context.Background(), h, check.Options{UserAborts: true, Void: void})
	err = errors.Join(err, h.Close())
	if err != nil || r.Verdict == check.Serializable {
		return err
	}
	text := r.Verdict.String()
	if len(r.Violations) > 0 {
		text = r.Violations[0].Text
		if r.Verdict == check.Undecided {
			text = "undecided, what had to be guessed led to this: " + text
		}
	}
	e.Fail(checkHistory, "%s", text)
	return nil
}

// run is what the history says beside the transactions. A record that is locked by a node that has
// crashed waits for that one's recovery.
func (c *cluster) run() history.Run {
	r := history.Run{Names: node.Names(c.load), Versions: history.Counting}
	for _, s := range c.sites {
		if s.initial != nil {
			r.Initial = append(r.Initial, s.initial)
		}
		if !s.counts() {
			r.Partial = true // its memory cannot be looked at
			continue
		}
		r.Final = append(r.Final, s.member.Holds(s.shard(), func(state uint64) bool {
			owner, _ := c.protocol.Holder(state)
			return int(owner) < len(c.sites) && c.sites[owner].crashed()
		}))
	}
	return r
}

// checkLocks: no record is locked but by a node that has crashed.
func (s *site) checkLocks() {
	s.member.Entries(s.shard(), func(t proto.TableID, h layout.Head, _ []byte) bool {
		if owner, locked := s.protocol.Holder(h.State); locked {
			if int(owner) >= len(s.sites) || !s.sites[owner].crashed() {
				s.e.Fail(checkLocks, "%s, table %d, key %d: locked by node %d, which has not crashed "+
					"(state word %#x)", s.machine.Node.Name(), t, h.Key, owner, h.State)
				return false
			}
		}
		return true
	})
}

// crashed reports whether the machine has lost a life, or was removed, so that its locks stay.
func (s *site) crashed() bool {
	if s.durable {
		return false // it has recovered
	}
	return s.lives > 1 || s.machine.Node.Incarnation() > 0 || !s.counts()
}

// behind is a write that its machine could not make before it crashed: the record is still locked
// by that machine, and recovery would make it.
type behind struct {
	table   proto.TableID
	key     proto.Key
	value   []byte // nil: a deletion
	unknown bool   // the outcome of its transaction
	begun   bool   // the record has its version
	torn    bool   // half of it was made: the transaction was committed
}

// findBehind looks in the history for the writes that come after what locked records hold. There is
// at most one for each: nobody but the lock's owner could make another.
func (c *cluster) findBehind(h *history.History) error {
	type content struct {
		version history.Version
		value   history.Digest
		bytes   []byte
	}
	at := map[place]content{}
	kind, _ := c.protocol.Tables()
	for _, s := range c.sites {
		if !s.counts() {
			continue
		}
		s.member.Entries(s.shard(), func(t proto.TableID, h layout.Head, value []byte) bool {
			if _, locked := c.protocol.Holder(h.State); locked {
				at[place{history.Table(t), history.Key(h.Key)}] = content{history.Version(h.Version),
					history.DigestOf(value), bytes.Clone(value)}
			}
			return true
		})
	}
	if len(at) == 0 {
		return nil
	}
	// whole has the records whose content some transaction has written: what another one noted that
	// crashed before it could write, with the same next version, was not begun.
	whole := map[place]bool{}
	err := h.Each(func(r *history.Record) error {
		if r.Outcome != history.Committed && r.Outcome != history.Unknown {
			return nil
		}
		for i := range r.Ops {
			o := &r.Ops[i]
			now, ok := at[place{o.Table, o.Key}]
			if o.Kind == history.OpWrite && o.Version == now.version && o.Digest == now.value {
				whole[place{o.Table, o.Key}] = true
			}
			// A write-back is two WRITEs, of the version and then of the value.
			if !ok || o.Version < now.version || o.Version == now.version &&
				(o.Kind != history.OpWrite || o.Digest == now.value) ||
				o.Kind != history.OpWrite && o.Kind != history.OpDelete {
				continue
			}
			b := behind{table: proto.TableID(o.Table), key: proto.Key(o.Key), begun: o.Version == now.version,
				unknown: r.Outcome == history.Unknown}
			b.torn = b.begun
			if o.Kind == history.OpWrite {
				b.value = c.values[o.Digest]
				b.torn = b.torn || halfWritten(kind, now.bytes, b.value)
			}
			c.behind = append(c.behind, b)
		}
		return nil
	})
	// A record whose version is older than the write that tore it looks like a torn write of that version.
	later := map[place]bool{}
	for i := range c.behind {
		if b := &c.behind[i]; b.torn && !b.begun {
			later[place{history.Table(b.table), history.Key(b.key)}] = true
		}
	}
	c.behind = slices.DeleteFunc(c.behind, func(b behind) bool {
		p := place{history.Table(b.table), history.Key(b.key)}
		return b.begun && (whole[p] || later[p])
	})
	return err
}

// halfWritten reports whether a line behind a record's first one has a new value already: some protocols
// write these before the version. Such a transaction was past the point at which it can abort.
func halfWritten(k layout.Kind, is, value []byte) bool {
	for line := 1; layout.Fit(k, line) < len(value); line++ {
		at, end := layout.Fit(k, line), min(layout.Fit(k, line+1), len(value))
		if bytes.Equal(is[at:end], value[at:end]) {
			return true
		}
	}
	return false
}

// checkSums: what the tables hold is what they held, and what the committed transactions did. Of a
// transaction of unknown outcome all has happened or nothing; but what was left behind of it, or of
// a committed one, is missing.
func (c *cluster) checkSums() {
	if len(c.load.Sums()) == 0 {
		return
	}
	for _, s := range c.sites {
		if !s.counts() {
			return // its memory cannot be looked at
		}
	}
	var initial, final workload.Quantities
	for _, s := range c.sites {
		first, last, err := c.load.Check(s.id, c.recovered(s))
		if err != nil {
			c.e.Fail(checkSums, "%v", err)
			return
		}
		initial, final = initial.Plus(first), final.Plus(last)
	}
	var did workload.Ledger
	for _, s := range c.sites {
		for _, cl := range s.clients {
			cl.AddTo(&did)
		}
	}
	for i := range c.behind {
		if c.behind[i].torn {
			continue // read as if it were made
		}
		lacks, err := c.lacks(&c.behind[i])
		switch {
		case err != nil:
			c.e.Fail(checkSums, "%v", err)
			return
		case c.behind[i].unknown:
			did.AddUnknown(lacks)
		default:
			did.Committed = did.Committed.Plus(lacks)
		}
	}
	if err := did.Explains(initial, final, c.load.Sums()...); err != nil {
		c.e.Fail(checkSums, "%v", err)
	}
}

// recovered are the records of a site, torn ones as recovery would leave them.
func (c *cluster) recovered(s *site) changed {
	r := changed{Contents: s.member.Contents(s.shard())}
	for i := range c.behind {
		if c.behind[i].torn {
			r.as = append(r.as, &c.behind[i])
		}
	}
	return r
}

// changed are contents with some records as their writes would have left them.
type changed struct {
	workload.Contents
	as []*behind
}

// of is what a record is changed to; nil: it is not.
func (x changed) of(t proto.TableID, k proto.Key) *behind {
	for _, b := range x.as {
		if b.table == t && b.key == k {
			return b
		}
	}
	return nil
}

func (x changed) Read(t proto.TableID, k proto.Key, dst []byte) error {
	b := x.of(t, k)
	switch {
	case b == nil:
		return x.Contents.Read(t, k, dst)
	case b.value == nil:
		return proto.ErrNotFound
	}
	copy(dst, b.value)
	return nil
}

// Each gives records in the order of the memory, then changed ones that were not there.
func (x changed) Each(t proto.TableID, visit func(k proto.Key, row []byte)) {
	x.Contents.Each(t, func(k proto.Key, row []byte) {
		if x.of(t, k) == nil {
			visit(k, row)
		}
	})
	for _, b := range x.as {
		if b.table == t && b.value != nil && x.of(t, b.key) == b {
			visit(b.key, b.value)
		}
	}
}

// lacks is the difference that a write which was left behind makes to the sums.
func (c *cluster) lacks(b *behind) (q workload.Quantities, err error) {
	home := c.sites[c.load.Placement().Locate(b.table, b.key).Primary]
	is := c.recovered(home)
	_, without, err := c.load.Check(home.id, is)
	_, with, err2 := c.load.Check(home.id, changed{Contents: is, as: []*behind{b}})
	for i := range q {
		q[i] = without[i] - with[i]
	}
	return q, errors.Join(err, err2)
}
