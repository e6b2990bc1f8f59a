package check

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"drtmd/proto/history"
)

// model is a small history, for a search over all orders.
type model struct {
	records        []history.Record
	clocks         []history.Clock // by node
	counting       bool
	initial, final map[history.Key]value // nil: not recorded
}

// value is what a key is, as far as an order has shown.
type value struct {
	known   bool
	absent  bool
	version history.Version // 0: absent, and no tombstone was seen
	digest  history.Digest
	written bool
	fixed   bool // recorded before the first transaction
}

// certain reports whether nothing about the value is left to find out.
func (v value) certain() bool { return v.written || v.fixed || v.known && v.version != 0 }

// serializable searches all orders of all choices of unknown transactions.
func (m *model) serializable() bool {
	var fixed, unknown []int
	for i := range m.records {
		switch m.records[i].Outcome {
		case history.Committed:
			fixed = append(fixed, i)
		case history.Unknown:
			unknown = append(unknown, i)
		}
	}
	for set := range 1 << len(unknown) {
		in := slices.Clone(fixed)
		for b, t := range unknown {
			if set>>b&1 == 1 {
				in = append(in, t)
			}
		}
		begin := map[history.Key]value{}
		for k := range history.Key(modelKeys) {
			if v, ok := m.initial[k]; ok {
				begin[k] = value{known: true, fixed: true, version: v.version, digest: v.digest}
			} else if m.initial != nil {
				begin[k] = value{known: true, fixed: true, absent: true}
			}
		}
		if m.search(in, begin) {
			return true
		}
	}
	return false
}

// search puts each transaction that may be the next one first, and the rest behind it.
func (m *model) search(left []int, state map[history.Key]value) bool {
	if len(left) == 0 {
		return m.ends(state)
	}
	for i, t := range left {
		if slices.ContainsFunc(left, func(u int) bool {
			return m.before(&m.records[u], &m.records[t])
		}) {
			continue
		}
		if next, ok := m.apply(t, state); ok &&
			m.search(slices.Delete(slices.Clone(left), i, i+1), next) {
			return true
		}
	}
	return false
}

// before reports whether a had surely ended when b started.
func (m *model) before(a, b *history.Record) bool {
	x, y := m.clocks[a.Node], m.clocks[b.Node]
	switch {
	case a.EndNs == history.Never || x.Name != y.Name:
		return false
	case a.EndNs+x.ErrorNs < b.StartNs-y.ErrorNs:
		return true
	case a.Node == b.Node, x.Source != "" && x.Source == y.Source:
		return a.EndNs+max(x.ResolutionNs, y.ResolutionNs) < b.StartNs
	}
	return false
}

// drawClocks draws the clocks of some nodes: of one scale or two, some with a source in common, whose
// resolution they share.
func drawClocks(r *rand.Rand) (clocks []history.Clock) {
	resolution := r.Int64N(8)
	for range 1 + r.IntN(3) {
		c := history.Clock{Name: "a", ErrorNs: int64(r.IntN(2) * r.IntN(20)),
			ResolutionNs: int64(r.IntN(2)) * resolution}
		if r.IntN(8) == 0 {
			c.Name = "b"
		}
		if r.IntN(3) == 0 {
			c.Source, c.ResolutionNs = "s", resolution
		}
		clocks = append(clocks, c)
	}
	return clocks
}

