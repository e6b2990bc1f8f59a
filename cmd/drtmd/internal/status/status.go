// Package status defines the status of a daemon and of its cluster: the document that the control plane
// carries, drtmd status prints, and the live page draws. docs/STATUS.md describes its JSON.
package status

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/member"
)

// Schema of Cluster as JSON.
const Schema = "drtmd.status/1"

// Cluster is what one daemon knows of the whole cluster.
type Cluster struct {
	Schema string       `json:"schema"`
	Date   time.Time    `json:"date"` // UTC
	From   proto.NodeID `json:"from"` // who answers
	State  member.State `json:"state"`
	Nodes  []Node       `json:"nodes"` // by id; members and those that lately were
	// Problem is the most pressing thing that is wrong, in words.
	Problem string `json:"problem,omitempty"`
}

// Unready is the first node that should serve and does not: one that is neither ready nor running nor
// loads its tables again after a run, former members left out. nil: all serve.
func (c *Cluster) Unready() *Node {
	v := c.State.Newest()
	for i := range c.Nodes {
		n := &c.Nodes[i]
		former := n.Phase == Gone && !v.Has(n.Member)
		again := n.Phase == Connecting && n.Wait == Reloading
		if n.Phase != Ready && n.Phase != Running && !again && !former {
			return n
		}
	}
	return nil
}

// Departed is what is left of a node that does not answer, or is a member no more: who it was, and what
// happened to it. What it had, nobody knows any more.
func (n *Node) Departed(reason string) Node {
	return Node{Member: n.Member, Phase: Gone, Reason: reason, Host: n.Host, Events: n.Events}
}

// Phase of a daemon.
type Phase string

// Phases, in the usual order.
const (
	Starting   Phase = "starting"   // opens its device and its control plane
	Joining    Phase = "joining"    // asks to become a member
	Connecting Phase = "connecting" // a member; endpoints are exchanged, tables loaded
	Ready      Phase = "ready"      // serves
	Running    Phase = "running"    // a benchmark
	Refusing   Phase = "refusing"   // serves nothing until it has rejoined: its lease ended, or its clock is wrong
	Draining   Phase = "draining"   // ends what it does and stops
	Gone       Phase = "gone"       // a former member that does not answer
)

// Wait is what a node that is connecting waits for although nothing is wrong. It ends by itself.
type Wait string

// Waits.
const (
	Loading   Wait = "loading"   // its tables, and connections
	Reloading Wait = "reloading" // the same, again after a run
	OtherRun  Wait = "run"       // the end of a run without this node
	// OtherTables: the others keep tables in which this node has no part, until they are loaded anew.
	OtherTables Wait = "tables"
)

// Node is what a daemon says of itself.
type Node struct {
	Member member.Member `json:"member"`
	Phase  Phase         `json:"phase"`
	Wait   Wait          `json:"wait,omitempty"`
	// Reason of a phase that is not ready, or why the node does not answer, in words.
	Reason    string       `json:"reason,omitempty"`
	PID       int          `json:"pid,omitempty"`
	Host      string       `json:"host"`
	Started   time.Time    `json:"started"`
	Admin     string       `json:"admin,omitempty"` // address of the admin port
	Epoch     member.Epoch `json:"epoch"`           // active, as the node knows it
	LeaseLeft float64      `json:"lease_left_s"`    // until its membership lease ends
	Lease     float64      `json:"lease_s"`
	HoldsEtcd bool         `json:"holds_etcd,omitempty"` // it embeds the cluster's etcd
	Device    Device       `json:"device"`
	CPUs      *CPUs        `json:"cpus,omitempty"` // nil before they were chosen
	Memory    Memory       `json:"memory"`
	QPs       QPs          `json:"qps"`
	Plane     *Plane       `json:"plane,omitempty"`
	Clock     *Clock       `json:"clock,omitempty"`    // of the plane
	Recovery  *Recovery    `json:"recovery,omitempty"` // nil: the plane's records have one replica
	Data      *Data        `json:"data,omitempty"`     // nil: it keeps no tables over its lives
	Logs      *Logs        `json:"logs,omitempty"`     // nil: its workers do not log their transactions
	Load      *Load        `json:"load,omitempty"`
	Tables    []Table      `json:"tables,omitempty"`
	Links     []Link       `json:"links,omitempty"`
	// Degraded are conditions that only recovery or an operator ends, such as records that are
	// locked by a member that is gone.
	Degraded []string `json:"degraded,omitempty"`
	// Orphans are the records that stay locked, as far as the node's transactions have met them; nil:
	// none.
	Orphans *Orphans `json:"orphans,omitempty"`
	// SlowDisk says, in words, that the disk of the etcd that the node embeds is slow.
	SlowDisk string `json:"slow_disk,omitempty"`
	// Events are the last ones, the newest last; Errors those of them that are errors.
	Events []Event `json:"events,omitempty"`
}

