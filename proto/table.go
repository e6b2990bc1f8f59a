package proto

// NodeID names a machine of the cluster, from 0.
type NodeID uint16

// NoNode is no machine of any cluster.
const NoNode NodeID = 1<<16 - 1

// ShardID names a shard, from 0: the records that a workload's Placement calls at home on the node of
// that number. There are as many shards as nodes, and which records a shard has never changes.
type ShardID uint16

// TableID names a table of the cluster, from 1.
type TableID uint16

// Key of a record.
type Key uint64

// TableSpec describes a table; it is the same on all nodes.
type TableSpec struct {
	ID         TableID
	Name       string
	ValueBytes int // of each value
	// Capacity is how many records one node has room for, positive. Load may put no more; a table
	// rounds up, so that a few more may be inserted later, until ReasonFull.
	Capacity int
	Ordered  bool // needs Scan
	// AtHome: a transaction accesses only those records of the table that its own node is at home of. A protocol that relies on
	// it refuses a transaction that accesses others; for the rest it is a table like any other.
	AtHome bool
	// Everywhere: nobody writes to the table, and every node is loaded with all of it and reads its own.
	// The workload's Load gives all its records for each node.
	Everywhere bool
}

// Location is where a record lives. Placements of workloads say Primary only, which is the node that the
// record is at home on; a cluster with replicas adds the rest (package placement).
//
// It is two words, because every access of a transaction gets one: a larger one would go through memory.
type Location struct {
	Shard    ShardID
	Primary  NodeID
	Replicas *Replicas // nil: a workload's placement says so
}

// Replicas is what a placement with replicas says of a shard beside its primary. It belongs to the placement and
// does not change.
type Replicas struct {
	Backups []NodeID
	Epoch   uint64 // of the placement
}

// Backups of the record; they belong to the placement.
func (l Location) Backups() []NodeID {
	if l.Replicas == nil {
		return nil
	}
	return l.Replicas.Backups
}

// Epoch of the placement that says so; 0 where a workload's does.
func (l Location) Epoch() uint64 {
	if l.Replicas == nil {
		return 0
	}
	return l.Replicas.Epoch
}

// Placement says where records live. It is called for each access and must be quick; its
// answers for one epoch do not change.
type Placement interface {
	Locate(t TableID, k Key) Location
}
