package node

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/rpc"
)

// Config of a cluster: the same for all its members. Zero fields take the defaults named.
type Config struct {
	Protocol Protocol
	Workload workload.Workload
	// Functions are those of the workload's Spec, for protocols that ship them; nil: none is shipped.
	Functions []workload.Function
	Nodes     int // members; 0 = 1
	Workers   int // per member; 0 = 1
	Fibers    int // per worker that run transactions at the same time; 0 = 16
	// Replicas of each record, its primary included; 0 = 1.
	Replicas int
	Seed     uint64
	// Record switches the recorders on; nil = off.
	Record *Recording
	// CacheBytes is the budget of a member's location cache; 0 = 16 MiB.
	CacheBytes int
	Geometry   htm.Geometry // the zero value is htm.DefaultGeometry
	// Growth is the memory by which the tables of each member may grow beyond their Capacity, together.
	Growth protocol.Growth
	// Connect are the options of the RC queue pairs.
	Connect verbs.ConnectAttr
	// RPC has the timeouts and the window of the RPC ports; the rest of it is set here.
	RPC rpc.Config
	// Retried says that a cluster which cannot be opened is tried again: while sessions open, a silent peer is waited for
	// as long as RPC.PeerTimeout, not for 10 s, since it may have died.
	Retried bool
	// Keep are the times of the keepers, which connect members again within a run.
	Keep KeepTimes
	// Options of the protocol, by name; the others have their defaults.
	Options option.Settings
	// Mutation switches a deliberate bug of the protocol, or of the keepers, on; "" is none.
	Mutation string

	options option.Values // by Complete
}

// Recording says where histories go.
type Recording struct {
	// MemoryBytes of a worker's history stay in memory; 0 is no bound. The rest goes to a file
	// in SpillDir.
	MemoryBytes int64
	SpillDir    string
	// Keep has what workers record outlive the process in files in SpillDir (history.Options.Keep).
	Keep bool
}

const (
	// DefaultFibers of a worker, where the protocol says nothing else.
	DefaultFibers     = 16
	defaultCacheBytes = 16 << 20
	maxFibers         = 1024
	// depthPerFiber is the number of requests that a transaction has outstanding on one queue
	// pair in the common case; more of them wait for room.
	depthPerFiber = 8
	minDepth      = 64
	maxDepth      = 1024
)

// RangeError is a number of a Config that is too small or too large.
type RangeError struct {
	What        string // "fibers per worker"
	Value, High int    // 1 is the least
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s: %d is not in 1..%d", e.What, e.Value, e.High)
}

// Complete fills in the defaults and checks the configuration. Whoever makes members without a
// Cluster calls it before.
func (c *Config) Complete() error {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Nodes, 1)
	set(&c.Workers, 1)
	set(&c.Fibers, cmp.Or(c.Protocol.Fibers, DefaultFibers))
	set(&c.Replicas, 1)
	set(&c.CacheBytes, defaultCacheBytes)
	if c.Geometry == (htm.Geometry{}) {
		c.Geometry = htm.DefaultGeometry()
	}
	within := func(what string, v, high int) error {
		if v < 1 || v > high {
			return &RangeError{What: what, Value: v, High: high}
		}
		return nil
	}
	for _, err := range []error{within("nodes", c.Nodes, maxNodes),
		within("workers per node", c.Workers, maxWorkers),
		within("fibers per worker", c.Fibers, maxFibers), c.Protocol.CheckNodes(c.Nodes)} {
		if err != nil {
			return err
		}
	}
	if c.Mutation != "" && !slices.ContainsFunc(c.Protocol.Mutations,
		func(m Mutation) bool { return m.Name == c.Mutation }) {
		return &UnknownError{What: "mutation of " + c.Protocol.Name, Name: c.Mutation,
			Known: proto.Names(c.Protocol.Mutations)}
	}
	if err := c.Protocol.CheckReplicas(c.Replicas, c.Nodes); err != nil {
		return err
	}
	if err := c.Protocol.CheckGrowth(c.Growth); err != nil {
		return err
	}
	var err error
	if c.options, err = c.Protocol.Options.Values(c.Options); err != nil {
		return fmt.Errorf("protocol %s: %w", c.Protocol.Name, err)
	}
	if chips := c.Protocol.Chips; chips != nil {
		if err := chips.Check(c.sizes(), c.options); err != nil {
			return fmt.Errorf("protocol %s: %w", c.Protocol.Name, err)
		}
	}
	if _, err = c.logBytes(); err != nil {
		return err
	}
	return c.checkTables()
}

