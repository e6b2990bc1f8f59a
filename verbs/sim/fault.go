package sim

import (
	"fmt"
	"strings"
	"time"
)

// FaultKind is what goes wrong. Its String is its name in a schedule.
type FaultKind uint8

const (
	CrashNode FaultKind = iota + 1 // Node; Kept = its kept memory survives; For = it restarts then
	RestartNode
	PauseNode          // Node, For: its CPU; the NIC works on
	PauseWorker        // Node, Worker, For
	DropDatagrams      // From, To, PPM, Times, For
	DuplicateDatagrams // ... the copy comes By later
	DelayDatagrams     // ... By
	ReorderDatagrams   // ... by a random span up to By
	DelayRC            // From, To, By, Times, For: requests of RC QPs, in order
	BreakQPs           // Node, To ("*" = whatever peer): its QPs go to the error state
	CutLink            // From, To, Both, For
	Partition          // Groups, For: only nodes of one group reach each other
	Heal               // ends every CutLink and Partition
	StepClock          // Node, Shift
	DriftClock         // Node, Drift
	SlowNIC            // Node, Factor, For
	FailAllocs         // Node, Times
	DownInterface      // Node, For: as Soft-RoCE with its interface down: what is posted fails at once
	StallMemory        // Node, PPM, By, For: its NIC waits before it accesses a line
	SplitAtomics       // Node, PPM, By, For: its NIC reads the word of an atomic, and writes it later
	PauseNIC           // Node, For: the cores of its NIC, if they run programs; its DMA engine works on
	faultKinds
)

// faultSpec says how a fault is written, and which arguments it has.
type faultSpec struct {
	name     string
	keys     string // in the order in which they are printed
	optional string // those that have a default
}

var faultSpecs = [faultKinds]faultSpec{
	CrashNode:          {"crash", "node dram for", "dram for"},
	RestartNode:        {"restart", "node", ""},
	PauseNode:          {"pause", "node for", ""},
	PauseWorker:        {"pause-worker", "node worker for", ""},
	DropDatagrams:      {"drop", "from to ppm times for", "times for"},
	DuplicateDatagrams: {"duplicate", "from to ppm times by for", "times by for"},
	DelayDatagrams:     {"delay", "from to ppm times by for", "times for"},
	ReorderDatagrams:   {"reorder", "from to ppm times by for", "times for"},
	DelayRC:            {"delay-rc", "from to times by for", "times for"},
	BreakQPs:           {"break-qps", "node to", "to"},
	CutLink:            {"cut", "from to both for", "both for"},
	Partition:          {"partition", "groups for", "for"},
	Heal:               {"heal", "", ""},
	StepClock:          {"clock-step", "node shift", ""},
	DriftClock:         {"clock-drift", "node drift", ""},
	SlowNIC:            {"slow-nic", "node factor for", "for"},
	FailAllocs:         {"fail-allocs", "node times", ""},
	DownInterface:      {"down", "node for", "for"},
	PauseNIC:           {"pause-nic", "node for", ""},
	StallMemory:        {"stall-memory", "node ppm by for", "for"},
	SplitAtomics:       {"split-atomics", "node ppm by for", "for"},
}

func (k FaultKind) String() string {
	if k > 0 && k < faultKinds {
		return faultSpecs[k].name
	}
	return fmt.Sprintf("unknown fault %d", uint8(k))
}

// FaultKinds lists the names of all kinds.
func FaultKinds() []string {
	var names []string
	for _, s := range faultSpecs[1:] {
		names = append(names, s.name)
	}
	return names
}

// AnyNode stands for every node in From, To and Node of faults on paths.
const AnyNode = "*"

// WorkerAtStep is the Worker of a fault that strikes who takes the step.
const WorkerAtStep = -1

// Fault is one thing that goes wrong, and when. Which fields it uses depends on Kind.
type Fault struct {
	At    Time   // when, if Step is empty
	Step  string // the marked step at which it strikes
	Count int    // ... at its Count-th occurrence in the world, from 1

	Kind     FaultKind
	Node     string // with Step, "" is the node that takes the step
	From, To string
	Groups   [][]string
	Worker   int  // with Step, WorkerAtStep is the worker that takes the step
	For      Time // 0 = until the end
	By       Time
	Shift    time.Duration
	Drift    int64 // nanoseconds per second
	PPM      int   // probability in millionths
	Times    int   // how often; 0 = without a bound
	Factor   int   // thousandths
	Both     bool  // both directions
	Kept     bool
}

// Schedule is a list of faults: data, printed by String and read by ParseSchedule.
type Schedule []Fault

