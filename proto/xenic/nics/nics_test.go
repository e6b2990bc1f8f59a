package nics

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/proto/check"
	"drtmd/store/nicindex"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// some draws a transaction of one to four records of any shard, of which about half are written: by a function, or by the
// host.
func (c *rigConfig) some(random *rand.Rand) *Call {
	call := &Call{}
	taken := map[Ref]bool{}
	for range 1 + random.IntN(4) {
		r := c.key(random.IntN(c.nodes), random.IntN(c.keys))
		if !taken[r] {
			taken[r] = true
			call.Accesses = append(call.Accesses, Access{Ref: r, Write: random.IntN(2) == 0})
		}
	}
	call.Argument = binary.LittleEndian.AppendUint64(nil, random.Uint64())
	if random.IntN(5) == 0 { // several rounds: by a function, or by the host
		call.Accesses = []Access{{Ref: call.Accesses[0].Ref, Write: false}}
		call.Argument = binary.LittleEndian.AppendUint64(call.Argument, call.Accesses[0].Key)
		if call.Function = 2; random.IntN(2) == 0 {
			call.Function = 0
			call.Body = func(values []Value) Step { return c.follow(values, call.Argument) }
		}
		return call
	}
	if random.IntN(3) > 0 {
		call.Function = 1
		return call
	}
	refuse := random.IntN(8) == 0
	call.Body = func(values []Value) Step {
		if refuse {
			return Step{Ends: Aborts}
		}
		return mix(values, call.Argument)
	}
	return call
}

// everything are the combinations of the four switches that the tests run.
func everything() map[string]rigConfig {
	all := Options{Caching: true, Shipping: true, MultiHop: true}
	return map[string]rigConfig{
		"everything on":         {options: all},
		"nothing on":            {batching: smartnic.Separate},
		"without caching":       {options: Options{Shipping: true, MultiHop: true}},
		"without batching":      {options: all, batching: smartnic.Separate},
		"without shipping":      {options: Options{Caching: true}},
		"without multi-hop":     {options: Options{Caching: true, Shipping: true}},
		"separate requests":     {options: Options{Caching: true, Shipping: true, MultiHop: true, Separate: true}, blocking: true},
		"two replicas":          {options: all, replicas: 2, nodes: 4},
		"one replica":           {options: all, replicas: 1, nodes: 2},
		"little NIC memory":     {options: all, keys: 150},
		"short logs":            {options: all, logBytes: 1024},
		"large values":          {options: all, valueBytes: 300, logBytes: 1 << 14},
		"late and cut networks": {options: all, schedule: "at 20us cut from=n0 to=n1 both=yes for=50us\nat 0ns delay-rc from=* to=n2 by=5us times=50"},
		"slow NICs":             {options: all, schedule: "at 10us slow-nic node=n1 factor=9000 for=200us"},
		"a NIC that pauses":     {options: all, pause: 150 * sim.Microsecond},
		"a full cache of pins":  {options: all, keys: 150, schedule: "at 15us pause node=n1 for=300us"},
		"a host that stands still": {options: all, logBytes: 1024,
			schedule: "at 15us pause node=n1 for=300us"},
	}
}

func (r *rig) load(clients, transactions int) {
	for node := range r.machines {
		for range clients {
			r.client(node, transactions, r.c.some)
		}
	}
}

// TestTransactionsAreStrictlySerializable: random transactions on records that many want, with each switch off, with
// little room, and under faults; the history is checked, and the replicas are equal at the end.
func TestTransactionsAreStrictlySerializable(t *testing.T) {
	for name, c := range everything() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				c.seed = seed
				r := newRig(t, c)
				r.load(4, 30)
				result := r.run()
				if result.Verdict != check.Serializable {
					t.Fatalf("seed %d: %v", seed, result)
				}
				must(t, r.audit())
				if r.ended[Committed] < 20 {
					t.Errorf("seed %d: %v", seed, r.ended)
				}
			}
		})
	}
}

// skew draws a transaction that reads a record of the own shard and writes one of another.
func (c *rigConfig) skew(node int) func(random *rand.Rand) *Call {
	return func(random *rand.Rand) *Call {
		other := (node + 1 + random.IntN(c.nodes-1)) % c.nodes
		return &Call{Function: 1, Argument: binary.LittleEndian.AppendUint64(nil, random.Uint64()),
			Accesses: []Access{{Ref: c.key(node, random.IntN(c.keys)), Write: false}, {Ref: c.key(other, random.IntN(c.keys)), Write: true}}}
	}
}

