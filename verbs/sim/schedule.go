package sim

import (
	"bufio"
	"errors"
	"fmt"
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
		if f.Worker == WorkerAtStep {
			return ""
		}
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
		return strings.Replace(f.Shift.String(), "µ", "u", 1) // plain ASCII, for command lines
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
			return fmt.Errorf("expected lost or kept, not %q", v)
		}
	case "both":
		if f.Both = v == "yes"; !f.Both && v != "no" {
			return fmt.Errorf("expected yes or no, not %q", v)
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
	least, leastWorker := int64(0), int64(0)
	if f.Step != "" {
		leastWorker = WorkerAtStep
	}
	if required("times") {
		least = 1
	}
	for _, err := range []error{
		span("for", f.For), span("by", f.By),
		between("ppm", int64(f.PPM), 1, 1e6), between("times", int64(f.Times), least, maxTimes),
		between("factor", int64(f.Factor), 1, maxFactor),
		between("worker", int64(f.Worker), leastWorker, maxWorkers-1),
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
			return f, errors.New("put the name of a step in double quotes")
		}
		if f.Step, err = strconv.Unquote(quoted); err != nil || f.Step == "" {
			return f, errors.New("put the name of a step in double quotes")
		}
		rest = strings.TrimPrefix(step[len(quoted):], " ")
		count, after, _ := strings.Cut(rest, " ")
		if f.Count, err = strconv.Atoi(strings.TrimPrefix(count, "#")); err != nil ||
			!strings.HasPrefix(count, "#") {
			return f, fmt.Errorf("%q: give the occurrence of the step after its name, such as #1", count)
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
	switch {
	case f.Kind == BreakQPs:
		f.To = AnyNode
	case f.Kind == PauseWorker && f.Step != "":
		f.Worker = WorkerAtStep
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
