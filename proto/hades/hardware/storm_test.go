package hardware

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// A storm: many transactions on few records, with whatever comes next drawn at random, and a check of the recorded
// history.

// stormRecord has a header line, and two lines that each have the record's version and digest.
type stormRecord struct {
	home  NodeID
	lines []bloom.Line // header, data, data
}

const (
	stormNodes   = 3
	stormClients = 2 // on each node, on one core: each access may be a context switch
)

// stormOptions are what a storm is varied by.
type stormOptions struct {
	hybrid  bool
	records int // of each node
	bits    int // of each filter
	ways    int // of the LLC, in one set
	pairs   int // of a NIC; 0: enough
	rounds  int
	local   bool // transactions access their own node only, as in §VIII-C
	// patience is after how many failures a transaction locks everything first; 0: never.
	patience int

	mutation Mutation
	// schedule of faults of a simulated network with the cost model of HADES; "none": without faults. "": what comes
	// next is drawn.
	schedule string
}

// stormClient runs transactions one after the other, each until it commits.
type stormClient struct {
	node     NodeID
	left     int
	records  []int  // of the present program
	writes   []bool // one for each
	next     int
	running  bool
	tx       directory.TX
	waits    bool
	value    [16]byte // that it writes to a record, of which some lines are written
	half     bool
	lines    int
	failures int // of the present program
	worst    int
	recorder *history.Recorder
	txn      *history.Txn
	ended    End
}

type storm struct {
	options stormOptions
	draw    *rand.Rand
	nodes   []*Node
	memory  []lines
	records []stormRecord
	clients []*stormClient
	queues  [][]*Message
	steps   [][]Step
	world   *sim.World // with a simulated network
	now     int64
	ends    [Invalid + 1]int
}

func newStorm(t *testing.T, seed uint64, o stormOptions) *storm {
	t.Helper()
	s := &storm{options: o, draw: rand.New(rand.NewPCG(seed, 11)), queues: make([][]*Message, stormNodes*stormNodes),
		steps: make([][]Step, stormNodes)}
	pool := &Pool{}
	if o.schedule != "" {
		s.simulate(t, seed)
	}
	for i := range stormNodes {
		d := smallNode()
		d.PerCore = stormClients
		d.LLC.Ways = o.ways
		d.Read = bloom.Geometry{Bits: o.bits, Hashes: 1}
		d.Write = bloom.Geometry{Bits: o.bits, Hashes: 1, IndexBits: 1}
		l := lines{}
		c := Config{Node: NodeID(i), Nodes: stormNodes, Directory: d, Pairs: o.pairs, Hybrid: o.hybrid,
			Mutation: o.mutation, Memory: l, Pool: pool, Filter: bloom.Geometry{Bits: o.bits, Hashes: 1},
			Hooks: Hooks{
				Send: func(m *Message, _ int) {
					q := &s.queues[i*stormNodes+int(m.To)]
					*q = append(*q, m)
				},
				Later:   func(x Step, _ int) { s.steps[i] = append(s.steps[i], x) },
				Fetched: func(tx directory.TX, _ uint32) { s.client(NodeID(i), tx).waits = false },
				Acked:   func(tx directory.TX) { s.client(NodeID(i), tx).waits = false },
				Reserved: func(tx directory.TX) {
					s.client(NodeID(i), tx).waits = false
				},
				Ended: func(tx directory.TX, e End) { s.client(NodeID(i), tx).ended = e },
			}}
		n, err := s.node(c)
		if err != nil {
			t.Fatal(err)
		}
		s.nodes, s.memory = append(s.nodes, n), append(s.memory, l)
		for r := range o.records {
			at := bloom.Line(16 * r)
			s.records = append(s.records, stormRecord{NodeID(i), []bloom.Line{at, at + 1, at + 2}})
		}
		for k := range stormClients {
			s.clients = append(s.clients, &stormClient{node: NodeID(i), left: o.rounds, recorder: history.NewRecorder(
				history.Options{Worker: history.WorkerID(i*stormClients + k), Node: history.NodeID(i),
					Clock: history.Clock{Name: "steps", ResolutionNs: 1}})})
		}
	}
	return s
}

