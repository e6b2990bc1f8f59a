package protocol

import (
	"errors"
	"fmt"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/store/layout"
)

// Protocol is a way to run transactions.
type Protocol struct {
	Name string
	Doc  string // one line
	// Family is the protocol of which this one is a variant: it has the same steps and mutations.
	// "" is Name.
	Family string
	Needs
	// MaxNodes is how many members the protocol can tell apart; 0 is as many as there may be.
	MaxNodes int
	// Fibers is how many a worker has if nobody says; 0: node.DefaultFibers.
	Fibers int
	// Preset is the simulator's cost model that its paper describes; "": none in particular.
	Preset string
	// Options of its engines; Env.Options has their values.
	Options option.List
	// Offers are the interfaces that its engines have beside proto.Engine; Make insists on them.
	Offers proto.Offer
	// Optimistic protocols hold nothing of records that are only read: others may change them, and the
	// commit finds out.
	Optimistic bool
	// LocksLate protocols lock nothing before the commit.
	LocksLate bool
	// ByRPC protocols write to other nodes by RPC alone.
	ByRPC bool
	// Simulation is how scenarios run it.
	Simulation Simulation
	// Mutations are its deliberate bugs; Unmutated says why there is none.
	Mutations []Mutation
	Unmutated string
	// Holder reads a record's state word: whether it is locked, and by which node. nil: the protocol
	// locks no records.
	Holder func(state uint64) (owner proto.NodeID, locked bool)
	// New makes the engine of a worker, on its thread, when all its peers are connected. No
	// transaction begins anywhere before every engine was made. Call Make.
	New func(e *Env) (proto.Engine, error)
}

// Needs is what a protocol cannot do without. A cluster that does not have it is refused in words.
type Needs struct {
	// Declared: a transaction names every record that it touches before it begins; an access that
	// was not declared is refused with proto.ErrUndeclared.
	Declared bool
	// OneThread protocols run only where every worker is on one thread of one process.
	OneThread bool
	// LineWords: memory has a word beside each line, so that the device's atomics exclude the CPU's.
	LineWords bool
	// Replicas is the least number of copies of a record, the primary included; 0 is 1.
	Replicas int
	// Replicates: the protocol keeps the backups of a record as it is, so that there may be some.
	Replicates bool
	// Logs: with replicas, each worker has a ring in the memory of every other node (Env.Logs), and the
	// protocol the option OptLogBytes.
	Logs bool
	// LongestLog is how long a record of a transaction in these rings may be, and LogBytes how long one of so many
	// writes is at least, whose values have so many bytes; nil: as long as the rings have room.
	LongestLog int
	LogBytes   func(writes, valueBytes int) int
	// OwnLog says how many bytes beside its tables each worker has for a log of its own transactions
	// (Env.Log); nil: none.
	OwnLog func(option.Values) int
	// CheckOwnLog refuses such a log if it has no room for a transaction that writes so many records, with so many
	// bytes of values; nil: it has.
	CheckOwnLog func(o option.Values, s Sizes, writes, valueBytes int) error
	// Clocks: the nodes' clocks are compared, and their error is bounded (Env.ClockError).
	Clocks bool
	// Layout of the tables' records; 0 is layout.KindOneVersion, DrTM's entry. Records are little endian
	// in every layout, and peers refuse another one than theirs.
	Layout layout.Kind
	// Unworded is the layout where memory has no line words; 0: Layout. Option OptSeals, where there is one, can
	// choose Layout there, too.
	Unworded layout.Kind
	// Grows: tables may be of several memory regions (GrowingIndex). It has then no region of HTM that
	// writes several records.
	Grows bool
	// CPULocks: records are locked by CPUs alone, never by a remote CAS.
	CPULocks bool
	// Index by which keys lead to records; 0 is layout.ClusterChaining, DrTM's hash table.
	Index layout.Index
	// Scans: engines scan ordered tables, which are trees (layout.BPlusTree), unless Index is layout.Robinhoods, where NICs
	// know the order.
	Scans bool
	// AnyWorker: workers call any worker of any node, also of their own (Env.Connect), and not only the
	// one of their index.
	AnyWorker bool
	// Chips is what machines have beside cores, memory and an RDMA NIC: a model that the simulator carries. nil: nothing.
	Chips *Chips
	// Early protocols have New called before the peers are connected, where the cluster can: their
	// engines answer from the beginning.
	Early bool
}

// Mutation describes a deliberate bug of a protocol or of a layer below it, for tests that show that
// checks find it. Every safety step has a mutation that leaves it out.
type Mutation = mutation.Mutation

func (p Protocol) String() string { return p.Name }

// FamilyName is Family, or Name.
func (p *Protocol) FamilyName() string {
	if p.Family != "" {
		return p.Family
	}
	return p.Name
}

// Make makes the engine of a worker.
func (p *Protocol) Make(e *Env) (proto.Engine, error) {
	engine, err := p.New(e)
	if err != nil {
		return nil, fmt.Errorf("protocol %s: %w", p.Name, err)
	}
	if has := proto.Offered(engine); has != p.Offers {
		return nil, fmt.Errorf("protocol %s declares the optional interfaces %v, but its engine has %v", p.Name,
			p.Offers, has)
	}
	return engine, nil
}