// apply executes a transaction on a state.
func (m *model) apply(t int, state map[history.Key]value) (map[history.Key]value, bool) {
	next := map[history.Key]value{}
	for k, v := range state {
		next[k] = v
	}
	ops := m.records[t].Ops
	for _, o := range ops {
		switch o.Kind {
		case history.OpRead, history.OpReadAbsent:
			if !m.read(next, o) {
				return nil, false
			}
		case history.OpScan:
			for k := o.Key; k <= o.High; k++ {
				read := slices.ContainsFunc(ops, func(p history.Op) bool {
					return p.Key == k && (p.Kind == history.OpRead || p.Kind == history.OpReadAbsent)
				})
				if !read && !m.read(next, history.Op{Kind: history.OpReadAbsent, Key: k}) {
					return nil, false
				}
			}
		}
	}
	for i, o := range ops {
		if v, ok := m.initial[o.Key]; ok && o.Version <= v.version &&
			(o.Kind == history.OpWrite || o.Kind == history.OpDelete) {
			return nil, false
		}
		if o.Kind != history.OpWrite && o.Kind != history.OpDelete ||
			slices.ContainsFunc(ops[i+1:], func(p history.Op) bool {
				return p.Key == o.Key && (p.Kind == history.OpWrite || p.Kind == history.OpDelete)
			}) {
			continue
		}
		if v := next[o.Key]; (v.written || v.fixed) && v.version >= o.Version {
			return nil, false
		}
		if m.counting && !m.follows(next[o.Key], ops[:i+1], o.Key) {
			return nil, false
		}
		next[o.Key] = value{known: true, written: true, absent: o.Kind == history.OpDelete,
			version: o.Version, digest: o.Digest}
	}
	return next, true
}

// follows reports whether the writes of a key by one transaction are each the next after the one
// before, by the rules of history.Counting.
func (m *model) follows(v value, ops []history.Op, k history.Key) bool {
	for _, o := range ops {
		if o.Key != k || o.Kind != history.OpWrite && o.Kind != history.OpDelete {
			continue
		}
		deletes := o.Kind == history.OpDelete
		before, next := v.version, o.Version
		switch {
		case !v.certain():
		case deletes:
			if v.absent || before>>32+1 != next>>32 {
				return false
			}
		case uint32(next) == 0:
			if !v.absent {
				return false // numbers that wrap are not drawn
			}
		case v.absent || before+1 != next:
			return false
		}
		v = value{known: true, written: true, absent: deletes, version: next}
	}
	return true
}

// ends reports whether a state is what the tables held in the end.
func (m *model) ends(state map[history.Key]value) bool {
	if m.final == nil {
		return true
	}
	for k := range history.Key(modelKeys) {
		v := state[k]
		f, ok := m.final[k]
		switch {
		case !v.certain() && ok && m.writtenAtOrBelow(k, f.version):
			return false
		case !v.certain():
		case ok && (f.absent != v.absent || f.version != v.version || f.digest != v.digest):
			return false
		case !ok && !v.absent:
			return false
		}
	}
	return true
}

// read compares what was read with the state, or learns the initial state from it.
func (m *model) read(state map[history.Key]value, o history.Op) bool {
	v := state[o.Key]
	absent := o.Kind == history.OpReadAbsent
	switch {
	case v.known && v.absent != absent:
		return false
	case absent && o.Version == 0 && v.fixed:
		return true
	case absent && o.Version == 0:
		if !v.known {
			state[o.Key] = value{known: true, absent: true}
		}
		return true
	case v.certain():
		return v.version == o.Version && v.digest == o.Digest
	case m.writtenAtOrBelow(o.Key, o.Version):
		return false
	}
	state[o.Key] = value{known: true, absent: absent, version: o.Version, digest: o.Digest}
	return true
}

// writtenAtOrBelow: a version from which on nothing is initial, whatever came of its writer.
func (m *model) writtenAtOrBelow(k history.Key, v history.Version) bool {
	for _, r := range m.records {
		for _, o := range r.Ops {
			if o.Key == k && (o.Kind == history.OpWrite || o.Kind == history.OpDelete) &&
				o.Version <= v {
				return true
			}
		}
	}
	return false
}