// simulate makes the world of a storm with a simulated network.
func (s *storm) simulate(t *testing.T, seed uint64) {
	t.Helper()
	cost, err := sim.Preset("hades")
	if err != nil {
		t.Fatal(err)
	}
	if s.world, err = sim.New(sim.Config{Seed: seed, Cost: cost, KeepEvents: -1, EventLimit: 20e6}); err != nil {
		t.Fatal(err)
	}
	for range stormNodes {
		if _, err := s.world.AddNode(sim.NodeConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	if s.options.schedule == "none" {
		return
	}
	schedule, err := sim.ParseSchedule(s.options.schedule)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.world.Install(schedule); err != nil {
		t.Fatal(err)
	}
}

// node makes one, on a NIC of the simulated network if there is one.
func (s *storm) node(c Config) (*Node, error) {
	if s.world == nil {
		return New(c)
	}
	x, err := Carry(c, CyclePs, func(r smartnic.Receiver) (smartnic.NIC, error) {
		return s.world.Nodes()[c.Node].Attach(r)
	})
	if err != nil {
		return nil, err
	}
	return x.Node, nil
}

func (s *storm) client(node NodeID, tx directory.TX) *stormClient {
	i := slices.IndexFunc(s.clients, func(c *stormClient) bool {
		return c.running && c.ended == 0 && c.node == node && c.tx == tx
	})
	return s.clients[i]
}

// advance has a client do what comes next, and reports whether there was anything.
func (s *storm) advance(t *testing.T, c *stormClient) bool {
	t.Helper()
	n := s.nodes[c.node]
	switch {
	case c.ended != 0:
		s.end(c)
	case c.waits:
		return false
	case !c.running:
		if c.left == 0 {
			return false
		}
		if c.records == nil {
			s.program(c)
		}
		tx, ok := n.Begin(0)
		if !ok {
			return false
		}
		c.running, c.tx, c.next = true, tx, 0
		c.txn = c.recorder.Begin(s.now)
		if p := s.options.patience; p > 0 && c.failures >= p {
			c.waits = true
			n.Reserve(tx, s.reservations(c))
		}
	case c.next < len(c.records):
		s.access(t, c, n)
	case n.txs[c.tx].phase == validating:
		n.Validate(c.tx)
	default:
		if n.Commit(c.tx).Verdict == directory.Granted && c.ended == 0 {
			c.waits = n.txs[c.tx].phase == committing
		}
	}
	return true
}

// program draws what a transaction does.
func (s *storm) program(c *stormClient) {
	first, count := 0, len(s.records)
	if s.options.local {
		first, count = int(c.node)*s.options.records, s.options.records
	}
	for _, r := range s.draw.Perm(count)[:1+s.draw.IntN(min(3, count))] {
		c.records = append(c.records, first+r)
		c.writes = append(c.writes, s.draw.IntN(2) == 0)
	}
}

// reservations are the lines of a program, by node.
func (s *storm) reservations(c *stormClient) (set []Reservation) {
	for node := range NodeID(stormNodes) {
		r := Reservation{Node: node}
		for i, number := range c.records {
			x := &s.records[number]
			switch {
			case x.home != node:
			case c.writes[i]:
				r.Writes = append(r.Writes, x.lines...)
			default:
				r.Reads = append(r.Reads, x.lines...)
			}
		}
		if len(r.Reads)+len(r.Writes) > 0 {
			set = append(set, r)
		}
	}
	return set
}

// end records what became of an attempt.
func (s *storm) end(c *stormClient) {
	outcome := history.Aborted
	if c.ended == Committed {
		outcome = history.Committed
		c.left--
		c.records, c.writes, c.failures = nil, nil, 0
	} else {
		c.failures++
		c.worst = max(c.worst, c.failures)
	}
	s.ends[c.ended]++
	c.recorder.End(c.txn, s.now, outcome)
	c.running, c.waits, c.half, c.ended, c.txn = false, false, false, 0, nil
}

// access reads a record and writes it, perhaps; it may take several calls.
func (s *storm) access(t *testing.T, c *stormClient, n *Node) {
	t.Helper()
	r, write := &s.records[c.records[c.next]], c.writes[c.next]
	if c.half {
		s.write(c, n, r)
		return
	}
	var d [3]Data
	if r.home == c.node {
		if !s.local(c, n, r, write, d[:]) {
			return
		}
	} else {
		wanted := r.lines[1:]
		if write && s.options.hybrid {
			wanted = r.lines
		}
		if !n.Copy(c.tx, r.home, wanted[0], &d[0]) {
			n.Fetch(c.tx, r.home, wanted, write)
			c.waits = true
			return
		}
		n.Copy(c.tx, r.home, r.lines[1], &d[1])
		n.Copy(c.tx, r.home, r.lines[2], &d[2])
	}
	version, digest := binary.LittleEndian.Uint64(d[1][:]), binary.LittleEndian.Uint64(d[1][8:])
	torn := d[1] != d[2] // a doomed transaction may see that; the digest of a committed one gives it away
	if torn {
		digest ^= 1 << 63
	}
	key := history.Key(c.records[c.next])
	c.txn.Read(0, key, history.NewVersion(1, uint32(version+1)), history.Digest(digest))
	if write {
		version++
		digest = s.draw.Uint64() >> 1
		binary.LittleEndian.PutUint64(c.value[:], version)
		binary.LittleEndian.PutUint64(c.value[8:], digest)
		c.half, c.lines = true, 0
		s.write(c, n, r)
		return
	}
	c.next++
}

// write goes on with the lines of a record. A write of the own node may be denied in between: again, later.
func (s *storm) write(c *stormClient, n *Node, r *stormRecord) {
	for c.lines < 2 {
		line := r.lines[1+c.lines]
		switch {
		case r.home != c.node:
			n.Update(c.tx, r.home, line, 0, c.value[:])
		case s.options.hybrid:
			n.WriteRecord(c.tx, r.lines[0], line, 0, c.value[:])
		default:
			if n.Write(c.tx, line, 0, c.value[:]).Verdict != directory.Granted {
				return
			}
		}
		c.lines++
	}
	if r.home != c.node && s.options.hybrid {
		n.Advance(c.tx, r.home, r.lines[0], 0)
	}
	version, digest := binary.LittleEndian.Uint64(c.value[:]), binary.LittleEndian.Uint64(c.value[8:])
	c.txn.Write(0, history.Key(c.records[c.next]), history.NewVersion(1, uint32(version+1)), history.Digest(digest))
	c.half = false
	c.next++
}

// local reads a record of the own node, and reports whether that is done.
func (s *storm) local(c *stormClient, n *Node, r *stormRecord, write bool, d []Data) bool {
	if s.options.hybrid {
		return n.ReadRecord(c.tx, r.lines, d).Verdict == directory.Granted
	}
	for i, line := range r.lines[1:] {
		if n.Read(c.tx, line, &d[1+i]).Verdict != directory.Granted {
			return false // denied: again; squashed: over
		}
	}
	return true
}

// run goes on until every client is done, and checks the history.
func (s *storm) run(t *testing.T) *check.Result {
	t.Helper()
	if s.world != nil {
		s.runSimulated(t)
		return s.check(t)
	}
	const limit = 1_000_000
	var options []func()
	for {
		s.now++
		options = options[:0]
		for i := range s.queues {
			if len(s.queues[i]) > 0 {
				options = append(options, func() {
					m := s.queues[i][0]
					s.queues[i] = s.queues[i][1:]
					s.nodes[m.To].Receive(m)
				})
			}
		}
		for i := range s.steps {
			for at := range s.steps[i] {
				options = append(options, func() {
					x := s.steps[i][at]
					s.steps[i] = slices.Delete(s.steps[i], at, at+1)
					s.nodes[i].Run(x)
				})
			}
		}
		left := 0
		for _, c := range s.clients {
			left += c.left
			options = append(options, func() { s.advance(t, c) })
		}
		if left == 0 && len(options) == len(s.clients) {
			break
		}
		if s.now > limit {
			t.Fatalf("%d transactions are left after %d steps; ends: %v", left, limit, s.ends)
		}
		options[s.draw.IntN(len(options))]()
	}
	return s.check(t)
}

// runSimulated has each client look every 50 to 300 ns whether it can go on.
func (s *storm) runSimulated(t *testing.T) {
	t.Helper()
	for _, c := range s.clients {
		var turn func()
		turn = func() {
			s.now = int64(s.world.Now() / sim.Nanosecond)
			s.advance(t, c)
			if c.left > 0 || c.running {
				s.world.After(sim.Time(50+s.draw.IntN(250))*sim.Nanosecond, turn)
			}
		}
		s.world.After(0, turn)
	}
	if err := s.world.Run(); err != nil {
		t.Fatalf("%v; ends: %v", err, s.ends)
	}
}

func (s *storm) check(t *testing.T) *check.Result {
	t.Helper()
	for i, n := range s.nodes {
		if !n.Idle() {
			t.Errorf("node %d still has something of a transaction", i)
		}
	}
	var segments []*history.Segment
	for _, c := range s.clients {
		segment, err := c.recorder.Close()
		if err != nil {
			t.Fatal(err)
		}
		segments = append(segments, segment)
	}
	h, err := history.New(history.Names{Tables: []string{"records"}}, segments...)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	result, err := check.History(t.Context(), h, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// faults of the simulated network: links that are cut, late messages, a slow NIC.
const faults = "at 20us cut from=n0 to=n1 both=yes for=40us\nat 30us delay-rc from=* to=n2 by=7us times=40\n" +
	"at 90us partition groups=n0,n1|n2 for=50us\nat 200us slow-nic node=n1 factor=20000 for=60us\n" +
	"at 300us delay-rc from=n1 to=* by=3us times=200"

// TestStormsAreStrictlySerializable: storms on one record, with filters of which half of the answers are wrong, with
// lines that are evicted all the time, and with too few pairs of filters.
func TestStormsAreStrictlySerializable(t *testing.T) {
	for _, c := range []struct {
		name    string
		options stormOptions
		must    []End // ends that have to come up
	}{
		{"plain", stormOptions{records: 3, bits: 1 << 12, ways: 16, rounds: 60}, []End{LocalSquash, RemoteSquash}},
		{"one record", stormOptions{records: 1, bits: 1 << 12, ways: 16, rounds: 40}, []End{LocalSquash, RemoteSquash}},
		{"false positives", stormOptions{records: 3, bits: 8, ways: 16, rounds: 20}, []End{LocalSquash, RemoteSquash}},
		{"evictions", stormOptions{records: 8, bits: 1 << 12, ways: 6, rounds: 40, local: true}, []End{LocalSquash}},
		{"two pairs", stormOptions{records: 3, bits: 1 << 12, ways: 16, pairs: 2, rounds: 40}, []End{RemoteSquash}},
		{"patience", stormOptions{records: 1, bits: 1 << 12, ways: 16, rounds: 60, patience: 2}, []End{LocalSquash}},
		{"patience, false positives", stormOptions{records: 3, bits: 8, ways: 16, rounds: 40, patience: 1},
			[]End{RemoteSquash}},
		{"HADES-H, patience", stormOptions{hybrid: true, records: 1, bits: 1 << 12, ways: 16, rounds: 60, patience: 2},
			[]End{RemoteSquash}},
		{"HADES-H, patience, false positives", stormOptions{hybrid: true, records: 3, bits: 8, ways: 16, rounds: 40,
			patience: 1}, []End{RemoteSquash}},
		{"simulated", stormOptions{records: 3, bits: 1 << 12, ways: 16, rounds: 60, patience: 4, schedule: "none"},
			[]End{LocalSquash, RemoteSquash}},
		{"simulated, faults", stormOptions{records: 2, bits: 1 << 12, ways: 16, rounds: 60, patience: 4, schedule: faults},
			[]End{LocalSquash, RemoteSquash}},
		{"HADES-H, simulated, faults", stormOptions{hybrid: true, records: 2, bits: 1 << 12, ways: 16, rounds: 60,
			patience: 4, schedule: faults}, []End{RemoteSquash}},
		{"HADES-H", stormOptions{hybrid: true, records: 3, bits: 1 << 12, ways: 16, rounds: 60}, []End{RemoteSquash, Invalid}},
		{"HADES-H, one record", stormOptions{hybrid: true, records: 1, bits: 1 << 12, ways: 16, rounds: 40},
			[]End{RemoteSquash, LockFailed}},
		{"HADES-H, false positives", stormOptions{hybrid: true, records: 3, bits: 8, ways: 16, rounds: 20}, []End{RemoteSquash}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStorm(t, 1, c.options)
			result := s.run(t)
			if result.Verdict != check.Serializable {
				t.Errorf("%v", result)
			}
			if want := stormNodes * stormClients * c.options.rounds; s.ends[Committed] != want {
				t.Errorf("%d have committed, want %d", s.ends[Committed], want)
			}
			for _, x := range s.clients {
				if p := c.options.patience; p > 0 && x.worst > p {
					t.Errorf("a transaction has failed %d times, the last ones with everything locked", x.worst)
				}
			}
			for _, e := range c.must {
				if s.ends[e] == 0 {
					t.Errorf("no attempt was %v", e)
				}
			}
			evicted, mistaken := uint64(0), uint64(0)
			for _, n := range s.nodes {
				d := n.Directory().Stats()
				evicted += d.Squashes[directory.Evicted]
				mistaken += d.FalseConflicts + n.Stats().FalseConflicts
			}
			if (evicted > 0) != (c.options.ways < 16) || (mistaken > 0) != (c.options.bits < 1<<12) {
				t.Errorf("%d evictions, %d false conflicts", evicted, mistaken)
			}
			text := ""
			for e, n := range s.ends {
				if n > 0 {
					text += fmt.Sprintf("; %v: %d", End(e), n)
				}
			}
			t.Logf("%d steps%s", s.now, text)
		})
	}
}

// A mutation that takes three transactions: storms find it with any seed.
func TestStormsFindWhatTakesThreeTransactions(t *testing.T) {
	s := newStorm(t, 1, stormOptions{records: 2, bits: 1 << 12, ways: 16, rounds: 60, mutation: AnothersBitsCleared})
	if result := s.run(t); result.Verdict == check.Serializable {
		t.Error("the end of a transaction clears the filters of others, and nothing is wrong")
	}
}