// TestRefusalsAreOfOneMoment: who reads records one after the other, and then refuses, has read them at one moment, or is told
// to try again.
func TestRefusalsAreOfOneMoment(t *testing.T) {
	const rounds = 6
	for seed := range uint64(4) {
		write := seed >= 2 // what it reads is declared to be written, and is not locked before the commit
		r := newRig(t, rigConfig{keys: rounds, seed: seed, options: Options{Caching: write, Separate: write}})
		c := &r.c
		last := c.key(1, rounds-1)
		for node := range r.machines {
			r.client(node, 100, func(random *rand.Rand) *Call {
				if random.IntN(2) == 0 {
					return &Call{Function: 1, Argument: make([]byte, 8), Accesses: []Access{{Ref: c.key(1, 0), Write: true}, {Ref: last, Write: true}}}
				}
				return &Call{Accesses: []Access{{Ref: c.key(1, 0), Write: write}}, Body: func(values []Value) Step {
					if n := len(values); n < rounds {
						return Step{More: []Access{{Ref: c.key(1, n), Write: write}}}
					}
					return Step{Ends: Aborts}
				}}
			})
		}
		if result := r.run(); result.Verdict != check.Serializable {
			t.Errorf("seed %d: %v", seed, result)
		}
		must(t, r.audit())
		if r.ended[Refused] < 10 || r.ended[Committed] < 10 {
			t.Errorf("seed %d: %v", seed, r.ended)
		}
	}
}

// TestEachMutationIsFound by the check of the history, by the audit of replicas, or when a client is told too early.
func TestEachMutationIsFound(t *testing.T) {
	all := Options{Caching: true, Shipping: true, MultiHop: true}
	shipped := Options{Caching: true, Shipping: true}
	late := "at 10us pause node=n1 for=100us\nat 150us pause node=n2 for=100us"
	// Seeds are the first that find a mutation.
	for m, c := range map[Mutation]rigConfig{
		ValidateSkipped:     {options: shipped, keys: 3, seed: 6},
		ValidateIgnoresLock: {options: shipped, keys: 3, seed: 36},
		LockAfterRead:       {options: shipped, keys: 3},
		LogUnawaited:        {options: all, holds: true},
		LogUnordered:        {options: all, holds: true},
		CommittedEarly:      {options: shipped},
		ApplyOlder:          {options: shipped, keys: 1, schedule: late, seed: 7},
		AnswerExecutor:      {options: all},
		LocalUnlocked:       {options: all, keys: 1},
		LogsOfOneShard:      {options: all},
		LockIgnoresVersion:  {options: Options{Caching: true, Shipping: true, Separate: true}, keys: 3},
	} {
		t.Run(m.String(), func(t *testing.T) {
			for _, x := range []Mutation{0, m} {
				c.mutation = x
				what := ""
				c := c
				for first := c.seed; c.seed < first+60 && what == ""; c.seed++ {
					if x == 0 && c.seed > first {
						break // as it should be
					}
					r := newRig(t, c)
					if m == LocalUnlocked {
						for node := range r.machines {
							r.client(node, 60, r.c.skew(node))
						}
					} else {
						r.load(4, 30)
					}
					if result := r.run(); result.Verdict != check.Serializable {
						what = result.Verdict.String()
					} else if err := r.audit(); err != nil {
						what = err.Error()
					} else {
						what = r.early
					}
					if what != "" && m == x {
						t.Logf("seed %d: %v", c.seed, what)
					}
				}
				if (what != "") != (x != 0) {
					t.Errorf("with mutation %v: %q", x, what)
				}
			}
		})
	}
}