// history records the model.
func (m *model) history(t testing.TB) *history.History {
	t.Helper()
	var segments []*history.Segment
	for i := range m.records {
		r := history.NewRecorder(history.Options{Worker: history.WorkerID(i),
			Node: m.records[i].Node, Clock: m.clocks[m.records[i].Node]})
		x := r.Begin(m.records[i].StartNs)
		for _, o := range m.records[i].Ops {
			switch o.Kind {
			case history.OpRead:
				x.Read(o.Table, o.Key, o.Version, o.Digest)
			case history.OpReadAbsent:
				x.ReadAbsent(o.Table, o.Key, o.Version)
			case history.OpWrite:
				x.Write(o.Table, o.Key, o.Version, o.Digest)
			case history.OpDelete:
				x.Delete(o.Table, o.Key, o.Version)
			case history.OpScan:
				x.Scan(o.Table, o.Key, o.High)
			}
		}
		r.End(x, m.records[i].EndNs, m.records[i].Outcome)
		s, err := r.Close()
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, s)
	}
	h, err := history.NewRun(m.run(), segments...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// run is what the model says beside its transactions.
func (m *model) run() (r history.Run) {
	if m.counting {
		r.Versions = history.Counting
	}
	snapshot := func(moment history.Moment, at map[history.Key]value) []*history.Snapshot {
		if at == nil {
			return nil
		}
		s := history.NewSnapshot(0, moment)
		for k := range history.Key(modelKeys) {
			v, ok := at[k]
			switch {
			case !ok:
			case v.absent:
				s.Put(history.Content{Key: k, State: history.Deleted, Version: v.version})
			default:
				s.Put(history.Content{Key: k, State: history.Present, Version: v.version,
					Digest: v.digest})
			}
		}
		return []*history.Snapshot{s}
	}
	r.Initial, r.Final = snapshot(history.Initial, m.initial), snapshot(history.Final, m.final)
	return r
}

// modelKeys is more than the keys of a model.
const modelKeys = 4

func (m *model) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clocks %+v, counting %v, initial %+v, final %+v", m.clocks, m.counting,
		m.initial, m.final)
	for i, r := range m.records {
		fmt.Fprintf(&b, "\n%d: %d-%d@%d %v", i, r.StartNs, r.EndNs, r.Node, r.Outcome)
		for _, o := range r.Ops {
			fmt.Fprintf(&b, ", %v %d", o.Kind, o.Key)
			if o.Kind == history.OpScan {
				fmt.Fprintf(&b, "..%d", o.High)
			} else {
				fmt.Fprintf(&b, " v%d:%d", o.Version, o.Digest)
			}
		}
	}
	return b.String()
}

// draw makes a history by executing transactions one after the other, with times around their
// turns, and then spoils it or not. What the tables hold is recorded or not if rich.
func draw(r *rand.Rand, rich bool) *model {
	m := &model{clocks: drawClocks(r), counting: rich && r.IntN(3) > 0}
	keys := 1 + r.IntN(3)
	state := make([]value, keys)
	for k := range state {
		state[k] = value{absent: r.IntN(2) == 0}
		if !state[k].absent {
			state[k].version = 1
			state[k].digest = 1
			if m.counting {
				state[k].version = history.NewVersion(1, uint32(r.IntN(2)))
			}
		}
	}
	if rich && r.IntN(3) > 0 {
		m.initial = contentOf(state)
	}
	for i := range 2 + r.IntN(5) {
		t := m.turn(r, i, state)
		t.Node = history.NodeID(r.IntN(len(m.clocks)))
		m.records = append(m.records, t)
	}
	if rich && r.IntN(3) > 0 {
		m.final = contentOf(state)
		for k, v := range m.final {
			if v.absent && r.IntN(2) == 0 {
				delete(m.final, k) // its entry was given back
			}
		}
	}
	for range r.IntN(4) * r.IntN(2) {
		m.spoil(r, keys)
	}
	for i := range m.records { // digests of deletes are not recorded
		for j := range m.records[i].Ops {
			if o := &m.records[i].Ops[j]; o.Kind == history.OpDelete ||
				o.Kind == history.OpReadAbsent || o.Kind == history.OpScan {
				o.Digest = 0
			}
		}
	}
	return m
}

