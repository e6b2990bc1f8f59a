package nics

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"drtmd/htm"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/store/nicindex"
	"drtmd/store/robinhood"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lines"
	"drtmd/verbs/lineword"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rigConfig is a cluster and what runs on it.
type rigConfig struct {
	nodes, replicas, cores int
	keys                   int // of each shard
	valueBytes             int
	logBytes               int
	budget                 int // of NIC memory beyond the least
	options                Options
	batching               smartnic.Batching
	blocking               bool // DMAs
	mutation               Mutation
	index                  nicindex.Mutation
	seed                   uint64
	schedule               string
	cable                  sim.Time // latency; 0: the preset's
	pause                  sim.Time // of node 1's NIC
	room                   int      // of a table
	blocks                 int      // of a table, for what overflows; 0: enough
	holds                  bool     // for a while somebody has the lines of node 1's logs locked
}

func (c rigConfig) filled() rigConfig {
	fill := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	fill(&c.nodes, 3)
	fill(&c.replicas, 3)
	fill(&c.cores, 2)
	fill(&c.keys, 12)
	fill(&c.valueBytes, 40)
	fill(&c.logBytes, 1<<13)
	return c
}

// machine is a node: its NIC with some cores, and one thread of its host.
type machine struct {
	nic    *NIC
	host   *Host
	worker *fiber.Worker
	board  *sim.Board
	cores  []*smartnic.Core
	runs   []*fiber.Core
	tables []*robinhood.Table // by shard; nil: no replica
	record *history.Recorder
	views  []*log.View // of the logs
	ctx    *verbs.Context
	memory *verbs.MR
	logsAt int
	yard   Yard
}

type rig struct {
	t        *testing.T
	c        rigConfig
	world    *sim.World
	machines []*machine
	random   *rand.Rand
	ended    map[Status]int
	early    string // what a client was told too early
}

func (c *rigConfig) table() robinhood.Config {
	t := robinhood.ForLoad(1, "records", c.valueBytes, c.keys, 90, 4)
	if c.blocks > 0 {
		t.Blocks = c.blocks
	}
	return t
}

// key is record number i of a shard.
func (c *rigConfig) key(shard, i int) Ref { return Ref{Key: uint64(i*c.nodes + shard)} }

func (c *rigConfig) shard(r Ref) int { return int(r.Key) % c.nodes }

// mix is what function 1 makes of a record: everything of it depends on what all records were.
func mix(values []Value, argument []byte) (s Step) {
	sum := layout.Hash(binary.LittleEndian.Uint64(argument))
	for _, v := range values {
		sum = layout.Hash(sum ^ binary.LittleEndian.Uint64(v.Bytes))
	}
	for i, v := range values {
		w := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, layout.Hash(sum+uint64(i))), len(v.Bytes)/8+1)
		s.Writes = append(s.Writes, Write{Put, w[:len(v.Bytes)]})
	}
	s.Result = binary.LittleEndian.AppendUint64(nil, sum)
	return s
}

func newRig(t *testing.T, c rigConfig) *rig {
	t.Helper()
	c = c.filled()
	cost, err := sim.Preset("liquidio3")
	must(t, err)
	if c.cable > 0 {
		cost.Link.Propagation = c.cable
	}
	world, err := sim.New(sim.Config{Seed: c.seed, Cost: cost, EventLimit: 50_000_000})
	must(t, err)
	r := &rig{t: t, c: c, world: world, random: rand.New(rand.NewPCG(c.seed, 1)), ended: map[Status]int{}}
	for range c.nodes {
		n, err := world.AddNode(sim.NodeConfig{})
		must(t, err)
		m := &machine{}
		r.machines = append(r.machines, m)
		t.Cleanup(func() { m.stop(t) })
		r.boot(m, n)
	}
	schedule, err := sim.ParseSchedule(c.schedule)
	must(t, err)
	must(t, world.Install(schedule))
	if c.pause > 0 {
		world.At(12*sim.Microsecond, func() { r.machines[1].board.Pause(c.pause) })
	}
	if c.holds {
		r.hold(r.machines[1])
	}
	return r
}

