package check

import (
	"math/rand/v2"
	"testing"

	"drtmd/proto/history"
)

// drawAbsences makes a history of keys that come and go, and of readers that are under way for long and find
// several of them absent, without a version. It spoils one in three.
func drawAbsences(r *rand.Rand) *model {
	m := &model{clocks: []history.Clock{{Name: "a"}}}
	keys := 2 + r.IntN(2)
	state := make([]value, keys)
	m.initial = map[history.Key]value{}
	for k := range state {
		state[k] = value{absent: r.IntN(2) == 0}
		if !state[k].absent {
			state[k].version, state[k].digest = 1, 1
			m.initial[history.Key(k)] = state[k]
		}
	}
	readers := 1 + r.IntN(3)
	turns := readers + 4 + r.IntN(8)
	for i := range turns {
		t := history.Record{Outcome: history.Committed, StartNs: int64(100 * i), EndNs: int64(100*i + 20)}
		if r.IntN(turns-i) < readers {
			readers--
			t.StartNs -= r.Int64N(1000)
			t.EndNs += r.Int64N(1000)
			for k, v := range state {
				o := readOf(k, v)
				if o.Kind == history.OpReadAbsent {
					o.Version = 0
				} else if r.IntN(4) > 0 {
					continue
				}
				t.Ops = append(t.Ops, o)
			}
		} else {
			t.EndNs += int64(r.IntN(2)) * r.Int64N(150)
			m.toggle(r, &t, state)
			if r.IntN(4) == 0 {
				m.toggle(r, &t, state)
			}
		}
		m.records = append(m.records, t)
	}
	if r.IntN(3) == 0 {
		t := &m.records[r.IntN(len(m.records))]
		if o := r.IntN(len(t.Ops) + 1); o < len(t.Ops) && t.Ops[o].Kind == history.OpReadAbsent {
			t.Ops[o].Key = history.Key(r.IntN(keys))
		} else {
			shift := r.Int64N(1000) - 500
			t.StartNs, t.EndNs = t.StartNs+shift, t.EndNs+shift
		}
	}
	return m
}

// toggle has a transaction insert a key that is absent, or delete it, or find it absent and insert it.
func (m *model) toggle(r *rand.Rand, t *history.Record, state []value) {
	k := r.IntN(len(state))
	for _, o := range t.Ops {
		if o.Key == history.Key(k) {
			return
		}
	}
	if other := r.IntN(len(state)); len(t.Ops) == 0 && other != k && state[other].absent && r.IntN(3) == 0 {
		t.Ops = append(t.Ops, history.Op{Kind: history.OpReadAbsent, Key: history.Key(other)})
	}
	v := &state[k]
	v.version++
	o := history.Op{Kind: history.OpDelete, Key: history.Key(k), Version: v.version}
	if v.absent = !v.absent; !v.absent {
		v.digest = history.Digest(v.version)
		o.Kind, o.Digest = history.OpWrite, v.digest
	}
	t.Ops = append(t.Ops, o)
}

// Readers with several absences that no version dates: the checker says what a search over all orders says.
func TestSeveralAbsencesOfOneReaderAreThoseOfASearchOverAllOrders(t *testing.T) {
	var verdicts [Undecided + 1]int
	placed := 0
	for seed := range seeds(4_000) {
		m := drawAbsences(rand.New(rand.NewPCG(seed, 7)))
		got := check(t, m.history(t), Options{})
		want := Violated
		if m.serializable() {
			want = Serializable
		}
		verdicts[got.Verdict]++
		if got.Verdict == Serializable && got.PlacedAbsences > 1 {
			placed++
		}
		if got.Verdict != want && (got.Verdict != Undecided || want == Serializable) {
			t.Errorf("seed %d: %v, want %v: %+v\n%v", seed, got.Verdict, want, got.Violations, m)
		}
	}
	t.Log(verdicts, placed)
	if verdicts[Serializable] < 2_000 || verdicts[Violated] < 200 || placed < 500 {
		t.Errorf("the histories are not varied: %v, %d of several absences", verdicts, placed)
	}
	if verdicts[Undecided]*10 > verdicts[Violated] {
		t.Errorf("%d undecided", verdicts[Undecided])
	}
}
