package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"drtmd/proto/history"
)

// explain finds out why each transaction of a cycle precedes the next, and names the whole.
func (c *checker) explain(cycle []uint32) (Violation, error) {
	steps := make([][]edge, len(cycle))
	in := make([]bool, len(c.txns))
	for _, t := range cycle {
		in[t] = true
	}
	c.pairs = in
	defer func() { c.pairs = nil }()
	if err := c.eachEdge(func(e edge) {
		if !in[e.from] || !in[e.to] {
			return
		}
		i := slices.Index(cycle, e.from)
		if cycle[(i+1)%len(cycle)] == e.to {
			steps[i] = append(steps[i], e)
		}
	}); err != nil {
		return Violation{}, err
	}
	for i, from := range cycle {
		if to := cycle[(i+1)%len(cycle)]; c.precedes(from, to) {
			steps[i] = append(steps[i], edge{from: from, to: to, relation: RealTime})
		}
	}
	a, chosen := c.classify(steps)
	v := Violation{Anomaly: a}
	for _, t := range cycle {
		v.Txns = append(v.Txns, c.outside(t))
	}
	for i, e := range chosen {
		s := c.step(e, i, (i+1)%len(cycle))
		v.Steps = append(v.Steps, s)
	}
	v.Text = c.text(&v, cycle)
	return v, nil
}

// classify names a cycle and picks an edge for each of its steps.
func (c *checker) classify(steps [][]edge) (Anomaly, []edge) {
	if a, chosen := c.onOneKey(steps); a != 0 {
		return a, chosen
	}
	chosen := make([]edge, len(steps))
	rw, wr, timed, missing := 0, 0, 0, false
	for i, edges := range steps {
		chosen[i] = slices.MinFunc(edges, func(a, b edge) int {
			return int(a.relation) - int(b.relation)
		})
		switch chosen[i].relation {
		case ReadWrite:
			rw++
			missing = missing || c.ops[chosen[i].a].class() != classRead
		case WriteRead:
			wr++
		case RealTime:
			timed++
		}
	}
	two := len(steps) == 2
	switch {
	case timed > 0 && two && rw == 1:
		return StaleRead, chosen
	case timed > 0 && two && wr == 1:
		return FutureRead, chosen
	case timed > 0:
		return RealTimeOrder, chosen
	case missing:
		return Phantom, chosen
	case rw == 0 && wr == 0:
		return WriteCycle, chosen
	case rw == 0:
		return InformationCycle, chosen
	case rw == 1 && two && wr == 1:
		return FracturedRead, chosen
	case rw == 1:
		return ReadSkew, chosen
	case two:
		return WriteSkew, chosen
	}
	return SerializationCycle, chosen
}

// onOneKey recognizes cycles whose edges all are of one key: somebody read a version and then
// replaced, or read again, a later one.
func (c *checker) onOneKey(steps [][]edge) (Anomaly, []edge) {
	for _, first := range steps[0] {
		if first.relation == RealTime {
			continue
		}
		chosen := make([]edge, 0, len(steps))
		reader := -1 // the step that begins with the only rw edge
		for i, edges := range steps {
			at := slices.IndexFunc(edges, func(e edge) bool {
				return e.relation != RealTime && e.key == first.key &&
					(e.relation != ReadWrite || reader < 0)
			})
			if at < 0 {
				break
			}
			if chosen = append(chosen, edges[at]); edges[at].relation == ReadWrite {
				reader = i
			}
		}
		if len(chosen) < len(steps) || reader < 0 {
			continue
		}
		if chosen[(reader+len(steps)-1)%len(steps)].relation == WriteWrite {
			return LostUpdate, chosen
		}
		return NonRepeatableRead, chosen
	}
	return 0, nil
}

// outside is a transaction as the result shows it.
func (c *checker) outside(t uint32) Txn {
	x := &c.txns[t]
	o := Txn{ID: history.TxnID{Worker: x.worker, Seq: x.seq}.String(),
		Node: uint16(c.nodes[x.node].ID), Type: c.names.KindName(x.kind),
		Outcome: x.outcome.String(), StartNs: x.start}
	if x.end != history.Never {
		o.EndNs = &x.end
	}
	return o
}

// keyName is a key in words.
func (c *checker) keyName(key uint32) string {
	e := c.keys.entries[key]
	return fmt.Sprintf("%s key %d", c.names.TableName(e.table), e.key)
}