func (m *machine) stop(t *testing.T) {
	for _, run := range m.runs {
		run.Kill()
		must(t, run.Close())
	}
	must(t, m.ctx.Close())
}

func (r *rig) boot(m *machine, n *sim.Node) {
	t, c := r.t, &r.c
	var err error
	m.ctx, err = n.Open()
	must(t, err)
	pd, err := m.ctx.AllocPD()
	must(t, err)
	config := c.table()
	memory, err := pd.AllocMR(c.replicas*config.Bytes()+c.cores*log.Bytes(c.logBytes), verbs.AccessLocalWrite,
		verbs.MROptions{LineOwners: 1})
	must(t, err)
	m.memory, m.logsAt = memory, c.replicas*config.Bytes()
	owner, err := memory.ClaimLineOwner()
	must(t, err)
	view := htm.NewMemory(memory.Bytes(), memory.Lines(), owner.Slot, owner.Journal)
	tables := make([][]*robinhood.Table, c.nodes)
	m.tables = make([]*robinhood.Table, c.nodes)
	for i := range c.replicas {
		shard := (n.Index() - i + c.nodes) % c.nodes
		table, err := robinhood.Format(config, view, i*config.Bytes())
		must(t, err)
		for k := range c.keys {
			must(t, table.Load(c.key(shard, k).Key, initial(c.key(shard, k), c.valueBytes)))
		}
		tables[shard], m.tables[shard] = []*robinhood.Table{table}, table
	}
	m.board, err = n.AttachBoard()
	must(t, err)
	worker := func(tl *sim.Timeline) *fiber.Worker {
		run := fiber.NewCore(tl)
		m.runs = append(m.runs, run)
		w, err := run.NewWorker(fiber.WorkerConfig{Name: "test", PD: pd})
		must(t, err)
		return w
	}
	var places []LogPlace
	var logs []HostLog
	for i := range c.cores {
		at := c.replicas*config.Bytes() + i*log.Bytes(c.logBytes)
		l, err := log.Format(memory.Bytes()[at:at+log.Bytes(c.logBytes)], log.Config{Generation: 7})
		must(t, err)
		logs = append(logs, HostLog{l, at, i})
		beside, err := log.NewView(lines.Plain(memory.Bytes()[at : at+log.Bytes(c.logBytes)]))
		must(t, err)
		m.views = append(m.views, beside)
		places = append(places, LogPlace{at, c.logBytes, 7})
		core, err := smartnic.NewCore(worker(m.board.Timeline(i)), m.board,
			smartnic.CoreConfig{Node: n.Index(), Index: i, Batching: c.batching, Blocking: c.blocking})
		must(t, err)
		m.cores = append(m.cores, core)
	}
	plain := func(run func([]Value, []byte) Step) func([]Access, []Value, []byte) Step {
		return func(_ []Access, values []Value, argument []byte) Step { return run(values, argument) }
	}
	functions := map[uint16]Function{1: {HostPs: 50_000, Run: plain(mix)}, 2: {HostPs: 20_000, Grows: true, Run: plain(c.follow)},
		3: {HostPs: 20_000, Run: plain(comeAndGo)}}
	x := nicindex.Config{Name: "records", Segments: (config.Homes + 3) / 4, ValueBytes: c.valueBytes}
	m.nic, err = New(Config{Node: n.Index(), Nodes: c.nodes, Replicas: c.replicas, Functions: functions,
		Tables: []TableConfig{{Config: config, Budget: x.Least() + c.budget, Room: c.room, Loaded: c.keys, Index: c.index}}, Shard: c.shard, Options: c.options,
		Mutation: c.mutation, Cores: m.cores, Memory: memory, Logs: places, Yard: &m.yard})
	must(t, err)
	m.worker = worker(n.Timeline(0))
	port, err := smartnic.NewPort(m.worker, m.board, 0, c.batching)
	must(t, err)
	m.host = NewHost(HostConfig{Node: n.Index(), Cores: c.cores, Tables: tables, Functions: functions, Options: c.options,
		Mutation: c.mutation, Port: port, Worker: m.worker, Memory: memory, Logs: logs,
		Yard: &m.yard})
	m.record = history.NewRecorder(history.Options{Worker: history.WorkerID(n.Index()), Node: history.NodeID(n.Index()),
		Clock: history.Clock{Name: "world"}})
}

