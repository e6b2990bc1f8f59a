package sim

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// String is one line, as ParseSchedule reads it:
//
//	at 1.5ms crash node=n2 dram=lost
//	at step "drtm: after lock" #3 crash
func (f Fault) String() string {
	var b strings.Builder
	if f.Step != "" {
		fmt.Fprintf(&b, "at step %s #%d %s", strconv.Quote(f.Step), f.Count, f.Kind)
	} else {
		fmt.Fprintf(&b, "at %s %s", f.At, f.Kind)
	}
	if f.Kind == 0 || f.Kind >= faultKinds {
		return b.String()
	}
	for key := range strings.FieldsSeq(faultSpecs[f.Kind].keys) {
		if v := f.get(key); v != "" {
			b.WriteString(" " + key + "=" + v)
		}
	}
	return b.String()
}

// get formats an argument; "" is the default, which is not printed.
func (f *Fault) get(key string) string {
	number := func(v int64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatInt(v, 10)
	}
	span := func(t Time) string {
		if t == 0 {
			return ""
		}
		return t.String()
	}
	switch key {
	case "node":
		return f.Node
	case "from":
		return f.From
	case "to":
		return f.To
	case "for":
		return span(f.For)
	case "by":
		return span(f.By)
	case "worker":
		return strconv.Itoa(f.Worker)
	case "ppm":
		return strconv.Itoa(f.PPM)
	case "times":
		return number(int64(f.Times))
	case "drift":
		return strconv.FormatInt(f.Drift, 10)
	case "factor":
		return strconv.Itoa(f.Factor)
	case "shift":
		return f.Shift.String()
	case "dram":
		if f.Kept {
			return "kept"
		}
		return "lost"
	case "both":
		if f.Both {
			return "yes"
		}
	case "groups":
		var groups []string
		for _, g := range f.Groups {
			groups = append(groups, strings.Join(g, ","))
		}
		return strings.Join(groups, "|")
	}
	return ""
}

// set parses an argument.
func (f *Fault) set(key, v string) (err error) {
	name := func(out *string) error {
		if v != AnyNode && !nodeName.MatchString(v) {
			return fmt.Errorf("%q is not a node's name", v)
		}
		*out = v
		return nil
	}
	switch key {
	case "node":
		return name(&f.Node)
	case "from":
		return name(&f.From)
	case "to":
		return name(&f.To)
	case "for":
		f.For, err = ParseTime(v)
	case "by":
		f.By, err = ParseTime(v)
	case "worker":
		f.Worker, err = strconv.Atoi(v)
	case "ppm":
		f.PPM, err = strconv.Atoi(v)
	case "times":
		f.Times, err = strconv.Atoi(v)
	case "drift":
		f.Drift, err = strconv.ParseInt(v, 10, 64)
	case "factor":
		f.Factor, err = strconv.Atoi(v)
	case "shift":
		f.Shift, err = time.ParseDuration(v)
	case "dram":
		if f.Kept = v == "kept"; !f.Kept && v != "lost" {
			return fmt.Errorf("%q is neither lost nor kept", v)
		}
	case "both":
		if f.Both = v == "yes"; !f.Both && v != "no" {
			return fmt.Errorf("%q is neither yes nor no", v)
		}
	case "groups":
		f.Groups = nil
		for g := range strings.SplitSeq(v, "|") {
			f.Groups = append(f.Groups, strings.Split(g, ","))
		}
	}
	if err != nil {
		return fmt.Errorf("%s=%s: %w", key, v, err)
	}
	return nil
}

// Bounds of arguments that are not absurd.
const (
	maxFaultSpan  = 1000 * Second
	maxTimes      = 1_000_000_000
	maxFactor     = 1_000_000 // thousandths
	maxClockShift = 1000 * time.Second
	maxWorkers    = 4096
)

// check checks a fault by itself.
func (f *Fault) check() error {
	if f.Kind == 0 || f.Kind >= faultKinds {
		return fmt.Errorf("%s; known: %s", f.Kind, strings.Join(FaultKinds(), ", "))
	}
	if f.Step == "" && (f.At < 0 || f.Count != 0) || f.Step != "" && f.Count < 1 {
		return errors.New("it needs a time of at least 0, or a step and a count of at least 1")
	}
	spec := &faultSpecs[f.Kind]
	has := func(key string) bool {
		return slices.Contains(strings.Fields(spec.keys), key)
	}
	required := func(key string) bool {
		return has(key) && !slices.Contains(strings.Fields(spec.optional), key)
	}
	between := func(key string, v, low, high int64) error {
		if has(key) && (v < low || v > high) {
			return fmt.Errorf("%s=%d is not in %d..%d", key, v, low, high)
		}
		return nil
	}
	span := func(key string, t Time) error {
		if t < 0 || t > maxFaultSpan || t == 0 && required(key) {
			return fmt.Errorf("%s must be more than 0 and at most %s", key, maxFaultSpan)
		}
		return nil
	}
	least := int64(0)
	if required("times") {
		least = 1
	}
	for _, err := range []error{
		span("for", f.For), span("by", f.By),
		between("ppm", int64(f.PPM), 1, 1e6), between("times", int64(f.Times), least, maxTimes),
		between("factor", int64(f.Factor), 1, maxFactor),
		between("worker", int64(f.Worker), 0, maxWorkers-1),
		between("drift", f.Drift, -MaxClockDrift, MaxClockDrift),
		between("shift", int64(f.Shift), -int64(maxClockShift), int64(maxClockShift)),
	} {
		if err != nil {
			return err
		}
	}
	for _, key := range []string{"node", "from", "to", "groups"} {
		if required(key) && f.get(key) == "" && (key != "node" || f.Step == "") {
			return fmt.Errorf("%s is missing", key)
		}
	}
	if f.Node == AnyNode {
		return errors.New("node must be one node")
	}
	seen := map[string]bool{}
	for _, g := range f.Groups {
		for _, n := range g {
			if seen[n] || !nodeName.MatchString(n) {
				return fmt.Errorf("groups: %q is in two groups, or not a node's name", n)
			}
			seen[n] = true
		}
	}
	return nil
}