// TestEachMutationOfTheIndexIsFound where little NIC memory has records evicted while a host stands still.
func TestEachMutationOfTheIndexIsFound(t *testing.T) {
	all := Options{Caching: true, Shipping: true, MultiHop: true}
	for m, first := range map[nicindex.Mutation]uint64{0: 10, nicindex.EvictPinned: 10, nicindex.Unpinned: 10} {
		t.Run(m.String(), func(t *testing.T) {
			for seed := first; seed < first+40; seed++ {
				r := newRig(t, rigConfig{options: all, keys: 90, index: m, seed: seed, logBytes: 1 << 15, schedule: "at 15us pause node=n1 for=300us"})
				r.load(4, 60)
				found := r.run().Verdict != check.Serializable
				if m == 0 && found {
					t.Fatalf("seed %d: without a mutation", seed)
				}
				if m == 0 || found {
					t.Logf("seed %d", seed)
					return
				}
			}
			t.Error("it is not found")
		})
	}
}

// TestMessagesOfACommit (Figure 7): a transaction that writes a record of the own shard and one of another, with three
// replicas, takes 12 messages and four delays until the client knows; executed at the other node 11 and three.
func TestMessagesOfACommit(t *testing.T) {
	for _, x := range []struct {
		name             string
		hop              bool
		messages, delays int
	}{{"executed at the coordinator", false, 12, 4}, {"executed at the other node", true, 11, 3}} {
		t.Run(x.name, func(t *testing.T) {
			const far = 50 * sim.Microsecond // so that nothing else counts
			r := newRig(t, rigConfig{nodes: 6, options: Options{Caching: true, Shipping: true, MultiHop: x.hop}, cable: far / 2})
			var took sim.Time
			m := r.machines[0]
			m.worker.Submit("client", func(f *fiber.Fiber) error {
				begin := r.world.Now()
				result, err := m.host.Run(f, &Call{Function: 1, Argument: make([]byte, 8),
					Accesses: []Access{{Ref: r.c.key(0, 0), Write: true}, {Ref: r.c.key(3, 0), Write: true}}})
				took = r.world.Now() - begin
				if result.Status != Committed {
					t.Error(result.Status)
				}
				return err
			}, nil)
			must(t, r.world.Run())
			messages := uint64(0)
			for _, m := range r.machines {
				messages += m.nic.Stats.Requests
			}
			if int(messages) != x.messages || int(took/far) != x.delays {
				t.Errorf("%d messages, %v: %d delays", messages, took, took/far)
			}
			must(t, r.audit())
		})
	}
}

// TestAHostThatStoodStillAppliesInParts: what it tells its NIC of fits into messages, however much its log has.
func TestAHostThatStoodStillAppliesInParts(t *testing.T) {
	const records, transactions = 200, 45
	r := newRig(t, rigConfig{keys: records, cores: 1, valueBytes: 8, logBytes: 1 << 19, budget: 1 << 20,
		options: Options{Shipping: true}, schedule: "at 1us pause node=n1 for=20ms"})
	r.client(0, transactions, func(*rand.Rand) *Call {
		c := &Call{Function: 1, Argument: make([]byte, 8)}
		for i := range records {
			c.Accesses = append(c.Accesses, Access{Ref: r.c.key(1, i), Write: true})
		}
		return c
	})
	if result := r.run(); result.Verdict != check.Serializable || r.ended[Committed] != transactions {
		t.Error(result, r.ended)
	}
	must(t, r.audit())
}

// TestWhatCannotBeCalledIsRefusedInWords.
func TestWhatCannotBeCalledIsRefusedInWords(t *testing.T) {
	r := newRig(t, rigConfig{})
	m := r.machines[0]
	m.worker.Submit("client", func(f *fiber.Fiber) error {
		_, err := m.host.Run(f, &Call{Function: 9})
		if !errors.Is(err, ErrFunction) || !strings.Contains(err.Error(), "function 9") {
			t.Error(err)
		}
		for _, c := range []Call{{}, {Function: 1, Accesses: make([]Access, MaxAccesses+1)},
			{Function: 1, Argument: make([]byte, MaxBytes+1)}} {
			if _, err := m.host.Run(f, &c); !errors.Is(err, ErrCall) {
				t.Error(err)
			}
		}
		return nil
	}, nil)
	must(t, r.world.Run())
	for _, c := range []Config{{Nodes: 3, Replicas: 4}, {Nodes: 3}} {
		if _, err := New(c); !errors.Is(err, ErrReplicas) {
			t.Error(err)
		}
	}
	_, err := New(Config{Nodes: 1, Replicas: 1, Tables: []TableConfig{{Config: r.c.table(), Budget: 100}}})
	if !errors.Is(err, nicindex.ErrBudget) {
		t.Error(err)
	}
}