func (c *Config) sizes() protocol.Sizes {
	return protocol.Sizes{Nodes: c.Nodes, Workers: c.Workers, Fibers: c.Fibers}
}

func (c *Config) checkTables() error {
	if err := c.checkWorkload(); err != nil {
		return err
	}
	if b, ok := c.Workload.(workload.Bounded); ok {
		_, pieces := c.Protocol.Options.Find(protocol.OptChopped)
		writes, bytes := b.MostWritten(pieces && c.options.Bool(protocol.OptChopped))
		err := c.Protocol.CheckWrites(c.Replicas, writes, bytes)
		if err == nil && c.Protocol.CheckOwnLog != nil {
			err = c.Protocol.CheckOwnLog(c.options, c.sizes(), writes, bytes)
		}
		if err != nil {
			return fmt.Errorf("workload %s: %w", c.Workload.Name(), err)
		}
	}
	specs := c.Workload.Tables()
	if len(specs) == 0 || len(specs) > maxTables {
		return fmt.Errorf("workload %s has %d tables: not in 1..%d", c.Workload.Name(), len(specs),
			maxTables)
	}
	for i, s := range specs {
		switch {
		case s.ID != proto.TableID(i+1):
			return fmt.Errorf("table %q of workload %s has id %d, want %d: ids count from 1", s.Name,
				c.Workload.Name(), s.ID, i+1)
		case s.Capacity < 1:
			return fmt.Errorf("table %q of workload %s: capacity %d: it must be positive", s.Name,
				c.Workload.Name(), s.Capacity)
		case s.ValueBytes < 1 || s.ValueBytes > layout.MaxValueBytes:
			return fmt.Errorf("table %q of workload %s: values of %d bytes, not 1..%d", s.Name,
				c.Workload.Name(), s.ValueBytes, layout.MaxValueBytes)
		}
		if err := c.Protocol.CheckStore(s.Ordered); err != nil {
			return fmt.Errorf("table %q of workload %s: %w", s.Name, c.Workload.Name(), err)
		}
	}
	return nil
}

// checkWorkload refuses what would be a nil pointer later.
func (c *Config) checkWorkload() error {
	if isNil(c.Workload) {
		return errors.New("Config.Workload is nil: set it, for example to a result of smallbank.New")
	}
	kinds := len(c.Workload.Kinds())
	switch {
	case isNil(c.Workload.Placement()):
		return fmt.Errorf("workload %s: Placement is nil: it must map each record to a node",
			c.Workload.Name())
	case kinds >= workload.MaxKinds:
		return fmt.Errorf("workload %s has %d kinds of transactions: at most %d", c.Workload.Name(),
			kinds, workload.MaxKinds-1)
	}
	return CheckDeclared(&c.Protocol, c.Workload)
}

// CheckDeclared refuses a workload whose transactions do not declare what they access, where the protocol needs that.
func CheckDeclared(p *Protocol, w workload.Workload) error {
	u, ok := w.(workload.Undeclared)
	if !ok || !p.Declared {
		return nil
	}
	if name, is := u.Undeclared(); is {
		return fmt.Errorf("%w: protocol %s has to know what a transaction accesses before it begins, and those of workload %s "+
			"do not declare it with %s: leave %[4]s out, or use another protocol", protocol.ErrNeeds, p.Name, w.Name(), name)
	}
	return nil
}

// isNil reports whether an interface holds nothing, or a nil pointer.
func isNil(x any) bool {
	v := reflect.ValueOf(x)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// depth of each queue pair.
func (c *Config) depth() int { return min(max(c.Fibers*depthPerFiber, minDepth), maxDepth) }

// readTrips is how many READs measure a round trip.
const readTrips = 11

// startTimeout bounds the opening of a session with a peer, which may be silent for as long unless Config.Retried: on a
// busy machine a process gets no CPU time for seconds.
const startTimeout = 10 * time.Second
