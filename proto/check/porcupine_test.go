package check

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"drtmd/proto/history"
)

// drawSingle makes a history whose transactions touch one key each.
func drawSingle(r *rand.Rand) *model {
	m := &model{clocks: make([]history.Clock, 1)}
	keys := 1 + r.IntN(3)
	state := make([]value, keys)
	for k := range state {
		state[k] = value{version: 1, digest: 1}
	}
	for i := range 20 + r.IntN(40) {
		k := r.IntN(keys)
		before := state[k]
		t := m.turn(r, i, state[k:k+1])
		if t.Outcome != history.Committed && state[k] == before {
			continue
		}
		t.EndNs = max(t.StartNs, int64(10*i)+r.Int64N(60))
		t.Outcome = history.Committed
		for j := range t.Ops {
			t.Ops[j].Key = history.Key(k)
			if t.Ops[j].Kind == history.OpScan {
				t.Ops[j].High = history.Key(k)
			}
			if t.Ops[j].Kind == history.OpDelete {
				t.Ops[j].Digest = 0
			}
			if t.Ops[j].Kind == history.OpReadAbsent {
				t.Ops[j].Digest = 0
			}
		}
		m.records = append(m.records, t)
	}
	for range r.IntN(3) {
		spoilSingle(r, &m.records[r.IntN(len(m.records))])
	}
	return m
}

// spoilSingle moves a transaction in time, or changes a version.
func spoilSingle(r *rand.Rand, t *history.Record) {
	if len(t.Ops) == 0 || r.IntN(2) == 0 {
		shift := r.Int64N(200) - 100
		t.StartNs += shift
		t.EndNs += shift
		return
	}
	if o := &t.Ops[r.IntN(len(t.Ops))]; o.Kind != history.OpScan && o.Version > 0 {
		o.Version = max(1, o.Version+history.Version(r.IntN(5))-2)
	}
}

// Transactions on one key each are strictly serializable if and only if every key is
// linearizable; porcupine decides that in its own way.
func TestSingleKeyVerdictIsThatOfPorcupine(t *testing.T) {
	var verdicts [Undecided + 1]int
	for seed := range uint64(600) {
		m := drawSingle(rand.New(rand.NewPCG(seed, 3)))
		got := check(t, m.history(t), Options{})
		want := porcupine.CheckOperationsTimeout(m.porcupine(), m.operations(), 10*time.Second)
		verdicts[got.Verdict]++
		if want == porcupine.Unknown {
			continue
		}
		if (want == porcupine.Ok) != (got.Verdict == Serializable) {
			t.Fatalf("seed %d: %v, porcupine says %v: %+v\n%v", seed, got.Verdict, want,
				got.Violations, m)
		}
	}
	if verdicts[Serializable] < 100 || verdicts[Violated] < 100 {
		t.Errorf("the histories are not varied: %v", verdicts)
	}
}

// porcupine is the model of a key: its versions, with m's rules.
func (m *model) porcupine() porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			parts := map[history.Key][]porcupine.Operation{}
			for _, o := range ops {
				k := m.records[o.Input.(int)].Ops[0].Key
				parts[k] = append(parts[k], o)
			}
			var all [][]porcupine.Operation
			for _, p := range parts {
				all = append(all, p)
			}
			return all
		},
		Init: func() any { return value{} },
		Step: func(state, input, _ any) (bool, any) {
			t := input.(int)
			k := m.records[t].Ops[0].Key
			next, ok := m.apply(t, map[history.Key]value{k: state.(value)})
			return ok, next[k]
		},
	}
}

func (m *model) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	for i, r := range m.records {
		if len(r.Ops) > 0 {
			ops = append(ops, porcupine.Operation{ClientId: i, Input: i, Call: r.StartNs,
				Return: r.EndNs})
		}
	}
	return ops
}