// TestAFunctionThatTheTargetLacksIsRefused: the coordinator is told which reason it is, and no lock is left at either node.
func TestAFunctionThatTheTargetLacksIsRefused(t *testing.T) {
	r := newRig(t, rigConfig{nodes: 6, options: Options{Caching: true, Shipping: true, MultiHop: true}})
	delete(r.machines[3].nic.cfg.Functions, 1)
	m := r.machines[0]
	m.worker.Submit("client", func(f *fiber.Fiber) error {
		for _, x := range []struct {
			shard int // of the other record
			want  Status
		}{{3, NoFunction}, {4, Committed}} {
			result, err := m.host.Run(f, &Call{Function: 1, Argument: make([]byte, 8),
				Accesses: []Access{{Ref: r.c.key(0, 0), Write: true}, {Ref: r.c.key(x.shard, 0), Write: true}}})
			if err != nil {
				return err
			}
			if result.Status != x.want {
				t.Errorf("with shard %d: %v, not %v", x.shard, result.Status, x.want)
			}
		}
		return nil
	}, nil)
	must(t, r.world.Run())
	for i, m := range r.machines {
		if owed := m.nic.Owed(); owed != 0 {
			t.Errorf("the NIC of node %d owes %d", i, owed)
		}
		for _, s := range m.nic.shards {
			if s != nil && s.indexes[0].Stats.Locked != 0 {
				t.Errorf("%d records are locked at node %d", s.indexes[0].Stats.Locked, i)
			}
		}
	}
	must(t, r.audit())
}

// TestRecordsComeAndGo: absent records are inserted, by a function or by the host, and a deletion leaves room: the same few records come and go
// more often than the table has room for them.
func TestRecordsComeAndGo(t *testing.T) {
	for _, o := range []Options{{}, {Caching: true, Shipping: true, MultiHop: true}} {
		r := newRig(t, rigConfig{options: o, keys: 6})
		for node := range r.machines {
			r.client(node, 150, func(random *rand.Rand) *Call {
				k := r.c.key(random.IntN(r.c.nodes), r.c.keys+random.IntN(40))
				other := r.c.key(random.IntN(r.c.nodes), random.IntN(r.c.keys))
				c := &Call{Function: 3, Argument: binary.LittleEndian.AppendUint64(nil, random.Uint64()),
					Accesses: []Access{{Ref: k, Write: true, Insert: true}, {Ref: other, Write: random.IntN(2) == 0}}}
				if random.IntN(2) == 0 {
					c.Function, c.Body = 0, func(values []Value) Step { return comeAndGo(values, c.Argument) }
				}
				return c
			})
		}
		if result := r.run(); result.Verdict != check.Serializable || r.ended[Committed] < 50 {
			t.Errorf("%v: %v, %v", o, result, r.ended)
		}
		must(t, r.audit())
		for i, m := range r.machines {
			entries := 0
			m.tables[i].Each(func(int) bool { entries++; return true })
			if n := m.nic.shards[m.nic.cfg.Node].records[0]; n.inserted != 0 || entries != n.entries {
				t.Errorf("node %d: its NIC knows %+v, and its table has %d entries", i, n, entries)
			}
		}
	}
}

// TestAFullTableTakesNoMore, and says so.
func TestAFullTableTakesNoMore(t *testing.T) {
	const room = 20
	r := newRig(t, rigConfig{keys: 8, room: room})
	m := r.machines[0]
	inserted := 0
	m.worker.Submit("client", func(f *fiber.Fiber) error {
		for i := range 3 * room {
			result, err := m.host.Run(f, &Call{Accesses: []Access{{Ref: r.c.key(1, 100+i), Write: true, Insert: true}}, Body: func(v []Value) Step {
				return Step{Writes: []Write{{Put, make([]byte, r.c.valueBytes)}}}
			}})
			if err != nil {
				return err
			}
			if result.Status == Committed {
				inserted++
			} else if result.Status != NoRoom {
				t.Error(result.Status)
			}
		}
		return nil
	}, nil)
	must(t, r.world.Run())
	if inserted != room-8 {
		t.Errorf("%d records were inserted", inserted)
	}
}