// found says what a read found.
func (c *checker) found(r *op) string {
	switch {
	case r.class() == classMissing:
		return "scanned without finding " + c.keyName(r.key)
	case r.class() == classAbsent && r.version == 0:
		return "did not find " + c.keyName(r.key)
	case r.class() == classAbsent:
		return fmt.Sprintf("found %s deleted with version %v", c.keyName(r.key),
			history.Version(r.version))
	}
	return fmt.Sprintf("read version %v of %s", history.Version(r.version), c.keyName(r.key))
}

// did says what a write did, after it was said to what key.
func did(w *op) string {
	switch w.class() {
	case classDelete:
		return fmt.Sprintf("deleted it with version %v", history.Version(w.version))
	case classAdd:
		return fmt.Sprintf("made version %v by an addition", history.Version(w.version))
	}
	return fmt.Sprintf("wrote version %v", history.Version(w.version))
}

// didTo says what a write did to its key.
func (c *checker) didTo(w *op) string {
	switch w.class() {
	case classDelete:
		return fmt.Sprintf("deleted %s with version %v", c.keyName(w.key), history.Version(w.version))
	case classAdd:
		return fmt.Sprintf("made version %v of %s by an addition", history.Version(w.version), c.keyName(w.key))
	}
	return fmt.Sprintf("wrote version %v of %s", history.Version(w.version), c.keyName(w.key))
}

// by names whose write a read saw.
func by(w *op, who string) string {
	if w.class() == classDelete {
		return "deleted by " + who
	}
	return "written by " + who
}

// step puts an edge into words.
func (c *checker) step(e edge, from, to int) Step {
	s := Step{From: from, To: to, Relation: e.relation}
	f, t := fmt.Sprintf("T%d", from+1), fmt.Sprintf("T%d", to+1)
	if e.relation == RealTime {
		s.Text = fmt.Sprintf("%s had ended at %s when %s started at %s", f,
			clockTime(c.txns[e.from].end), t, clockTime(c.txns[e.to].start))
		if c.precedesBySource(e.from, e.to) {
			if r := c.resolution[c.sources.number[c.txns[e.from].node]]; r > 0 {
				s.Text += fmt.Sprintf(", further apart than their clock's resolution of %v",
					time.Duration(r))
			}
			return s
		}
		errs := c.nodes[c.txns[e.from].node].ErrorNs + c.nodes[c.txns[e.to].node].ErrorNs
		if errs > 0 {
			s.Text += fmt.Sprintf(", further apart than the clocks' errors of %v",
				time.Duration(errs))
		}
		return s
	}
	a, b := &c.ops[e.a], &c.ops[e.b]
	k := c.keys.entries[e.key]
	s.On = &Conflict{Table: c.names.TableName(k.table), Key: uint64(k.key)}
	switch e.relation {
	case WriteWrite:
		s.On.Wrote = history.Version(b.version).String()
		s.Text = fmt.Sprintf("%s %s, then %s %s", f, c.didTo(a), t, did(b))
	case WriteRead:
		s.On.Read, s.On.Wrote = readVersion(b), history.Version(a.version).String()
		s.Text = fmt.Sprintf("%s %s, %s", t, c.found(b), by(a, f))
	case ReadWrite:
		s.On.Read, s.On.Wrote = readVersion(a), history.Version(b.version).String()
		s.Text = fmt.Sprintf("%s %s, then %s %s", f, c.found(a), t, did(b))
	}
	return s
}

// readVersion is the version that a read found, empty for none.
func readVersion(r *op) string {
	if r.version == 0 {
		return ""
	}
	return history.Version(r.version).String()
}

// clockTime is a reading of a node's clock.
func clockTime(ns int64) string {
	if ns == history.Never {
		return "no known time"
	}
	return time.Duration(ns).String()
}

// text puts a violation into words.
func (c *checker) text(v *Violation, txns []uint32) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: each transaction must come before the next, and the last before the first",
		v.Anomaly)
	c.list(&b, txns)
	for _, s := range v.Steps {
		fmt.Fprintf(&b, "\n  T%d before T%d: %s", s.From+1, s.To+1, s.Text)
	}
	return b.String()
}

// list introduces transactions as T1, T2 and so on.
func (c *checker) list(b *strings.Builder, txns []uint32) {
	for i, t := range txns {
		x := c.outside(t)
		fmt.Fprintf(b, "\n  T%d: %s %s on node %d, %s, from %s to %s", i+1, x.Type, x.ID, x.Node,
			x.Outcome, clockTime(x.StartNs), clockTime(c.txns[t].end))
	}
}