// ErrNeeds is wrapped by the refusal of a cluster that lacks what its protocol needs.
var ErrNeeds = errors.New("the cluster lacks what its protocol needs")

// CheckDevice refuses a device that lacks what the protocol needs.
func (p *Protocol) CheckDevice(name string, lineWords bool) error {
	if p.LineWords && !lineWords {
		return fmt.Errorf("%w: protocol %s runs on memory with line words, which device %s does not have: use "+
			"shared memory or the simulator", ErrNeeds, p.Name, name)
	}
	return nil
}

// Tables are what is made of the needs for tables: the layout, where memory has line words, and the index.
func (n *Needs) Tables() (layout.Kind, layout.Index) {
	return n.Layout.Or(layout.KindOneVersion), n.Index.Or(layout.ClusterChaining)
}

// LayoutOn is the layout of the tables' records in memory with line words or without, where options have these
// values.
func (p *Protocol) LayoutOn(lineWords bool, o option.Values) layout.Kind {
	kind, _ := p.Tables()
	if lineWords || p.Unworded == 0 {
		return kind
	}
	if _, ok := p.Options.Find(OptSeals); ok && !o.Bool(OptSeals) {
		return kind
	}
	return p.Unworded
}

// CheckStore refuses a layout or an index that tables cannot have, and an index that is not ordered for
// a table that needs Scan.
func (p *Protocol) CheckStore(ordered bool) error {
	l, i := p.Tables()
	switch {
	case l.Version() == 0:
		return fmt.Errorf("%w: protocol %s keeps records in %v, which this program does not know", ErrNeeds,
			p.Name, l)
	case i != layout.ClusterChaining && i != layout.HopscotchInline && i != layout.Robinhoods && i != layout.DLHT:
		return fmt.Errorf("%w: protocol %s finds records by %v, and tables of a cluster have %v, %v, %v or %v", ErrNeeds,
			p.Name, i, layout.ClusterChaining, layout.HopscotchInline, layout.Robinhoods, layout.DLHT)
	case ordered && !p.Scans:
		return fmt.Errorf("%w: protocol %s does not scan ordered tables; use one that does, such as drtm or twopl",
			proto.ErrUnsupported, p.Name)
	}
	return nil
}

// CheckReplicas refuses a cluster with fewer copies of each record than the protocol needs, or more than
// it keeps or the nodes hold.
func (p *Protocol) CheckReplicas(copies, nodes int) error {
	switch {
	case copies < 1 || copies > nodes:
		return fmt.Errorf("%d replicas of each record on %d nodes: each is on another node, so that there are "+
			"from 1 to %d", copies, nodes, nodes)
	case p.Replicas > copies:
		return fmt.Errorf("%w: protocol %s runs with at least %d copies of each record, and there are %d",
			ErrNeeds, p.Name, p.Replicas, copies)
	case copies > 1 && !p.Replicates:
		return fmt.Errorf("%w: protocol %s keeps one copy of each record, not %d: run it with one replica, or "+
			"use a protocol that replicates", ErrNeeds, p.Name, copies)
	}
	return nil
}

// CheckWrites refuses transactions that write so many records, with so many bytes of values, where there are backups
// and these take no log record of that length.
func (p *Protocol) CheckWrites(copies, writes, valueBytes int) error {
	if copies < 2 || p.LogBytes == nil || p.LogBytes(writes, valueBytes) <= p.LongestLog {
		return nil
	}
	return fmt.Errorf("%w: protocol %s with %d copies of each record takes log records of up to %d bytes, and a transaction "+
		"that writes %d records with %d bytes needs %d: run it with one replica, or use another protocol", ErrNeeds, p.Name,
		copies, p.LongestLog, writes, valueBytes, p.LogBytes(writes, valueBytes))
}

// CheckGrowth refuses tables that grow where the protocol cannot have them.
func (p *Protocol) CheckGrowth(g Growth) error {
	switch {
	case g.Bytes < 0:
		return fmt.Errorf("%s is negative: %d bytes", g.Setting, g.Bytes)
	case g.Bytes > 0 && !p.Grows:
		return fmt.Errorf("%w: protocol %s keeps each table in one memory region, which does not grow: leave %s "+
			"out, and give the tables room for all records", ErrNeeds, p.Name, g.Setting)
	}
	return nil
}

// CheckNodes is nil or a *TooManyNodesError.
func (p *Protocol) CheckNodes(nodes int) error {
	if p.MaxNodes > 0 && nodes > p.MaxNodes {
		return &TooManyNodesError{Protocol: p.Name, Nodes: nodes, Most: p.MaxNodes}
	}
	return nil
}

// TooManyNodesError is a cluster with more members than its protocol can name.
type TooManyNodesError struct {
	Protocol    string
	Nodes, Most int
}

func (e *TooManyNodesError) Error() string {
	return fmt.Sprintf("%d nodes: protocol %s names at most %d in a record's lock; "+
		"use fewer nodes with more workers", e.Nodes, e.Protocol, e.Most)
}

// Engine turns the result of a New into a proto.Engine. After an error the engine is nil, not an
// interface that holds a nil pointer.
func Engine[E proto.Engine](e E, err error) (proto.Engine, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}