// TestBytesOfAPeerAreNoPanic: messages that no NIC sends, or that come twice, are counted, and nothing is done; a body that
// does not say what becomes of its records is refused in words, and leaves no lock.
func TestBytesOfAPeerAreNoPanic(t *testing.T) {
	r := newRig(t, rigConfig{options: Options{Caching: true, Shipping: true, MultiHop: true}})
	c, ref := r.machines[0].cores[0], r.c.key(1, 500) // nobody else wants it
	wrong := []Update{{Ref{200, 1}, Value{1 << 32, nil}}}
	short := []Update{{ref, Value{1<<32 + 2, []byte{1}}}}
	sent := 0
	r.machines[0].cores[0].Worker().Go("peer", nil, func(*fiber.Fiber) error {
		for kind := msgExecute; kind <= msgReturned; kind++ {
			for _, e := range []*encoder{{}, message(1).u8(9), message(1).accesses([]Access{{Ref: Ref{77, 0}, Write: true}}),
				message(1).updates(wrong), message(1).u16(9).u16(9).updates(nil).bytes(nil), message(1).updates(short)} {
				sent++
				c.Send(1, 0, kind, e.b)
			}
		}
		c.Send(1, 0, msgCommit, message(1).updates([]Update{{ref, Value{1<<32 + 1, make([]byte, r.c.valueBytes)}}}).b)
		c.Send(1, 0, msgShip, message(1).u16(77).bytes(nil).accesses(nil).values(nil).b)
		return nil
	})
	m := r.machines[0]
	m.worker.Submit("client", func(f *fiber.Fiber) error {
		for _, w := range [][]Write{{{Put, make([]byte, r.c.valueBytes)}}, {{}, {}, {}}} {
			result := Result{Status: Locked} // for as long as the transaction before is given back
			var err error
			for err == nil && result.Status == Locked {
				result, err = m.host.Run(f, &Call{Accesses: []Access{{Ref: ref, Write: true, Insert: true}, {Ref: r.c.key(2, 500), Write: true, Insert: true}},
					Body: func([]Value) Step { return Step{Writes: w} }})
			}
			if !errors.Is(err, ErrCall) {
				t.Error(err)
			}
		}
		for _, w := range [][]Write{{{Put, []byte{1}}, {}}, {{9, nil}, {}}} {
			result := Result{Status: Locked} // for as long as the transaction before is given back
			var err error
			for err == nil && result.Status == Locked {
				result, err = m.host.Run(f, &Call{Accesses: []Access{{Ref: ref, Write: true, Insert: true}, {Ref: r.c.key(2, 500), Write: true, Insert: true}},
					Body: func([]Value) Step { return Step{Writes: w} }})
			}
			if err != nil || result.Status != Broken {
				t.Error(result.Status, err)
			}
		}
		return nil
	}, nil)
	r.load(2, 10)
	if result := r.run(); result.Verdict != check.Serializable {
		t.Error(result)
	}
	must(t, r.audit())
	if n := r.machines[1].nic.Stats.Malformed; n < uint64(sent)/3 {
		t.Errorf("%d of %d messages were malformed", n, sent)
	}
}

// TestAnUpdateThatCannotBeAppliedStopsItsHost with an error that says why.
func TestAnUpdateThatCannotBeAppliedStopsItsHost(t *testing.T) {
	r := newRig(t, rigConfig{keys: 8, nodes: 2, replicas: 1, blocks: 1})
	m := r.machines[0]
	m.worker.Submit("client", func(f *fiber.Fiber) error {
		for i := range 300 {
			_, err := m.host.Run(f, &Call{Accesses: []Access{{Ref: r.c.key(1, 100+i), Write: true, Insert: true}}, Body: func(v []Value) Step {
				return Step{Writes: []Write{{Put, make([]byte, r.c.valueBytes)}}}
			}})
			if err != nil || r.machines[1].host.Trouble() != nil {
				return err
			}
		}
		return nil
	}, nil)
	must(t, r.world.Run())
	if err := r.machines[1].host.Trouble(); !errors.Is(err, ErrApply) || !strings.Contains(err.Error(), `table "records"`) {
		t.Error(err)
	}
}