// ParseSchedule reads a schedule: a fault a line; empty lines and those that begin with # are
// passed over. Errors name the line.
func ParseSchedule(text string) (Schedule, error) {
	var s Schedule
	in := bufio.NewScanner(strings.NewReader(text))
	for line := 1; in.Scan(); line++ {
		l := strings.TrimSpace(in.Text())
		if l == "" || l[0] == '#' {
			continue
		}
		f, err := ParseFault(l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		s = append(s, f)
	}
	return s, in.Err()
}

// ParseFault reads one line of a schedule.
func ParseFault(line string) (Fault, error) {
	var f Fault
	rest, ok := strings.CutPrefix(line, "at ")
	if !ok {
		return f, fmt.Errorf("%q: a fault begins with \"at TIME\" or \"at step NAME #COUNT\"", line)
	}
	if step, is := strings.CutPrefix(rest, "step "); is {
		quoted, err := strconv.QuotedPrefix(step)
		if err != nil {
			return f, errors.New("the name of a step stands in double quotes")
		}
		if f.Step, err = strconv.Unquote(quoted); err != nil || f.Step == "" {
			return f, errors.New("the name of a step stands in double quotes")
		}
		rest = strings.TrimPrefix(step[len(quoted):], " ")
		count, after, _ := strings.Cut(rest, " ")
		if f.Count, err = strconv.Atoi(strings.TrimPrefix(count, "#")); err != nil ||
			!strings.HasPrefix(count, "#") {
			return f, fmt.Errorf("%q: after a step comes its occurrence, as in #1", count)
		}
		rest = after
	} else {
		at, after, _ := strings.Cut(rest, " ")
		var err error
		if f.At, err = ParseTime(at); err != nil {
			return f, err
		}
		rest = after
	}
	words := strings.Fields(rest)
	if len(words) == 0 {
		return f, errors.New("the kind of fault is missing; known: " +
			strings.Join(FaultKinds(), ", "))
	}
	kind := slices.Index(FaultKinds(), words[0]) + 1
	if kind == 0 {
		return f, fmt.Errorf("unknown fault %q; known: %s", words[0],
			strings.Join(FaultKinds(), ", "))
	}
	f.Kind = FaultKind(kind)
	if f.Kind == BreakQPs {
		f.To = AnyNode
	}
	keys := strings.Fields(faultSpecs[kind].keys)
	seen := map[string]bool{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if !slices.Contains(keys, key) || seen[key] {
			return f, fmt.Errorf("%s: unexpected or repeated %q; it takes: %s", f.Kind, word,
				strings.Join(keys, ", "))
		}
		seen[key] = true
		if err := f.set(key, value); err != nil {
			return f, err
		}
	}
	return f, f.check()
}

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
		case RestartNode, Heal: // they come with what they end
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
	Faults  int      // how many; crashes bring a restart along
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
		s = append(s, o.draw(r, kind)...)
	}
	slices.SortStableFunc(s, func(a, b Fault) int { return int(min(max(a.At-b.At, -1), 1)) })
	return s
}

// draw draws one fault of a kind.
func (o *RandomOptions) draw(r *rand.Rand, kind FaultKind) Schedule {
	upTo := func(t Time) Time { return Time(r.Int64N(int64(max(t, 1)))) + 1 }
	node := func() string { return o.Nodes[r.IntN(len(o.Nodes))] }
	f := Fault{Kind: kind, At: upTo(o.Horizon) - 1, For: upTo(o.Span)}
	a, b := node(), node()
	switch kind {
	case CrashNode:
		f.For = 0
		f.Node, f.Kept = a, r.IntN(2) == 0
		return Schedule{f, {Kind: RestartNode, Node: a, At: f.At + upTo(o.Span)}}
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
		var groups [2][]string
		for _, n := range o.Nodes {
			g := r.IntN(2)
			groups[g] = append(groups[g], n)
		}
		for _, g := range groups {
			if len(g) > 0 {
				f.Groups = append(f.Groups, g)
			}
		}
	default:
		f.Node = a
		f.Worker = r.IntN(4)
		f.Factor = 1000 + r.IntN(20_000)
		f.Drift = r.Int64N(2*100_000+1) - 100_000
		f.Shift = time.Duration(r.Int64N(2*int64(o.Span/Nanosecond)+1)) - o.Span.Duration()
		f.Times = 1 + r.IntN(3)
		f.To = AnyNode
	}
	return Schedule{f.trimmed()}
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
