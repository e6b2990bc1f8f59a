package scenario

import (
	"context"
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store/layout"
)

// Names of the checks, beside those that every scenario has.
const (
	checkHistory = "strictly serializable"
	checkSums    = "sums"
	checkLocks   = "locks"
)

// check looks at everything when nothing more can happen.
func (c *cluster) check() {
	c.count()
	c.checkHistory()
	for _, s := range c.sites {
		if s.up() {
			s.checkLocks()
		}
	}
	c.checkSums()
}

// count reports what became of the transactions.
func (c *cluster) count() {
	var outcomes [proto.OutcomeEnd]uint64
	var attempts, unknown uint64
	for _, s := range c.sites {
		for _, cl := range s.clients {
			for k := range cl.counts.Kinds {
				kind := &cl.counts.Kinds[k]
				attempts += kind.Attempts
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
	h, err := history.New(node.Names(c.load), segments...)
	if err == nil {
		var r *check.Result
		r, err = check.History(context.Background(), h, check.Options{UserAborts: true})
		err = errors.Join(err, h.Close())
		if err == nil && r.Verdict != check.Serializable {
			text := r.Verdict.String()
			if len(r.Violations) > 0 {
				text = r.Violations[0].Text
			}
			c.e.Fail(checkHistory, "%s", text)
			return
		}
	}
	if err != nil {
		c.e.Fail(checkHistory, "%v", err)
	}
}

// checkLocks: no record is locked but by a node that has crashed.
func (s *site) checkLocks() {
	s.member.Entries(func(t proto.TableID, entry []byte) bool {
		state := binary.LittleEndian.Uint64(entry[layout.StateOffset:])
		if locked, owner := lockedBy(state); locked {
			if int(owner) >= len(s.sites) || !s.sites[owner].crashed() {
				s.e.Fail(checkLocks, "%s, table %d, key %d: locked by node %d, which has not crashed "+
					"(state word %#x)", s.machine.Node.Name(), t,
					binary.LittleEndian.Uint64(entry[layout.KeyOffset:]), owner, state)
				return false
			}
		}
		return true
	})
}

// lockedBy reads a state word: every protocol here has the lock in bit 0 and the owner from bit 1
// on, and there are fewer nodes than 256.
func lockedBy(state uint64) (locked bool, owner proto.NodeID) {
	return state&1 == 1, proto.NodeID(state >> 1 & 0xff)
}

// crashed reports whether the machine has lost a life.
func (s *site) crashed() bool { return s.lives > 1 || s.machine.Node.Incarnation() > 0 || !s.up() }

// checkSums: what the tables hold is what they held, and what the committed transactions did. Of a
// transaction of unknown outcome all has happened or nothing; but those of its records that are
// still locked by its node may not have been written yet, which recovery would do.
func (c *cluster) checkSums() {
	if len(c.load.Sums()) == 0 {
		return
	}
	var initial, final workload.Quantities
	for _, s := range c.sites {
		if !s.up() {
			return // its memory cannot be looked at
		}
	}
	for _, s := range c.sites {
		first, last, err := c.load.Count(s.id, s.member.Read)
		if err != nil {
			c.e.Fail(checkSums, "%v", err)
			return
		}
		initial, final = initial.Plus(first), final.Plus(last)
	}
	var did workload.Ledger
	for _, s := range c.sites {
		for _, cl := range s.clients {
			var l workload.Ledger
			cl.AddTo(&l)
			did.Committed = did.Committed.Plus(l.Committed)
			for _, q := range l.Unknown {
				did.AddUnknown(q)
			}
			for _, writes := range cl.undecided() {
				for _, w := range writes {
					if q, ok := c.missing(s, w); ok {
						did.AddUnknown(q)
					}
				}
			}
		}
	}
	if err := did.Explains(initial, final, c.load.Sums()...); err != nil {
		c.e.Fail(checkSums, "%v", err)
	}
}

// missing is what a write would still change, if its record is locked by the writer's node: it
// lacks in the sums if the transaction was committed.
func (c *cluster) missing(writer *site, w write) (workload.Quantities, bool) {
	home := c.sites[c.load.Placement().Locate(w.table, w.key).Primary]
	state, ok := home.member.State(w.table, w.key)
	if !ok {
		return workload.Quantities{}, false
	}
	if locked, owner := lockedBy(state); !locked || owner != writer.id {
		return workload.Quantities{}, false
	}
	_, with, err := c.load.Count(home.id, func(t proto.TableID, k proto.Key, dst []byte) error {
		if t == w.table && k == w.key {
			copy(dst, w.value)
			return nil
		}
		return home.member.Read(t, k, dst)
	})
	_, without, err2 := c.load.Count(home.id, home.member.Read)
	if err != nil || err2 != nil {
		return workload.Quantities{}, false
	}
	var q workload.Quantities
	for i := range q {
		q[i] = without[i] - with[i]
	}
	return q, q != workload.Quantities{}
}
