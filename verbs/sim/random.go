package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Weight is how often a kind of fault is drawn, against the others.
type Weight struct {
	Kind   FaultKind
	Weight int
}

// DefaultWeights draws every kind, network faults more often than crashes.
func DefaultWeights() []Weight {
	var out []Weight
	for k := CrashNode; k < faultKinds; k++ {
		n := 4
		switch k {
		case CrashNode, BreakQPs, Partition, CutLink:
			n = 2
		case RestartNode, Heal: // what they end is drawn with its own end
			n = 0
		case SplitAtomics: // not every device is like that
			n = 0
		case FailAllocs:
			n = 1
		}
		out = append(out, Weight{k, n})
	}
	return out
}

// RandomOptions of RandomSchedule.
type RandomOptions struct {
	Nodes   []string
	Workers int      // of each node, for pauses; 0 = 1
	Faults  int      // how many
	Horizon Time     // they begin before
	Span    Time     // the longest duration of one; 0 = a tenth of the horizon
	Weights []Weight // nil = DefaultWeights
}

// RandomSchedule draws a schedule, in order of time. Every fault ends by itself.
func RandomSchedule(r *rand.Rand, o RandomOptions) Schedule {
	if o.Weights == nil {
		o.Weights = DefaultWeights()
	}
	if o.Span == 0 {
		o.Span = o.Horizon / 10
	}
	o.Span = max(o.Span, Nanosecond)
	total := 0
	for _, w := range o.Weights {
		total += max(0, w.Weight)
	}
	if total == 0 || len(o.Nodes) == 0 {
		return nil
	}
	var s Schedule
	for range o.Faults {
		n := r.IntN(total)
		var kind FaultKind
		for _, w := range o.Weights {
			if n -= max(0, w.Weight); n < 0 {
				kind = w.Kind
				break
			}
		}
		s = append(s, o.draw(r, kind))
	}
	slices.SortStableFunc(s, func(a, b Fault) int { return int(min(max(a.At-b.At, -1), 1)) })
	return s
}

// draw draws one fault of a kind.
func (o *RandomOptions) draw(r *rand.Rand, kind FaultKind) Fault {
	upTo := func(t Time) Time { return Time(r.Int64N(int64(max(t, 1)))) + 1 }
	node := func() string { return o.Nodes[r.IntN(len(o.Nodes))] }
	f := Fault{Kind: kind, At: upTo(o.Horizon) - 1, For: upTo(o.Span)}
	a, b := node(), node()
	for a == b && len(o.Nodes) > 1 { // a node is no path to itself
		b = node()
	}
	switch kind {
	case CrashNode:
		f.Node, f.Kept = a, r.IntN(2) == 0
	case CutLink:
		f.From, f.To, f.Both = a, b, r.IntN(2) == 0
	case DropDatagrams, DuplicateDatagrams, DelayDatagrams, ReorderDatagrams:
		f.From, f.To, f.PPM = a, b, 1+r.IntN(500_000)
		if kind != DropDatagrams {
			f.By = upTo(o.Span)
		}
	case DelayRC:
		f.From, f.To, f.By, f.Times = a, b, upTo(o.Span), 1+r.IntN(4)
	case Partition:
		f.Groups = split(r, o.Nodes)
	default:
		f.Node = a
		f.Worker = r.IntN(max(o.Workers, 1))
		f.Factor = 1000 + r.IntN(20_000)
		f.Drift = r.Int64N(2*100_000+1) - 100_000
		f.Shift = time.Duration(r.Int64N(2*int64(o.Span/Nanosecond)+1)) - o.Span.Duration()
		f.Times = 1 + r.IntN(3)
		f.To = AnyNode
		if kind == StallMemory {
			f.PPM, f.By = 1+r.IntN(300_000), upTo(Microsecond<<r.IntN(6))
		}
	}
	return f.trimmed()
}

// split draws two groups, neither of which is empty if there are two names.
func split(r *rand.Rand, names []string) [][]string {
	first := r.IntN(len(names)) // alone in its group, unless others are drawn into it
	groups := [][]string{{names[first]}, nil}
	for i := 1; i < len(names); i++ {
		g := 1
		if i > 1 {
			g = r.IntN(2)
		}
		groups[g] = append(groups[g], names[(first+i)%len(names)])
	}
	if len(groups[1]) == 0 {
		return groups[:1]
	}
	return groups
}

// trimmed keeps only what the kind uses.
func (f Fault) trimmed() Fault {
	out := Fault{At: f.At, Step: f.Step, Count: f.Count, Kind: f.Kind}
	for key := range strings.FieldsSeq(faultSpecs[f.Kind].keys) {
		if v := f.get(key); v != "" {
			if err := out.set(key, v); err != nil {
				return f // cannot happen: get wrote it
			}
		}
	}
	return out
}

// Shrink looks for the fewest faults with which fails still reports true, by leaving out ever
// smaller parts (delta debugging). fails must be deterministic; it is called O(n log n) times
// or so, and at most n*n. s itself must fail.
func Shrink(s Schedule, fails func(Schedule) bool) Schedule {
	s = slices.Clone(s)
	for chunk := (len(s) + 1) / 2; chunk >= 1; {
		shorter := false
		for at := 0; at < len(s); {
			rest := slices.Concat(s[:at], s[min(at+chunk, len(s)):])
			if fails(rest) {
				s, shorter = rest, true
			} else {
				at += chunk
			}
		}
		if !shorter {
			chunk /= 2
		}
	}
	return s
}