// comeAndGo is function 3: it inserts the first record, or deletes it if it is there, and writes the others.
func comeAndGo(values []Value, argument []byte) Step {
	was := values[0]
	if !was.Version.Live() {
		values = append([]Value{{Bytes: make([]byte, len(values[1].Bytes))}}, values[1:]...)
	}
	s := mix(values, argument)
	if was.Version.Live() {
		s.Writes[0] = Write{Does: Remove}
	}
	return s
}

// follow is function 2: it reads the record that the first one leads to, and then writes both.
func (c *rigConfig) follow(values []Value, argument []byte) Step {
	next := layout.Hash(binary.LittleEndian.Uint64(values[0].Bytes))
	r := c.key(int(next%uint64(c.nodes)), int(next>>32%uint64(c.keys)))
	switch len(values) {
	case 1:
		return Step{More: []Access{{Ref: r}}}
	case 2:
		if first := (Ref{Key: binary.LittleEndian.Uint64(argument[8:])}); r != first {
			return Step{More: []Access{{Ref: first, Write: true}, {Ref: r, Write: true}}}
		}
		return Step{}
	}
	return mix(values, argument)
}

// initial is the value that a record is loaded with.
func initial(r Ref, n int) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, layout.Hash(r.Key+1)), n/8+1)[:n]
}

// hold locks the lines of a machine's logs for a while, so that DMAs wait.
func (r *rig) hold(m *machine) {
	words := m.memory.Lines()[m.logsAt/layout.LineBytes:]
	var held []int
	r.world.At(10*sim.Microsecond, func() {
		for i := range words {
			if w := lineword.Load(&words[i]); lineword.TryLock(&words[i], w, 9) {
				held = append(held, i)
			}
		}
	})
	r.world.At(40*sim.Microsecond, func() {
		for _, i := range held {
			lineword.Restore(&words[i], lineword.Load(&words[i]).Next())
		}
	})
}

// client runs random transactions on a node.
func (r *rig) client(node, transactions int, draw func(random *rand.Rand) *Call) {
	m := r.machines[node]
	random := rand.New(rand.NewPCG(r.c.seed, uint64(node)<<32|uint64(r.random.Uint32())))
	m.worker.Submit("client", func(f *fiber.Fiber) error {
		for range transactions {
			c := draw(random)
			var seen []Value // by the body, of these records
			records := c.Accesses
			if body := c.Body; body != nil {
				c.Body = func(values []Value) Step {
					s := body(values)
					seen, records = values, slices.Concat(records, s.More)
					return s
				}
			}
			x := m.record.Begin(r.now())
			result, err := m.host.Run(f, c)
			if err != nil {
				return err
			}
			r.ended[result.Status]++
			outcome := history.Aborted
			if result.Status == Refused {
				outcome = history.UserAborted
				for i, v := range seen {
					noteRead(x, records[i].Ref, v)
				}
			}
			if result.Status == Committed {
				outcome = history.Committed
				for i, a := range result.Accesses {
					noteRead(x, a.Ref, result.Values[i])
				}
				for _, u := range result.Updates {
					r.told(&u)
					if u.Version.Live() {
						x.Write(history.Table(u.Table), history.Key(u.Key), history.Version(u.Version), history.DigestOf(u.Bytes))
					} else {
						x.Delete(history.Table(u.Table), history.Key(u.Key), history.Version(u.Version))
					}
				}
			}
			m.record.End(x, r.now(), outcome)
		}
		return nil
	}, func(err error) {
		if err != nil {
			r.t.Error(err)
		}
	})
}

