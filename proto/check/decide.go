package check

import (
	"fmt"
	"strings"

	"drtmd/proto/history"
)

// Decisions of the survivors of coordinators. The coordinator's own record, if there is one, says what its
// transaction read and wrote, and what the client was told; the decision takes the place of an outcome
// that is unknown. Without a record of the coordinator's that of the survivor counts which knew the most
// writes, of several the first: who only heard of a decision knows none.

// decision about one transaction.
type decision struct {
	outcome history.Outcome
	by      history.TxnID // the survivor's record of it
	writes  []history.Op
	clash   string // what contradicts it; "": nothing
	own     bool   // there is a record of the coordinator's
}

// decisions by the name of the transaction, with the names in the order in which they were met.
type decisions struct {
	named map[uint64]*decision
	order []uint64
}

// loadDecisions reads what survivors decided, and which transactions have a record of their own.
func (c *checker) loadDecisions() error {
	d := &c.decisions
	if c.history.Decisions() == 0 {
		return nil
	}
	d.named = map[uint64]*decision{}
	err := c.history.Each(func(r *history.Record) error {
		if r.Outcome.Decision() {
			d.add(r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.history.Each(func(r *history.Record) error {
		if x := d.named[r.Name]; x != nil && !r.Outcome.Decision() {
			x.own = true
		}
		return nil
	})
}

// add takes what one survivor says.
func (d *decisions) add(r *history.Record) {
	x := d.named[r.Name]
	if x == nil {
		d.named[r.Name] = &decision{outcome: r.Outcome, by: r.ID, writes: append([]history.Op(nil), r.Ops...)}
		d.order = append(d.order, r.Name)
		return
	}
	if x.outcome == r.Outcome && len(r.Ops) > len(x.writes) {
		x.by, x.writes = r.ID, append(x.writes[:0], r.Ops...)
	}
	if x.outcome != r.Outcome && x.clash == "" {
		x.clash = fmt.Sprintf("%v says it was %v, and %v that it was %v", x.by, x.outcome, r.ID, r.Outcome)
	}
}

// decided applies the decisions to a record, and reports whether it counts as a transaction.
func (c *checker) decided(r *history.Record) bool {
	if r.Outcome == history.Committed && c.options.Void != nil && c.options.Void(r) {
		r.Outcome = history.Unknown // and its end stays: if it took place, then before
	}
	x := c.decisions.named[r.Name]
	switch {
	case r.Name == 0 || x == nil:
		return true
	case r.Outcome.Decision():
		if r.ID != x.by || r.Outcome == history.Revoked {
			return false
		}
		return !x.own
	}
	switch r.Outcome {
	case history.Unknown:
		if x.outcome == history.Recovered {
			r.Outcome = history.Recovered
		} else {
			r.Outcome = history.Aborted
			c.result.Revoked++
		}
	case history.Committed:
		x.contradict(history.Recovered, r)
	default:
		x.contradict(history.Revoked, r)
	}
	return true
}

// contradict notes that the coordinator told what the survivors did not decide.
func (x *decision) contradict(want history.Outcome, r *history.Record) {
	if x.outcome != want && x.clash == "" {
		x.clash = fmt.Sprintf("the coordinator of %v told that it was %v, and the survivors' %v that it was %v",
			r.ID, r.Outcome, x.by, x.outcome)
	}
}

// promises reports the decisions that something contradicts.
func (c *checker) promises() {
	for _, name := range c.decisions.order {
		x := c.decisions.named[name]
		if x.clash == "" || c.enough(BrokenPromise) {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%v: transaction %#x: %s", BrokenPromise, name, x.clash)
		for i := range x.writes {
			o := &x.writes[i]
			fmt.Fprintf(&b, "\n  %v of %s key %d, version %v", o.Kind, c.names.TableName(o.Table), o.Key, o.Version)
		}
		c.add(Violation{Anomaly: BrokenPromise, Text: b.String()})
	}
}