// Device is the RDMA device in use.
type Device struct {
	Transport string `json:"transport"`
	Name      string `json:"name"`
	Driver    string `json:"driver"`
	GIDIndex  int    `json:"gid_index"`
	GID       string `json:"gid"`
	MTU       int    `json:"active_mtu_bytes"`
	Port      string `json:"port,omitempty"` // state of its port, such as ACTIVE or DOWN
	Atomics   string `json:"atomic_scope"`
	NUMA      int    `json:"numa_node"` // -1: unknown, or there is only one
}

// CPUs are those of worker threads.
type CPUs struct {
	List string `json:"list"` // such as 2-5,8; empty: those of the process
	Why  string `json:"why"`  // they were chosen
}

// Memory is what the node has registered.
type Memory struct {
	RegisteredBytes uint64 `json:"registered_bytes"`
	CacheBytes      uint64 `json:"location_cache_bytes"`
	ResidentBytes   uint64 `json:"resident_bytes"` // of the process
}

// QPs counts queue pairs by state.
type QPs struct {
	RC      int `json:"rc"`
	UD      int `json:"ud"`
	InError int `json:"in_error"`
}

// Plane is the data plane: tables and connections of a version of the shard map.
type Plane struct {
	Version    member.ShardVersion `json:"version"`
	Partition  int                 `json:"partition"`
	Partitions int                 `json:"partitions"`
	Workload   string              `json:"workload"`
	Protocol   string              `json:"protocol"`
	Workers    int                 `json:"workers"`
	Threads    int                 `json:"threads"`
	Fibers     int                 `json:"fibers_per_worker"`
}

// Data is what a node keeps of tables over its lives.
type Data struct {
	ID         string `json:"id"` // of all partitions of the same data
	Partition  int    `json:"partition"`
	Partitions int    `json:"partitions"`
	Memory     string `json:"memory"` // name of the kept memory
	Workload   string `json:"workload"`
	Protocol   string `json:"protocol"`
	Tables     string `json:"tables"` // all settings on which the tables depend, as JSON
	Loaded     bool   `json:"loaded"` // completely
	Runs       int    `json:"runs"`   // that have used it
	InUse      bool   `json:"in_use"` // the plane's tables are these
}

// Load is a benchmark under way, as this node sees it.
type Load struct {
	Run         string  `json:"run"`
	Coordinator int     `json:"coordinator"`
	Phase       string  `json:"phase"`
	ElapsedS    float64 `json:"elapsed_s"`
	OfS         float64 `json:"of_s"`
	Committed   uint64  `json:"committed"`       // in the phase
	PerSecond   float64 `json:"committed_per_s"` // mean of the phase
	AbortRate   float64 `json:"aborts_per_attempt"`
	Aborted     uint64  `json:"aborted_attempts"` // in the phase
}

// Table is how full a table is.
type Table struct {
	Name        string `json:"name"`
	Entries     uint64 `json:"entries"`
	Capacity    uint64 `json:"capacity"`
	ValueBytes  int    `json:"value_bytes"`
	IndirectMax uint64 `json:"indirect_headers"`
	Indirect    uint64 `json:"indirect_headers_used"`
}

// Orphans are records that stay locked by a member that is gone, or that is out of reach.
type Orphans struct {
	Count int      `json:"count"`
	List  []Orphan `json:"list"` // the first of them
}

// Orphan is one of them.
type Orphan struct {
	Node  proto.NodeID `json:"node"` // partition of the record
	Table string       `json:"table"`
	Key   proto.Key    `json:"key"`
	Owner proto.NodeID `json:"owner"` // partition whose worker holds the lock
}

// Link is the way to a peer.
type Link struct {
	Peer proto.NodeID `json:"peer"`
	// State is "up", "error", "gone" (the peer does not answer), or "down" (the own port is).
	State string `json:"state"`
}

// Level of an event.
type Level string

// Levels.
const (
	Info  Level = "info"
	Warn  Level = "warn"
	Error Level = "error"
)

// Event is something that happened to a node.
type Event struct {
	Time  time.Time `json:"time"` // UTC
	Level Level     `json:"level"`
	Text  string    `json:"text"`
}