// contentOf is a state as tables hold it.
func contentOf(state []value) map[history.Key]value {
	c := map[history.Key]value{}
	for k, v := range state {
		if v.version != 0 {
			c[history.Key(k)] = v
			if v.absent {
				v.digest = 0
				c[history.Key(k)] = v
			}
		}
	}
	return c
}

// next is a version after a value's.
func (m *model) next(r *rand.Rand, v value, deletes bool) history.Version {
	switch {
	case !m.counting:
		return v.version + 1 + history.Version(r.IntN(2))
	case deletes:
		return history.NewVersion(uint32(v.version>>32)+1, 0)
	case v.absent:
		return history.NewVersion(uint32(v.version>>32)+1+2*uint32(r.IntN(2)), 0)
	}
	return v.version + 1
}

// turn executes one transaction.
func (m *model) turn(r *rand.Rand, i int, state []value) history.Record {
	now := int64(10 * i)
	t := history.Record{Outcome: history.Committed, StartNs: now - r.Int64N(30),
		EndNs: now + r.Int64N(30)}
	if r.IntN(4) == 0 {
		t.Outcome = history.Outcome(2 + r.IntN(3))
	}
	takesEffect := t.Outcome == history.Committed ||
		t.Outcome == history.Unknown && r.IntN(2) == 0
	if t.Outcome == history.Unknown {
		t.EndNs = history.Never
	}
	if r.IntN(4) == 0 {
		t.Ops = append(t.Ops, history.Op{Kind: history.OpScan, High: history.Key(len(state) - 1)})
		for k, v := range state {
			if !v.absent {
				t.Ops = append(t.Ops, readOf(k, v))
			}
		}
	}
	for range r.IntN(4) {
		k := r.IntN(len(state))
		o := readOf(k, state[k])
		if o.Kind == history.OpReadAbsent && r.IntN(2) == 0 {
			o.Version = 0
		}
		t.Ops = append(t.Ops, o)
	}
	for k := range state {
		now := state[k]
		for r.IntN(5) < 2 {
			v := value{digest: history.Digest(r.IntN(4)), absent: r.IntN(3) == 0}
			if m.counting && now.absent {
				v.absent = false
			}
			v.version = m.next(r, now, v.absent)
			o := history.Op{Kind: history.OpWrite, Key: history.Key(k), Version: v.version,
				Digest: v.digest}
			if v.absent {
				o.Kind = history.OpDelete
			}
			t.Ops = append(t.Ops, o)
			if now = v; takesEffect {
				state[k] = v
			}
		}
	}
	return t
}

func readOf(k int, v value) history.Op {
	o := history.Op{Kind: history.OpRead, Key: history.Key(k), Version: v.version,
		Digest: v.digest}
	if v.absent {
		o.Kind = history.OpReadAbsent
	}
	return o
}

// spoil changes one thing; the history may be serializable afterwards, or not.
func (m *model) spoil(r *rand.Rand, keys int) {
	t := &m.records[r.IntN(len(m.records))]
	if m.spoilContent(r) {
		return
	}
	if r.IntN(3) == 0 || len(t.Ops) == 0 {
		shift := r.Int64N(60) - 30
		t.StartNs += shift
		if t.Outcome != history.Unknown {
			t.EndNs += shift
		}
		return
	}
	o := &t.Ops[r.IntN(len(t.Ops))]
	from := m.records[r.IntN(len(m.records))].Ops
	switch {
	case o.Kind == history.OpScan:
		o.High = history.Key(r.IntN(keys))
	case r.IntN(4) == 0 && o.Kind == history.OpRead:
		*o = history.Op{Kind: history.OpReadAbsent, Key: o.Key}
	case r.IntN(4) == 0:
		o.Version = m.anyVersion(r)
	case len(from) > 0: // what another operation has
		p := from[r.IntN(len(from))]
		if p.Kind != history.OpScan && p.Version != 0 {
			o.Key, o.Version, o.Digest = p.Key, p.Version, p.Digest
		}
	}
}