func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s {
		b.WriteString(f.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Install arms a schedule. Nothing is armed if a fault is wrong. World.Outcomes tells what became
// of it.
func (w *World) Install(s Schedule) error {
	for i := range s {
		if err := w.checkFault(&s[i]); err != nil {
			return fmt.Errorf("fault %d (%s): %w", i+1, s[i].String(), err)
		}
	}
	for _, f := range s {
		o := &Outcome{Fault: f}
		w.outcomes = append(w.outcomes, o)
		if f.Step != "" {
			s := w.steps.of(f.Step)
			s.armed = append(s.armed, o)
		} else {
			w.At(f.At, func() { w.strike(f, o) })
		}
	}
	return nil
}

// checkFault checks a fault by itself, and its nodes against the world.
func (w *World) checkFault(f *Fault) error {
	if err := f.check(); err != nil {
		return err
	}
	names := []string{f.From, f.To}
	if f.Node != "" {
		names = append(names, f.Node)
	}
	for _, g := range f.Groups {
		names = append(names, g...)
	}
	for _, n := range names {
		if n != "" && n != AnyNode && w.byName[n] == nil {
			var known []string
			for _, x := range w.nodes {
				known = append(known, x.name)
			}
			return fmt.Errorf("unknown node %q; known: %s", n, strings.Join(known, ", "))
		}
	}
	return nil
}

// strike makes a fault happen, f being o.Fault with its node filled in, and notes that in o.
func (w *World) strike(f Fault, o *Outcome) {
	w.mark(evFault, -1, f.String())
	o.Struck, o.At = true, w.now
	n := w.byName[f.Node]
	switch f.Kind {
	case CrashNode:
		o.hit(n.up)
		n.crashFor(f.Kept, f.For)
	case RestartNode:
		o.hit(!n.up)
		n.Restart()
	case PauseNode:
		o.hit(n.up)
		n.Pause(f.For)
	case PauseWorker:
		o.hit(n.up)
		n.PauseWorker(f.Worker, f.For)
	case DropDatagrams, DuplicateDatagrams, DelayDatagrams, ReorderDatagrams:
		w.eachPath(f.From, f.To, func(p *path) {
			p.rules = append(p.rules, udRule{kind: f.Kind, ppm: f.PPM, by: f.By,
				count: unbounded(f.Times), until: w.until(f.For), outcome: o})
		})
	case DelayRC:
		w.eachPath(f.From, f.To, func(p *path) {
			p.rcDelay, p.rcCount, p.rcUntil = f.By, unbounded(f.Times), w.until(f.For)
			p.rcOutcome = o
		})
	case BreakQPs:
		n.breakQPs(f.To, o)
	case DownInterface:
		o.hit(n.up)
		n.downUntil = w.until(f.For)
		w.sever(f.For, o, func(a, b *Node) bool { return a == n || b == n })
	case CutLink:
		w.sever(f.For, o, func(a, b *Node) bool {
			forward := matches(f.From, a) && matches(f.To, b)
			return forward || f.Both && matches(f.From, b) && matches(f.To, a)
		})
	case Partition:
		group := make([]int, len(w.nodes)) // 0 = in none: alone
		for i, g := range f.Groups {
			for _, name := range g {
				group[w.byName[name].index] = i + 1
			}
		}
		w.sever(f.For, o, func(a, b *Node) bool {
			return group[a.index] != group[b.index] || group[a.index] == 0
		})
	case Heal:
		w.links.healed++
		for _, a := range w.nodes {
			a.downUntil = 0
			for i := range a.paths {
				o.hit(a.paths[i].cut > 0)
				a.paths[i].cut = 0
			}
		}
	case StepClock:
		o.hit(true)
		n.StepClock(f.Shift)
	case DriftClock:
		o.hit(true)
		n.DriftClock(f.Drift)
	case SlowNIC:
		o.hit(true)
		n.SlowNIC(f.Factor)
		if f.For > 0 {
			w.After(f.For, func() { n.SlowNIC(1000) })
		}
	case PauseNIC:
		if b := n.board; b != nil && b.alive() {
			o.hit(true)
			b.Pause(f.For)
		}
	case StallMemory:
		n.stall = stall{ppm: f.PPM, by: f.By, until: w.until(f.For), outcome: o}
	case SplitAtomics:
		n.split = splitting{ppm: f.PPM, by: f.By, until: w.until(f.For), outcome: o, words: n.split.words}
	case FailAllocs:
		n.FailAllocs(f.Times)
		n.failOutcome = o
	}
}

// crashFor crashes a node that is up and restarts it after a span, unless somebody else has done
// that meanwhile. A span of 0 is for ever.
func (n *Node) crashFor(keepDRAM bool, d Time) {
	if !n.up {
		return
	}
	n.Crash(keepDRAM)
	if life := n.incarnation; d > 0 {
		n.world.After(d, func() {
			if n.incarnation == life {
				n.Restart()
			}
		})
	}
}

// until is the end of a span from now, 0 being none.
func (w *World) until(d Time) Time {
	if d == 0 {
		return Forever
	}
	return w.now.add(d)
}

func unbounded(times int) int {
	if times == 0 {
		return -1
	}
	return times
}

func matches(name string, n *Node) bool { return name == AnyNode || name == n.name }

// eachPath calls f with the paths from one node to another, in order.
func (w *World) eachPath(from, to string, f func(*path)) {
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			if a != b && matches(from, a) && matches(to, b) {
				f(a.to(b))
			}
		}
	}
}

// sever cuts paths for a span, 0 being until Heal.
func (w *World) sever(d Time, o *Outcome, which func(a, b *Node) bool) {
	var hit []*path
	var ends [][2]int
	for _, a := range w.nodes {
		for _, b := range w.nodes {
			if a != b && which(a, b) {
				hit = append(hit, a.to(b))
				ends = append(ends, [2]int{a.index, b.index})
			}
		}
	}
	for _, p := range hit {
		o.hit(true)
		p.cut++
	}
	if d == 0 {
		return
	}
	healed := w.links.healed
	w.After(d, func() {
		if w.links.healed != healed {
			return // a Heal has ended it already
		}
		for _, e := range ends {
			w.nodes[e[0]].to(w.nodes[e[1]]).cut--
		}
	})
}

// breakQPs puts QPs of the node into error: those to a peer, or all.
func (n *Node) breakQPs(peer string, o *Outcome) {
	if peer == "" {
		peer = AnyNode
	}
	for _, q := range append([]*qp(nil), n.qps...) {
		if q == nil || q.peer != nil && !matches(peer, q.peer) || q.peer == nil && peer != AnyNode {
			continue
		}
		o.hit(true)
		q.broken("simulated fault")
	}
}
