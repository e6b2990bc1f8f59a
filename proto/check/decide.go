package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"drtmd/proto/history"
)

// Decisions of the survivors of coordinators. The coordinator's own record, if there is one, says what its
// transaction read and wrote, and what the client was told; the decision takes the place of an outcome
// that is unknown. Without a record of the coordinator's that of the survivor counts which knew the most
// writes, of several the first: who only heard of a decision knows none.
//
// A chain of pieces whose coordinator died is finished by its machine's next life, under the same name: by records that
// begin with a later piece. One that ends decides that it was committed. What they say of pieces takes the place of what
// was recorded before of these, which had not committed.

// decision about one transaction.
type decision struct {
	outcome history.Outcome
	by      history.TxnID // the survivor's record of it
	writes  []history.Op
	clash   string // what contradicts it; "": nothing
	own     bool   // there is a record of the coordinator's
	rests   []rest // of a chain, in the order of time
}

// rest is what a later life has done of a chain.
type rest struct {
	start int64
	ops   []history.Op // from its first piece on
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
		} else if r.Continues() && d.named[r.Name] == nil {
			d.named[r.Name] = &decision{by: r.ID}
			d.order = append(d.order, r.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.history.Each(func(r *history.Record) error {
		switch x := d.named[r.Name]; {
		case x == nil:
		case r.Continues():
			x.rests = append(x.rests, rest{r.StartNs, append([]history.Op(nil), r.Ops...)})
		case !r.Outcome.Decision():
			x.own = true
		}
		return nil
	})
}

// join puts what later lives have done of a chain behind what its coordinator has.
func (x *decision) join(r *history.Record) {
	slices.SortStableFunc(x.rests, func(a, b rest) int { return cmp.Compare(a.start, b.start) })
	for _, rest := range x.rests {
		from := rest.ops[0].Key
		if i := slices.IndexFunc(r.Ops, func(o history.Op) bool {
			return o.Kind == history.OpPiece && o.Key >= from
		}); i >= 0 {
			r.Ops = r.Ops[:i]
		}
		r.Ops = append(r.Ops, rest.ops...)
	}
}

// add takes what one survivor says.
func (d *decisions) add(r *history.Record) {
	x := d.named[r.Name]
	if x == nil {
		x = &decision{}
		d.named[r.Name] = x
		d.order = append(d.order, r.Name)
	}
	if x.outcome == 0 {
		x.outcome, x.by, x.writes = r.Outcome, r.ID, append([]history.Op(nil), r.Ops...)
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
	if o := r.Outcome; (o == history.Committed || o == history.UserAborted) && c.options.Void != nil && c.options.Void(r) {
		if r.Outcome = history.Unknown; o == history.UserAborted { // its end stays: if it took place, then before
			r.Outcome = history.Aborted // it has read what is lost
		}
	}
	x := c.decisions.named[r.Name]
	switch {
	case r.Name == 0 || x == nil:
		return true
	case r.Continues():
		return false // of the coordinator's, or of one of which nothing else is known
	case r.Outcome.Decision():
		if r.ID != x.by || r.Outcome == history.Revoked {
			return false
		}
		return !x.own
	}
	switch {
	case r.Outcome == history.Unknown:
		x.join(r)
		switch x.outcome {
		case history.Recovered:
			r.Outcome = history.Recovered
		case history.Revoked:
			r.Outcome = history.Aborted
			c.result.Revoked++
		}
	case len(x.rests) > 0 && x.clash == "":
		x.clash = fmt.Sprintf("the coordinator of %v told that it was %v, and %v did pieces of it", r.ID, r.Outcome, x.by)
	case r.Outcome == history.Committed:
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
