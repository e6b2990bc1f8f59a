package xenic

import (
	"fmt"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/xenic/nics"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/store/nicindex"
	"drtmd/store/robinhood"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// Chip is a member's NIC.
type Chip struct {
	board    smartnic.Board
	nic      *nics.NIC
	logs     []nics.HostLog // one for each core
	memory   *verbs.MR      // that has them
	yard     nics.Yard
	mutation nics.Mutation
	most     int // bytes of a transaction's records
	roles    threads
	// functions are those that NICs execute; nil: none.
	functions map[uint16]nics.Function
	options   nics.Options
	// of the NIC's memory, by table: what an index gets.
	budgets []int
	index   nicindex.Mutation
	first   *protocol.Env
	view    chipView
	// shipped are the transactions of the member that NICs execute, by name; looked up only.
	shipped map[uint64]*tx
}

// newChip makes that of a member.
func newChip(e *protocol.ChipEnv) (*Chip, error) {
	o := e.First.Options
	b, err := e.Board()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", protocol.ErrNeeds, err)
	}
	c := &Chip{board: b.Board, roles: threadsOf(e.Sizes, o), first: e.First, shipped: map[uint64]*tx{}, view: chipView{fills: map[int]int{}, arrived: map[int]uint64{}}}
	cores := o.Int(OptCores)
	if cores > b.Cores() {
		return nil, fmt.Errorf("%w: --%s %d: the NIC has %d cores", ErrConfig, OptCores, cores, b.Cores())
	}
	places, err := c.makeLogs(e, b.Register, cores, int(o.Size(OptLogBytes)))
	if err != nil {
		return nil, err
	}
	if c.functions, err = functionsOf(e.First); err != nil {
		return nil, err
	}
	c.options = nics.Options{Caching: o.Bool(OptCaching), Shipping: c.functions != nil, MultiHop: o.Bool(OptMultiHop),
		Separate: o.Choice(OptRequests) == RequestsSeparate}
	if c.mutation, err = nics.Mutations().Find(e.First.Mutation); err != nil {
		if c.index, err = nicindex.Mutations().Find(e.First.Mutation); err != nil {
			return nil, fmt.Errorf("xenic: %w", err)
		}
	}
	if c.mutation == nics.TakenAgain && b.Again != nil {
		b.Again()
	}
	tables, err := c.tables(e.First, o.Size(OptMemory))
	if err != nil {
		return nil, err
	}
	c.yard.Filling = func(shard int) bool {
		s := &e.First.Placed.Map().Shards[shard]
		return c.view.fills[shard] > 0 || s.Holds(e.Node) && !s.Complete(e.Node)
	}
	workers, _ := roles(e.Sizes, o)
	for _, r := range workers {
		if r&protocol.Robinhood != 0 {
			c.yard.Threads++
		}
	}
	cfg := nics.Config{Node: int(e.Node), Nodes: e.Nodes, Replicas: e.First.Placed.Map().Replicas, Yard: &c.yard,
		Take: c.take, Keys: c.keys, Decided: c.decided, Ended: c.ended,
		Tables: tables, Shard: shardOf(e.First), Options: c.options, Functions: c.functions, Mutation: c.mutation,
		Memory: e.First.MR, Logs: places, LogMemory: c.memory}
	for i := range cores {
		w, err := b.NewWorker(i, fiber.WorkerConfig{Name: fmt.Sprintf("n%d/nic%d", e.Node, i), PD: e.PD})
		if err != nil {
			return nil, err
		}
		core, err := smartnic.NewCore(w, b, smartnic.CoreConfig{Node: int(e.Node), Index: i, Batching: batching(o),
			Blocking: o.Choice(OptDMA) == DMABlocking})
		if err != nil {
			return nil, err
		}
		cfg.Cores = append(cfg.Cores, core)
	}
	c.nic, err = nics.New(cfg)
	c.yard.Serves = c.nic.Serves
	return c, err
}

// Stats are those of the NIC.
func (c *Chip) Stats() nics.Stats { return c.nic.Stats }

// shardOf says of which shard a record is.
func shardOf(e *protocol.Env) func(nics.Ref) int {
	return func(r nics.Ref) int {
		at := e.Placement.Locate(proto.TableID(r.Table)+1, proto.Key(r.Key))
		if at.Replicas == nil {
			return int(at.Primary)
		}
		return int(at.Shard)
	}
}

