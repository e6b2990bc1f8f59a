package sim

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"regexp"
	"time"

	"drtmd/verbs"
)

// NodeConfig describes a machine with one NIC.
type NodeConfig struct {
	Name string // lower case letters, digits and '-'; "" = n and the index
	// ClockOffset and ClockDrift are the node's clock against the world's: at time 0, and in
	// nanoseconds per second. The clock never shows less than 0.
	ClockOffset time.Duration
	ClockDrift  int64
	// Beside, if not nil, is a node whose NIC this one uses: both are parts of one machine (DrTM §8.3, logical nodes).
	// They reach each other by the NIC's loopback, and its engines, cable and bus are busy with what either does. A
	// crash of one leaves the NIC as it is.
	Beside *Node
}

// MaxClockDrift bounds a clock's drift, in nanoseconds per second: 10 %.
const MaxClockDrift = 100_000_000

// atomicUnits is the number of addresses that a NIC can work on at once; addresses that share a
// unit wait for each other. Assumed.
const atomicUnits = 1024

// Node is a machine of the world. It crashes and restarts; its Context of one life is dead in
// the next.
type Node struct {
	world       *World
	name        string
	index       int
	gid         verbs.GID
	up          bool
	incarnation uint32
	devices     []*device
	paths       []path
	slowness    int64 // durations in thousandths
	failAllocs  int
	failOutcome *Outcome // of the fault behind failAllocs
	stall       stall
	split       splitting
	pausedUntil Time
	downUntil   Time   // of its interface
	workers     []Time // paused until, by worker
	onCrash     []func()
	onRestart   []func()
	program     *Program // on its NIC
	board       *Board   // its NIC's cores, if programs use them

	kept   map[string]*memory // looked up only
	mrs    []*mr              // by key index
	mrTag  []uint32
	freeMR []uint32
	qps    []*qp // by number - firstQPN

	*adapter
	shares bool // the adapter is that of several nodes

	clockBase  Time // of the world, when the clock was last set
	clockLocal time.Duration
	clockDrift int64
}

// adapter is what a NIC has, by the time until which it is busy.
type adapter struct {
	uplink, downlink    server
	out, in             server
	toHost, toNIC, read server
	atomics             [atomicUnits]server
}

var nodeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// AddNode adds a machine, up and running.
func (w *World) AddNode(cfg NodeConfig) (*Node, error) {
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("n%d", len(w.nodes))
	}
	if !nodeName.MatchString(cfg.Name) {
		return nil, fmt.Errorf("node name %q: use up to 32 of a-z, 0-9 and -", cfg.Name)
	}
	if w.byName[cfg.Name] != nil {
		return nil, fmt.Errorf("a node named %q exists already", cfg.Name)
	}
	if cfg.ClockDrift > MaxClockDrift || cfg.ClockDrift < -MaxClockDrift {
		return nil, fmt.Errorf("clock drift of %d ns/s: at most %d either way", cfg.ClockDrift,
			MaxClockDrift)
	}
	n := &Node{world: w, name: cfg.Name, index: len(w.nodes), up: true, slowness: 1000,
		kept: map[string]*memory{}, clockLocal: cfg.ClockOffset, clockDrift: cfg.ClockDrift,
		clockBase: w.now, adapter: &adapter{}}
	if b := cfg.Beside; b != nil {
		if b.world != w {
			return nil, fmt.Errorf("node %q is of another world: it has no NIC for %q", b.name, cfg.Name)
		}
		n.adapter, n.shares, b.shares = b.adapter, true, true
	}
	n.gid[0] = 0xfd
	binary.BigEndian.PutUint32(n.gid[12:], uint32(n.index+1))
	w.nodes = append(w.nodes, n)
	w.byName[n.name] = n
	return n, nil
}

// Nodes lists the machines in the order in which they were added.
func (w *World) Nodes() []*Node { return append([]*Node(nil), w.nodes...) }

// Node finds a machine by name, or nil.
func (w *World) Node(name string) *Node { return w.byName[name] }

// byGID finds a machine by its address, or nil.
func (w *World) byGID(g verbs.GID) *Node {
	i := int(binary.BigEndian.Uint32(g[12:])) - 1
	if i < 0 || i >= len(w.nodes) || w.nodes[i].gid != g {
		return nil
	}
	return w.nodes[i]
}

// Name is the node's name.
func (n *Node) Name() string { return n.name }

// Index counts nodes from 0.
func (n *Node) Index() int { return n.index }

// World is the node's world.
func (n *Node) World() *World { return n.world }

// Up reports whether the node runs.
func (n *Node) Up() bool { return n.up }

// Incarnation counts the node's lives, from 0.
func (n *Node) Incarnation() uint32 { return n.incarnation }