func (m *model) anyVersion(r *rand.Rand) history.Version {
	if m.counting {
		return history.NewVersion(1+uint32(r.IntN(3)), uint32(r.IntN(3)))
	}
	return 1 + history.Version(r.IntN(6))
}

// spoilContent changes what the tables held, or takes a write out, or neither.
func (m *model) spoilContent(r *rand.Rand) bool {
	if m.initial == nil && m.final == nil && !m.counting {
		return false
	}
	at := m.initial
	if at == nil || m.final != nil && r.IntN(2) == 0 {
		at = m.final
	}
	k := history.Key(r.IntN(modelKeys - 1))
	switch v, ok := at[k]; r.IntN(5) {
	case 0:
		if ok && !v.absent {
			v.digest = history.Digest(r.IntN(4))
			at[k] = v
		}
	case 1:
		if at != nil {
			at[k] = value{version: m.anyVersion(r), digest: history.Digest(r.IntN(4))}
		}
	case 2:
		delete(at, k)
	case 3:
		t := &m.records[r.IntN(len(m.records))]
		if len(t.Ops) > 0 {
			i := r.IntN(len(t.Ops))
			t.Ops = slices.Delete(t.Ops, i, i+1)
		}
	default:
		return false
	}
	return true
}

// seeds is how many histories are drawn; DRTMD_CHECK_SEEDS asks for more.
func seeds(n uint64) uint64 {
	if more, err := strconv.ParseUint(os.Getenv("DRTMD_CHECK_SEEDS"), 10, 64); err == nil {
		return max(n, more)
	}
	return n
}

// sound reports whether each transaction's writes of a key have growing versions: no recorder gives
// others, and what to make of them is not defined.
func (m *model) sound() bool {
	for _, r := range m.records {
		newest := map[history.Key]history.Version{}
		for _, o := range r.Ops {
			if o.Kind != history.OpWrite && o.Kind != history.OpDelete {
				continue
			}
			deletes := o.Version>>32&1 == 0
			if o.Version < newest[o.Key] || m.counting &&
				(o.Version == newest[o.Key] || deletes != (o.Kind == history.OpDelete)) {
				return false
			}
			newest[o.Key] = o.Version
		}
	}
	return true
}

// The checker says of small histories what a search over all orders says.
func TestVerdictIsThatOfASearchOverAllOrders(t *testing.T) {
	for _, c := range []struct {
		name      string
		rich      bool
		stream    uint64
		anomalies int
	}{{"plain", false, 0, 12}, {"with what the tables held", true, 5, 14}} {
		t.Run(c.name, func(t *testing.T) {
			var verdicts [Undecided + 1]int
			anomalies := map[Anomaly]int{}
			for seed := range seeds(10_000) {
				m := draw(rand.New(rand.NewPCG(seed, c.stream)), c.rich)
				if c.rich && !m.sound() {
					continue
				}
				got := check(t, m.history(t), Options{})
				want := Violated
				if m.serializable() {
					want = Serializable
				}
				verdicts[got.Verdict]++
				if got.Verdict == Undecided {
					continue
				}
				if got.Verdict != want {
					t.Fatalf("seed %d: %v, want %v: %+v\n%v", seed, got.Verdict, want, got.Violations, m)
				}
				for _, v := range got.Violations {
					anomalies[v.Anomaly]++
				}
			}
			t.Log(verdicts, anomalies)
			if verdicts[Serializable] < 4_000 || verdicts[Violated] < 1_000 ||
				len(anomalies) < c.anomalies {
				t.Errorf("the histories are not varied: %v %v", verdicts, anomalies)
			}
			if verdicts[Undecided]*50 > verdicts[Violated] {
				t.Errorf("%d undecided", verdicts[Undecided])
			}
		})
	}
}
