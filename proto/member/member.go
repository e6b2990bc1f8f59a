package member

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/placement"
)

// Epoch numbers the views of a cluster, from 1.
type Epoch uint64

// Incarnation numbers the lives of members, over all nodes of the cluster, from 1.
type Incarnation uint64

// ShardVersion numbers shard maps, from 1; 0 is none yet.
type ShardVersion uint64

// Member is one life of a node.
type Member struct {
	Node        proto.NodeID `json:"node"`
	Incarnation Incarnation  `json:"incarnation"`
	Name        string       `json:"name"`    // for people: a host's name
	Control     string       `json:"control"` // address of its control plane
	// Build is the version of the program; members of different ones do not form a cluster.
	Build string `json:"build"`
}

func (m Member) String() string {
	return fmt.Sprintf("node %d (%s, incarnation %d)", m.Node, m.Name, m.Incarnation)
}

// Same reports whether two are the same life of the same node.
func (m Member) Same(o Member) bool { return m.Node == o.Node && m.Incarnation == o.Incarnation }

// View is the members of an epoch, by Node.
type View struct {
	Epoch   Epoch    `json:"epoch"`
	Members []Member `json:"members"`
}

// Find gives the member that is a node's life in v.
func (v View) Find(n proto.NodeID) (Member, bool) {
	for _, m := range v.Members {
		if m.Node == n {
			return m, true
		}
	}
	return Member{}, false
}

// Has reports whether this very life is in v.
func (v View) Has(m Member) bool {
	x, ok := v.Find(m.Node)
	return ok && x.Same(m)
}

// ShardMap says which members hold the partitions.
type ShardMap struct {
	Version ShardVersion `json:"version"`
	// Primary of partition i. Each is a life: the partition of a member that is gone has no
	// primary until a later version names one.
	Primary []Member `json:"primary"`
	// Leader builds the data plane of this version, and Run is the benchmark that it is for: "" is
	// none, and the plane serves.
	Leader Member `json:"leader"`
	Run    string `json:"run,omitempty"`
	// Placement says where the replicas of the partitions are: partition i is shard i, and its Primary is
	// node i, whoever serves the shard. nil: nothing is replicated. It follows the active view: a view
	// without a node's life has the placement without the node. Only Return brings a node back, and its
	// Primary is the new life then.
	Placement *placement.Map `json:"placement,omitempty"`
}

// State is what a registry keeps of a cluster.
type State struct {
	// Cluster is a name and a random number: two clusters never have the same.
	Cluster string `json:"cluster"`
	Active  View   `json:"active"`
	// Pending is the next view; nil while nothing changes.
	Pending *View `json:"pending,omitempty"`
	// Fenced are the nodes of Pending that are fenced off from the members that are not in it.
	Fenced []proto.NodeID `json:"fenced,omitempty"`
	Shards ShardMap       `json:"shards"`
	// Last is the largest incarnation that was given out.
	Last Incarnation `json:"last_incarnation"`
}

// Newest is the pending view if there is one, else the active one.
func (s *State) Newest() View {
	if s.Pending != nil {
		return *s.Pending
	}
	return s.Active
}

// Removed are the members of the active view that are not in the pending one.
func (s *State) Removed() []Member {
	var gone []Member
	for _, m := range s.Active.Members {
		if !s.Newest().Has(m) {
			gone = append(gone, m)
		}
	}
	return gone
}

// Clone shares nothing with s.
func (s *State) Clone() State {
	c := *s
	c.Active.Members = slices.Clone(s.Active.Members)
	if s.Pending != nil {
		p := View{Epoch: s.Pending.Epoch, Members: slices.Clone(s.Pending.Members)}
		c.Pending = &p
	}
	c.Fenced = slices.Clone(s.Fenced)
	c.Shards.Primary = slices.Clone(s.Shards.Primary)
	if p := s.Shards.Placement; p != nil {
		c.Shards.Placement = p.Clone()
	}
	return c
}

// Errors of transitions and sessions; test with errors.Is.
var (
	// ErrNotMember: this life is not in the newest view any more, or never was.
	ErrNotMember = errors.New("not a member of the newest epoch")
	// ErrStale: the change was made to a version, or said of an epoch, that is not the newest.
	ErrStale = errors.New("the state has changed")
	// ErrTaken: another member that lives has this node id.
	ErrTaken = errors.New("the node id belongs to a live member")
	// ErrFull: there is no free node id.
	ErrFull = errors.New("every node id is taken")
	// ErrLeaseLost: the membership lease has ended; the node must join again.
	ErrLeaseLost = errors.New("membership lease has ended")
	// ErrUnreachable: the registry does not answer. It may again, before the lease ends.
	ErrUnreachable = errors.New("the membership registry does not answer")
	// ErrBuild: the cluster runs another version of the program.
	ErrBuild = errors.New("the cluster runs another version of drtmd")
)

// AnyNode has the registry choose the lowest free node id.
const AnyNode = -1

// Candidate asks to become a member.
type Candidate struct {
	Node    int // the id wanted, or AnyNode
	Name    string
	Control string
	Build   string
	// Replaces is the node's former life, which the candidate knows to have ended because it was
	// its own (same state directory): that one is removed at once, before its lease ends. The
	// zero value is none.
	Replaces Incarnation
}

// Session is a member's membership. Its methods may be called from any goroutine.
type Session interface {
	Self() Member
	// State is the newest that this session knows. The caller owns it.
	State() State
	// Lease is the time, on the clock that the registry was made with, until which the member may
	// serve; false once it is lost.
	Lease() (until time.Duration, held bool)
	// Fenced says that this node's queue pairs to everybody who is not in the pending view of
	// that epoch are in the error state. ErrStale: another one is pending, or none.
	Fenced(e Epoch) error
	// SetShards replaces the shard map of the version before m.Version. ErrStale: that is not the
	// newest, or a primary is not in the active view.
	SetShards(m ShardMap) error
	// Return says that this life is ready to be node of the placement in place of its node's former one,
	// with nothing in its memory: it gets replicas to fill, in an epoch of their own. ErrStale: another
	// view is pending; again when it is active.
	Return() error
	// Filled says that this node's replica of a shard is complete now. ErrStale: it is not to be filled any
	// more.
	Filled(shard proto.ShardID) error
	// Remove removes another member that the caller knows to be dead before its lease ends.
	Remove(m Member) error
	// Leave ends the membership at once. The session is of no use after that.
	Leave() error
}

// Listener is told what happens to a session, one call at a time, in order. Calls must not block.
type Listener interface {
	// Changed is told each newer state, perhaps not every one.
	Changed(s State)
	// LeaseLost is told once that the lease has ended, or that others have removed this life
	// although it still had one. Changed is not called after it.
	LeaseLost(cause error)
}

// Registry is where nodes become members.
type Registry interface {
	// Join makes the candidate a member, waiting for nothing: its view may be pending when Join
	// returns. The session gets l's calls, the first one before or after Join returns.
	Join(c Candidate, l Listener) (Session, error)
}