// makeLogs makes the logs of the NIC's cores in the host's memory.
func (c *Chip) makeLogs(e *protocol.ChipEnv, register func(*verbs.MR), cores, capacity int) (places []nics.LogPlace, err error) {
	bytes := (log.Bytes(capacity) + verbs.LineBytes - 1) &^ (verbs.LineBytes - 1)
	if c.memory, err = e.PD.AllocMR(cores*bytes, verbs.AccessLocalWrite, verbs.MROptions{}); err != nil {
		return nil, err
	}
	if register != nil {
		register(c.memory)
	}
	generation := uint64(e.First.Life) + 1
	for i := range cores {
		at := i * bytes
		l, err := log.Format(c.memory.Bytes()[at:at+log.Bytes(capacity)], log.Config{Generation: generation})
		if err != nil {
			return nil, err
		}
		c.logs = append(c.logs, nics.HostLog{Log: l, At: at, Core: i})
		places = append(places, nics.LogPlace{At: at, Capacity: capacity, Generation: generation})
	}
	// A record of a log has lines of 64 bytes, with a mark in each, and a header.
	c.most = min(nics.MostBytes, capacity*3/4-logRecordBytes)
	return places, nil
}

// logRecordBytes is more than a record of a log takes beside its updates.
const logRecordBytes = 256

// tables divides the NIC's memory among the indexes of the own shard's tables.
func (c *Chip) tables(e *protocol.Env, memory option.Bytes) (all []nics.TableConfig, err error) {
	var least, more, orders []int
	sum, sumMore := 0, 0
	for i := range e.Tables {
		t := e.Tables[i].(*robinhood.Table)
		x, _ := c.table(t)
		x.Ordered, x.Everywhere = e.Specs[i].Ordered, e.Specs[i].Everywhere
		all = append(all, x)
		index := indexOf(t)
		orders = append(orders, 0)
		if x.Ordered {
			orders[i] = nicindex.OrderBytes(x.Room)
		}
		least, more = append(least, index.Least()+orders[i]), append(more, index.All(x.Room)-index.Least())
		sum, sumMore = sum+least[i], sumMore+more[i]
	}
	given := int(memory)
	if given == 0 {
		given = sum + sumMore
	}
	if given < sum {
		return nil, fmt.Errorf("%w: --%s %v: the indexes of %d tables take %v at least", nicindex.ErrBudget, OptMemory, memory,
			len(all), option.Bytes(sum))
	}
	if _, err := c.board.Alloc(given); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Budget = least[i] + int(min(1, float64(given-sum)/float64(max(sumMore, 1)))*float64(more[i]))
		c.budgets = append(c.budgets, all[i].Budget)
		all[i].Budget -= orders[i]
	}
	return all, nil
}

// keys are those that have a record in a table of a shard; false: somebody is changing it.
func (c *Chip) keys(shard, table int) (keys []uint64, ok bool) {
	t := c.first.Shares[shard].Tables[table].(*robinhood.Table)
	if _, ok := t.Keys(); !ok {
		return nil, false
	}
	t.Each(func(place int) bool {
		m, off := t.At(place)
		if h := layout.HeadOf(m.Bytes[off:]); h.Version.Live() {
			keys = append(keys, h.Key)
		}
		return true
	})
	return keys, true
}

// table is one as the NIC knows it, without a budget, and an incarnation above which none of its deletions was.
func (c *Chip) table(t *robinhood.Table) (x nics.TableConfig, deleted uint32) {
	x = nics.TableConfig{Config: t.Config(), At: t.Offset(), Room: t.Config().Homes, Index: c.index}
	deleted = t.Incarnations()
	t.Each(func(place int) bool {
		m, off := t.At(place)
		if v := layout.HeadOf(m.Bytes[off:]).Version; !v.Live() {
			deleted = max(deleted, v.Incarnation())
		}
		x.Loaded++
		return true
	})
	return x, deleted
}

// indexOf is the index of a table, without a budget.
func indexOf(t *robinhood.Table) *nicindex.Config {
	v := robinhood.MakeView(t.Config(), t.Offset())
	return &nicindex.Config{Segments: v.Segments(), ValueBytes: t.Config().ValueBytes}
}
