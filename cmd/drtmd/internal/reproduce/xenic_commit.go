package reproduce

import (
	"errors"
	"fmt"

	"drtmd/htm"
	"drtmd/proto/xenic/nics"
	"drtmd/store/log"
	"drtmd/store/nicindex"
	"drtmd/store/robinhood"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// Figure 7 of Xenic: the messages of a commit.

const (
	commitLog   = 1 << 12              // bytes
	commitCable = 50 * sim.Microsecond // so long that nothing else counts
	addFunction = 1
)

// commitCost is what a commit takes.
type commitCost struct {
	messages, delays int
}

// commitMessages runs a transaction that writes a record of the coordinator's shard and one of another, with three
// replicas on six nodes, so that no backup is one of the two.
func commitMessages(multiHop bool) (c commitCost, err error) {
	cost, err := sim.Preset(liquidio3)
	if err != nil {
		return c, err
	}
	cost.Link.Propagation = commitCable / 2
	r, err := newNICRigOf(cost, servers, 1, 1, smartnic.Gathered)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	options := nics.Options{Caching: true, Shipping: true, MultiHop: multiHop}
	var programs []*nics.NIC
	var client *nics.Host
	for _, m := range r.nodes {
		program, host, err := m.commits(options)
		if err != nil {
			return c, err
		}
		programs = append(programs, program)
		if m.index == 0 {
			client = host
		}
	}
	call := nics.Call{Function: addFunction, Accesses: []nics.Access{{Ref: nics.Ref{Key: 0}, Write: true},
		{Ref: nics.Ref{Key: servers / 2}, Write: true}}}
	var took sim.Time
	var status nics.Status
	r.nodes[0].hosts[0].Submit("client", func(f *fiber.Fiber) error {
		begin := r.world.Now()
		result, err := client.Run(f, &call)
		took, status = r.world.Now()-begin, result.Status
		return err
	}, nil)
	if err := r.world.Run(); err != nil {
		return c, err
	}
	if status != nics.Committed {
		return c, fmt.Errorf("the transaction is %v", status)
	}
	for _, p := range programs {
		c.messages += int(p.Stats.Requests)
	}
	c.delays = int(took / commitCable)
	return c, nil
}

// commits has a server run the protocol on a table of one record for each shard.
func (m *nicNode) commits(o nics.Options) (*nics.NIC, *nics.Host, error) {
	owner, err := m.memory.ClaimLineOwner()
	if err != nil {
		return nil, nil, err
	}
	view := htm.NewMemory(m.memory.Bytes(), m.memory.Lines(), owner.Slot, owner.Journal)
	config := robinhood.For(1, "records", 8, 4)
	tables := make([][]*robinhood.Table, servers)
	for i := range copies {
		shard := (m.index - i + servers) % servers
		t, err := robinhood.Format(config, view, i*config.Bytes())
		if err != nil {
			return nil, nil, err
		}
		if err := t.Load(uint64(shard), make([]byte, 8)); err != nil {
			return nil, nil, err
		}
		tables[shard] = []*robinhood.Table{t}
	}
	at := copies * config.Bytes()
	l, err := log.Format(m.memory.Bytes()[at:at+log.Bytes(commitLog)], log.Config{Generation: 1})
	if err != nil {
		return nil, nil, err
	}
	v := robinhood.MakeView(config, 0)
	index := nicindex.Config{Segments: v.Segments(), ValueBytes: 8}
	functions := map[uint16]nics.Function{addFunction: {Run: addOne}}
	yard := &nics.Yard{}
	program, err := nics.New(nics.Config{Node: m.index, Nodes: servers, Replicas: copies, Functions: functions, Options: o,
		Tables: []nics.TableConfig{{Config: config, Budget: index.Least()}}, Cores: m.cores, Memory: m.memory,
		Shard: func(r nics.Ref) int { return int(r.Key) % servers },
		Yard:  yard,
		Logs:  []nics.LogPlace{{At: at, Capacity: commitLog, Generation: 1}}})
	if err != nil {
		return nil, nil, err
	}
	host := nics.NewHost(nics.HostConfig{Yard: yard, Node: m.index, Cores: 1, Tables: tables, Functions: functions, Options: o,
		Port: m.ports[0], Worker: m.hosts[0], Memory: m.memory, Logs: []nics.HostLog{{Log: l, At: at}}})
	return program, host, nil
}

// addOne is the function of the transaction.
func addOne(_ []nics.Access, values []nics.Value, _ []byte) (s nics.Step) {
	for _, v := range values {
		w := append([]byte(nil), v.Bytes...)
		w[0]++
		s.Writes = append(s.Writes, nics.Write{Does: nics.Put, Bytes: w})
	}
	return s
}

// xenicFigure7 counts messages and delays of the protocol.
func xenicFigure7(*Run) (*Outcome, error) {
	o := &Outcome{Conditions: fmt.Sprintf("%d nodes, %d replicas, no backup on the two primaries; answers and the COMMIT "+
		"of the other shard are counted; delays until the client knows; nothing is drawn, so there are no seeds", servers, copies)}
	for _, x := range []struct {
		name             string
		hop              bool
		messages, delays float64
	}{{"(a) executed at the coordinator", false, 12, 4}, {"(b) executed at the other primary", true, 11, 3}} {
		got, err := commitMessages(x.hop)
		if err != nil {
			return nil, err
		}
		o.Rows = append(o.Rows, number{what: x.name + ": messages", section: "Figure 7", printed: fixed(x.messages, 0),
			paper: x.messages, limit: within(0), reading: "the arrows of the figure; the text prints no sums"}.
			seen(float64(got.messages)),
			number{what: x.name + ": delays", section: "§4.2.3", printed: fixed(x.delays, 0), paper: x.delays, limit: within(0),
				reading: `"eliminates a network message delay"`}.seen(float64(got.delays)))
	}
	return o, nil
}