// noteRead takes a read down for the history.
func noteRead(x *history.Txn, ref Ref, v Value) {
	if v.Version.Live() {
		x.Read(history.Table(ref.Table), history.Key(ref.Key), history.Version(v.Version), history.DigestOf(v.Bytes))
	} else {
		x.ReadAbsent(history.Table(ref.Table), history.Key(ref.Key), history.Version(v.Version.Trace()))
	}
}

func (r *rig) now() int64 { return r.world.Now().Duration().Nanoseconds() }

// run runs the world to its end, and gives what the check of the history says.
func (r *rig) run() *check.Result {
	r.t.Helper()
	must(r.t, r.world.Run())
	var segments []*history.Segment
	for _, m := range r.machines {
		must(r.t, m.worker.Fenced())
		for _, c := range m.cores {
			must(r.t, c.Worker().Fenced())
		}
		s, err := m.record.Close()
		must(r.t, err)
		segments = append(segments, s)
	}
	h, err := history.New(history.Names{Tables: []string{"records"}}, segments...)
	must(r.t, err)
	result, err := check.History(r.t.Context(), h, check.Options{UserAborts: true})
	must(r.t, err)
	must(r.t, h.Close())
	return result
}

// audit compares the replicas of every record, and looks for locks and pins that have stayed.
func (r *rig) audit() error {
	for shard := range r.c.nodes {
		for k := range r.c.keys {
			ref := r.c.key(shard, k)
			var first []byte
			for i := range r.c.replicas {
				node := (shard + i) % r.c.nodes
				table := r.machines[node].tables[shard]
				off, ok := table.Find(ref.Key)
				if !ok {
					return fmt.Errorf("node %d has no record %d", node, ref.Key)
				}
				m, at := table.At(off)
				image := m.Bytes[at : at+table.Record().Bytes]
				if i == 0 {
					first = image
				} else if !bytes.Equal(first, image) {
					return fmt.Errorf("record %d of node %d: %x, at its primary %x", ref.Key, node, image, first)
				}
			}
		}
	}
	for i, m := range r.machines {
		if s := m.nic.shards[i].indexes[0].Stats; s.Locked != 0 || s.Pinned != 0 {
			return fmt.Errorf("node %d: %d locks and %d pins have stayed", i, s.Locked, s.Pinned)
		}
	}
	return nil
}

// told checks that an update that a client is told of is at all backups, in the table or in a log.
func (r *rig) told(u *Update) {
	shard := r.c.shard(u.Ref)
	for i := 1; i < r.c.replicas; i++ {
		m := r.machines[(shard+i)%r.c.nodes]
		table := m.tables[shard]
		there := false
		if off, ok := table.Find(u.Key); ok {
			memory, at := table.At(off)
			there = layout.HeadOf(memory.Bytes[at:]).Version >= u.Version
		}
		for _, v := range m.views {
			v.Each(func(record *log.Record) {
				d := &decoder{b: record.Body}
				d.u16()
				d.news()
				d.shards()
				for _, x := range d.updates() {
					there = there || x.Ref == u.Ref && x.Version == u.Version
				}
			})
		}
		for _, h := range m.yard.held {
			if p := h.part(shard); p != nil {
				there = there || slices.ContainsFunc(p.updates, func(x Update) bool { return x.Ref == u.Ref && x.Version == u.Version })
			}
		}
		if !there {
			r.early = fmt.Sprintf("record %d at %v is not at node %d when its client is told", u.Key, u.Version, (shard+i)%r.c.nodes)
		}
	}
}