// OnCrash and OnRestart have f called whenever that happens to the node, in the order of
// registration, inside the event loop. The layer above ends and starts its workers there.
func (n *Node) OnCrash(f func()) { n.onCrash = append(n.onCrash, f) }

// OnRestart: see OnCrash.
func (n *Node) OnRestart(f func()) { n.onRestart = append(n.onRestart, f) }

// Crash stops the node at once. What its NIC has not sent is lost, what is on the wire still
// arrives. Its Contexts are dead and their memory is gone, except kept memory if keepDRAM.
// Peers notice by their own timeouts. It does nothing to a node that is down.
func (n *Node) Crash(keepDRAM bool) {
	if !n.up {
		return
	}
	n.up = false
	for _, d := range n.devices {
		d.die()
	}
	n.devices = nil
	if !keepDRAM {
		n.kept = map[string]*memory{}
	}
	n.resetResources()
	n.pausedUntil, n.workers = 0, nil
	for _, f := range n.onCrash {
		f()
	}
}

// Restart starts a crashed node: a new life with a NIC without state. It does nothing to a node
// that is up.
func (n *Node) Restart() {
	if n.up {
		return
	}
	n.up = true
	n.incarnation++
	n.resetResources()
	for _, f := range n.onRestart {
		f()
	}
}

func (n *Node) resetResources() {
	if !n.shares {
		*n.adapter = adapter{}
	}
}

// Pause stops the CPU of the node for a span; its NIC works on. It is the layer above that runs
// CPUs: it asks ReadyAt before it runs a worker. It does nothing to a node that is down.
func (n *Node) Pause(d Time) {
	if n.up {
		n.pausedUntil = max(n.pausedUntil, n.world.now.add(d))
	}
}

// PauseWorker stops one worker for a span.
func (n *Node) PauseWorker(worker int, d Time) {
	if !n.up {
		return
	}
	for len(n.workers) <= worker {
		n.workers = append(n.workers, 0)
	}
	n.workers[worker] = max(n.workers[worker], n.world.now.add(d))
}

// ReadyAt is the time from which a worker of the node may run: now, unless it is paused.
func (n *Node) ReadyAt(worker int) Time {
	t := max(n.world.now, n.pausedUntil)
	if worker >= 0 && worker < len(n.workers) {
		t = max(t, n.workers[worker])
	}
	return t
}

// FailAllocs makes the next count registrations of memory fail with ENOMEM.
func (n *Node) FailAllocs(count int) { n.failAllocs, n.failOutcome = count, &Outcome{} }

// SlowNIC makes everything in the node's NIC take thousandths of its time: 1000 is normal.
func (n *Node) SlowNIC(thousandths int) { n.slowness = int64(max(thousandths, 1)) }

func (n *Node) slow(d Time) Time {
	if n.slowness == 1000 {
		return d
	}
	return Time(scale(int64(d), n.slowness, 1000))
}

// scale is v*num/den for v and num of at least 0, without overflow on the way.
func scale(v, num, den int64) int64 {
	hi, lo := bits.Mul64(uint64(v), uint64(num))
	if hi >= uint64(den) {
		return int64(Forever)
	}
	q, _ := bits.Div64(hi, lo, uint64(den))
	return int64(min(q, uint64(Forever)))
}

// Clock is the node's own clock, with its offset and drift. It is verbs.Clock.
func (n *Node) Clock() verbs.Clock { return nodeClock{n} }

type nodeClock struct{ n *Node }

func (c nodeClock) Now() time.Duration { return max(0, c.n.local()) }

// local is the clock's value, before it is cut off at 0.
func (n *Node) local() time.Duration {
	d := (n.world.now - n.clockBase).Duration()
	drift := time.Duration(scale(int64(d), max(n.clockDrift, -n.clockDrift), 1e9))
	if n.clockDrift < 0 {
		drift = -drift
	}
	return n.clockLocal + d + drift
}

// ClockError is how far the node's clock is from the world's: what only a simulator can know.
func (n *Node) ClockError() time.Duration {
	return n.Clock().Now() - n.world.now.Duration()
}

// StepClock moves the node's clock by d at once, forwards or backwards.
func (n *Node) StepClock(d time.Duration) {
	n.clockLocal, n.clockBase = n.local()+d, n.world.now
}

// DriftClock changes the clock's rate, in nanoseconds per second; it runs on from where it is.
func (n *Node) DriftClock(nsPerSecond int64) {
	n.clockLocal, n.clockBase = n.local(), n.world.now
	n.clockDrift = min(max(nsPerSecond, -MaxClockDrift), MaxClockDrift)
}

// firstQPN is the number of a node's first QP; 0 and 1 are special in the specification.
const firstQPN = 2

// qpAt finds a live QP by number, or nil.
func (n *Node) qpAt(qpn uint32) *qp {
	i := int(qpn) - firstQPN
	if i < 0 || i >= len(n.qps) {
		return nil
	}
	return n.qps[i]
}
