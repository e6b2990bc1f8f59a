package hardware

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// deafNode is one of two, which nobody hears.
func deafNode() Config {
	return Config{Nodes: 2, Directory: directory.Hades(5, 2), Memory: lines{}, Pool: &Pool{}, Hooks: Hooks{
		Send: func(*Message, int) {}, Later: func(Step, int) {}, Fetched: func(directory.TX, uint32) {},
		Ended: func(directory.TX, End) {}}, Filter: bloom.Plain()}
}

func TestImpossibleNodesAreRefusedInWords(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Node = 2 }, "number 2 of 2 nodes"},
		{func(c *Config) { c.Nodes = 0 }, "number 0 of 0 nodes"},
		{func(c *Config) { c.Pairs = -1 }, "-1 pairs of filters"},
		{func(c *Config) { c.Filter.Bits = 1000 }, "filters of the NIC: impossible Bloom filter: 1000 bits"},
		{func(c *Config) { c.Memory = nil }, "it lacks its memory"},
		{func(c *Config) { c.Cycles.Line = -1 }, "a NIC that takes"},
		{func(c *Config) { c.Hybrid = true }, "without the hook Acked"},
		{func(c *Config) { c.Hybrid, c.VersionAt, c.Hooks.Acked = true, 57, func(directory.TX) {} }, "at byte 57"},
		{func(c *Config) { c.Directory.TagBits = 1 }, "10 transactions and tags of 1 bits"},
	} {
		config := deafNode()
		c.change(&config)
		n, err := New(config)
		if n != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if !errors.Is(err, ErrConfig) && !errors.Is(err, directory.ErrConfig) {
			t.Errorf("%v is of no known kind", err)
		}
	}
}

// §VI: a NIC has as many pairs of filters as transactions may come. Whoever finds none is squashed, and nothing of
// it stays.
func TestARequestWithoutAFreePairSquashes(t *testing.T) {
	p := place{homes: []NodeID{0, 0}, cores: [2]NodeID{1, 2}, nodes: 3}
	w := newWorld(t, p, [2][]op{program("Rb"), program("Ra")}, 0, 0)
	n := w.nodes[0]
	for i := range n.pairs { // all but one are taken
		n.pairs[i].used = i > 0
	}
	for i := range w.clients {
		w.advance(i)
		for options := w.choices(nil); len(options) > 0 && options[0].kind != 'c'; options = w.choices(nil) {
			w.do(options[0])
		}
	}
	if !slices.Equal(w.clients[1].told, []End{RemoteSquash}) || n.Stats().Exhausted != 1 {
		t.Errorf("the second one was told %v, %+v", w.clients[1].told, n.Stats())
	}
	if len(w.clients[0].told) != 0 {
		t.Errorf("the first one was told %v", w.clients[0].told)
	}
}

// Only lines that are written in part are fetched for a write, and only written lines travel at the commit.
func TestMessagesCarryWhatTableIISays(t *testing.T) {
	p := place{homes: []NodeID{1, 1, 1}, cores: [2]NodeID{0, 0}, nodes: 2}
	w := newWorld(t, p, [2][]op{program("Ra Pb Fc"), program("Ra")}, 0, 0)
	var sent []string
	for w.clients[0].told == nil {
		for _, q := range w.queues {
			for _, m := range q {
				sent = append(sent, m.String())
			}
		}
		options := w.choices(nil)
		if options[0].kind == 'c' {
			options[0].index = 0
		}
		w.do(options[0])
	}
	for _, m := range w.queues[1] {
		sent = append(sent, m.String())
	}
	want := []string{
		"Read of {0 0 1} from 0 to 1, lines [1]", "Fetched of {0 0 1} from 1 to 0, lines [1]",
		"Write-fetch of {0 0 1} from 0 to 1, lines [4]", "Fetched of {0 0 1} from 1 to 0, lines [4]",
		"Intend-to-commit of {0 0 1} from 0 to 1, lines [4 7]", "Ack of {0 0 1} from 1 to 0, lines []",
		"Validation of {0 0 1} from 0 to 1, lines [4 7]"}
	if !slices.Equal(sent, want) {
		t.Errorf("sent:\n%s", strings.Join(sent, "\n"))
	}
}

// A node does not allocate once its lists have grown: transactions with local and remote lines, both ways.
func TestTransactionsAllocateNothing(t *testing.T) {
	for _, hybrid := range []bool{false, true} {
		t.Run(map[bool]string{false: "HADES", true: "HADES-H"}[hybrid], func(t *testing.T) { allocateNothing(t, hybrid) })
	}
}

func allocateNothing(t *testing.T, hybrid bool) {
	t.Helper()
	var queue []*Message
	var steps []Step
	var pool Pool
	nodes := make([]*Node, 2)
	var ended int
	var acked directory.TX
	for i := range nodes {
		l := lines{}
		n, err := New(Config{Node: NodeID(i), Nodes: 2, Directory: directory.Hades(2, 2), Memory: l, Pool: &pool,
			Hybrid: hybrid,
			Hooks: Hooks{Send: func(m *Message, _ int) { queue = append(queue, m) },
				Later:   func(s Step, _ int) { steps = append(steps, s) },
				Fetched: func(directory.TX, uint32) {}, Acked: func(tx directory.TX) { acked = tx },
				Ended: func(_ directory.TX, e End) {
					if e == Committed {
						ended++
					}
				}}})
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = n
	}
	settle := func() {
		for len(queue)+len(steps) > 0 {
			if len(queue) > 0 {
				m := queue[0]
				queue = queue[:copy(queue, queue[1:])]
				nodes[m.To].Receive(m)
				continue
			}
			s := steps[0]
			steps = steps[:copy(steps, steps[1:])]
			nodes[s.m.To].Run(s)
		}
	}
	bytes, wanted, d := make([]byte, 64), []bloom.Line{7, 8}, &Data{}
	record, data := []bloom.Line{1, 2}, make([]Data, 2)
	once := func() {
		for i, n := range nodes {
			tx, _ := n.Begin(0)
			if hybrid {
				n.ReadRecord(tx, record, data)
				n.WriteRecord(tx, record[0], record[1], 8, bytes[:8])
			} else {
				n.Read(tx, 1, d)
				n.Write(tx, 2, 8, bytes[:8])
			}
			n.Fetch(tx, NodeID(1-i), wanted, false)
			settle()
			n.Update(tx, NodeID(1-i), 7, 0, bytes[:8])
			n.Update(tx, NodeID(1-i), 9, 0, bytes)
			n.Commit(tx)
			settle()
			if hybrid {
				n.Validate(acked)
				settle()
			}
		}
	}
	once()
	if n := testing.AllocsPerRun(50, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if ended != 2*52 || !nodes[0].Idle() || !nodes[1].Idle() {
		t.Errorf("%d of %d have committed", ended, 2*52)
	}
}

// TestLivesAndAttemptsAreBounded: an ID counts 64 lives and 67,108,863 attempts of each. More are refused: they would be
// taken for those of another life.
func TestLivesAndAttemptsAreBounded(t *testing.T) {
	config := deafNode()
	config.Life = MaxLife + 1
	if _, err := New(config); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "life 64 of node 0") {
		t.Errorf("%v", err)
	}
	config.Life = MaxLife
	last, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	last.attempts += MaxAttempts - 1
	tx, ok := last.Begin(0)
	if id := last.ID(tx); !ok || id.Life() != MaxLife || id.Number() != MaxAttempts {
		t.Errorf("%v, %+v of life %d, number %d", ok, id, id.Life(), id.Number())
	}
	last.Abort(tx)
	if _, ok := last.Begin(0); ok || !last.Spent() {
		t.Error("an attempt begins whose number is another life's")
	}
}

// replicas keeps nothing; it notes what it is told of the oldest attempt.
type replicas struct{ oldest []uint32 }

func (r *replicas) Keep(ID, []byte)                {}
func (r *replicas) Apply(_ ID, oldest uint32) bool { r.oldest = append(r.oldest, oldest); return true }

// TestATruncateNamesTheOldestRecord: of transactions whose records are kept or not applied everywhere, and what begins next
// if there is none.
func TestATruncateNamesTheOldestRecord(t *testing.T) {
	config := deafNode()
	var sent []*Message
	config.Hooks.Send = func(m *Message, _ int) { sent = append(sent, m) }
	config.Hooks.Mail, config.Hooks.Settled, config.Hooks.Marked = func(NodeID, []byte) {}, func() {}, func(Kind) {}
	config.Replicas = &replicas{}
	n, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	var ids []ID
	for core := range 2 {
		tx, ok := n.Begin(core)
		if !ok {
			t.Fatal("no transaction begins")
		}
		ids = append(ids, n.ID(tx))
		n.Replicate(tx, []Copy{{Node: 1, Body: []byte{1}}})
		n.Commit(tx)
	}
	done := func(id ID, k Kind) {
		n.Receive(&Message{Kind: Done, From: 1, To: 0, ID: id, Request: uint32(k)})
	}
	truncates := func() (list []uint32) {
		for _, m := range sent {
			if m.Kind == Truncate {
				list = append(list, m.Request)
			}
		}
		return list
	}
	done(ids[1], Persist) // the second is kept first
	done(ids[0], Persist)
	if got, want := truncates(), []uint32{ids[0].Attempt, ids[0].Attempt}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	done(ids[0], Truncate)
	if got := n.oldest(); got != ids[1].Attempt {
		t.Errorf("the oldest is %d, want %d", got, ids[1].Attempt)
	}
	done(ids[1], Truncate)
	if got := n.oldest(); got != ids[1].Attempt+1 {
		t.Errorf("the oldest is %d, want %d", got, ids[1].Attempt+1)
	}
}

// TestTheOldestMayStillPersist: a Truncate may arrive late, when what executes now has a record somewhere.
func TestTheOldestMayStillPersist(t *testing.T) {
	config := deafNode()
	config.Hooks.Mail, config.Hooks.Settled, config.Hooks.Marked = func(NodeID, []byte) {}, func() {}, func(Kind) {}
	config.Replicas = &replicas{}
	n, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	slow, _ := n.Begin(0)
	fast, _ := n.Begin(1)
	id := n.ID(slow)
	n.Replicate(fast, []Copy{{Node: 1, Body: []byte{1}}})
	n.Commit(fast)
	if got := n.oldest(); got > id.Attempt {
		t.Errorf("the oldest is %d, and attempt %d, which may still persist, is older", got, id.Attempt)
	}
}
