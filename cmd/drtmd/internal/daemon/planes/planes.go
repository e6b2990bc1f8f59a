package planes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/daemon/board"
	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/proto/node"
	"drtmd/proto/placement"
	"drtmd/verbs"
)

const (
	// silence of a run's leader after which clients end by themselves.
	silence = 30 * time.Second
	// leaseLook is how often is looked whether a wait is over.
	leaseLook = 50 * time.Millisecond
	// retryWait is between two attempts at what failed.
	retryWait = 500 * time.Millisecond
	// longestWait is between two attempts at what has failed often.
	longestWait = 10 * time.Second
	// reconnectTimeout is how long a member of the newest view is asked again where nobody listens.
	reconnectTimeout = 3 * time.Second
	// askTimeout is what this node's workers get to say what they have counted: see askPatience.
	askTimeout = 2 * time.Second
	// aliveTimeout is how long a thread may take to come by.
	aliveTimeout = 5 * time.Second
)

// Members is what planes know of the cluster: membership.
type Members interface {
	// Now is the session, nil while the node is no member, and the newest state.
	Now() (member.Session, member.State)
	// State is the newest that the node has heard of. The caller owns it.
	State() member.State
	// Serving is the session of a node that may serve, or why it may not.
	Serving() (member.Session, error)
	// Fenced acknowledges the pending view of an epoch.
	Fenced(s member.Session, e member.Epoch) error
	// Others are the members of the newest view without this one.
	Others() []member.Member
	// Ask asks members how they are; phase gone: it does not answer.
	Ask(ctx context.Context, list []member.Member) []status.Node
	// OnGone has f called once when the member is in no view any more; stop ends that.
	OnGone(m member.Member, f func()) (stop func())
	// Client of a daemon.
	Client(address string) (*control.Client, error)
	// Plane says which members the plane is of that the node holds.
	Plane(list []member.Member)
	// StartAnew has the node join again, as another incarnation.
	StartAnew(cause error)
	// Lease is how long a node stays a member unheard of.
	Lease() time.Duration
}

// Part is this node's share of a plane: load.Part.
type Part interface {
	Do(ctx context.Context, r *load.Request) (*load.Answer, error)
	Disconnect(n proto.NodeID, cause error) error
	Fence(cause error) error
	Close() error
	Info() *load.Info
	Alive(ctx context.Context) error
	Counters(ctx context.Context) (*load.Metrics, error)
	Metrics(ctx context.Context) (*load.Metrics, error)
	Orphans(ctx context.Context) (load.Orphans, error)
	Troubles(ctx context.Context) ([]string, error)
	Pause(ctx context.Context, gone ...proto.NodeID) error
	Adopt(ctx context.Context, next *placement.Map) error
	Fill(ctx context.Context, n proto.NodeID, shard proto.ShardID) error
	Recovery(ctx context.Context) (*load.Recovery, error)
}

// Options of New.
type Options struct {
	Log     *zap.Logger
	Config  *config.Config
	Board   *board.Board
	Members Members
	Clock   verbs.Clock // of this machine
	Machine string      // names the clock that its processes share
	Data    *data.Store // what the node keeps of its tables; nil: nothing
	// Open builds the node's part of a plane.
	Open func(ctx context.Context, r *load.Request, p *node.Part) (*node.Cluster, *load.Options, error)
	// Threads is how many OS threads so many workers run on, of so many that were asked for; 0: none.
	Threads func(asked, workers int) int

	// Tests put something else in place of these; nil is the real thing.

	Part      Part
	Build     func(ctx context.Context, o load.PeerOptions) error
	BeforeAsk func() error                  // its error is what the leader's clock answers
	WrapClock func(verbs.Clock) verbs.Clock // of planes
}

// Planes are a node's, one at a time. The zero value is of no use: see New.
type Planes struct {
	o       Options
	part    Part // has a lock of its own
	clocks  *clocks
	changed chan struct{}   // something that the steward reacts to; holds one
	named   []member.Member // the steward's own: removed by the pending view, and an event has said so
	turned  atomic.Int64    // when the steward last looked, on the clock
	calls   sync.WaitGroup  // attempts to build, and fillings
	views   sync.Mutex      // held while the plane follows a view, from the look at the state on
	pausing time.Duration   // the steward's own: since when the plane is to pause; 0: it need not
	told    told            // the steward's own

	mu       sync.Mutex // guards what follows
	control  string     // address of the node's control plane
	tempDir  string     // for histories
	version  member.ShardVersion
	shards   member.ShardMap          // of version
	run      *run                     // led by this node
	rebuild  bool                     // the plane is used up, or was never built
	claimed  member.ShardVersion      // the last one that this node wrote as the leader
	building bool                     // or waits to try again
	built    member.ShardVersion      // the last one that is known to have been built by all members
	builtOf  []member.Member          // the members of the view then; not all of them need be primaries
	data     *load.Data               // of version; nil: none is kept
	filling  bool                     // a replica here
	filled   map[proto.ShardID]uint64 // replicas that were filled here, and the epoch for which
	recovery *load.Recovery           // as of the last look; nil: the records have no replicas
	failures int                      // to build, one after the other
	draining bool
	degraded []string
	orphans  *status.Orphans // as of the last look
}

// New makes the planes of a node that holds none.
func New(o Options) *Planes {
	p := &Planes{o: o, changed: make(chan struct{}, 1), rebuild: true}
	if p.o.Build == nil {
		p.o.Build = load.BuildPeers
	}
	p.filled = map[proto.ShardID]uint64{}
	p.clocks = &clocks{p: p}
	if p.part = o.Part; p.part == nil {
		p.part = load.NewPart(load.PartConfig{Open: o.Open, Clock: p.clocks.open, Silence: silence,
			Machine: o.Machine, Lease: p.leased})
	}
	return p
}

// SetPlace notes the address of the node's control plane, and a folder for histories.
func (p *Planes) SetPlace(control, tempDir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.control, p.tempDir = control, tempDir
}

// place is what SetPlace has noted.
func (p *Planes) place() (control, tempDir string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.control, p.tempDir
}

// spill is the file of what the last run recorded.
func (p *Planes) spill() string {
	_, tempDir := p.place()
	return filepath.Join(tempDir, "run.hist")
}

// Wait returns when no plane is being built any more, after the context of Steward has ended.
func (p *Planes) Wait() { p.calls.Wait() }

// Close closes the plane, and ends what keeps its clock.
func (p *Planes) Close() error {
	err := p.part.Close()
	p.clocks.stop()
	return err
}

// ClosePlane closes the plane alone, for a device that is gone.
func (p *Planes) ClosePlane() error { return p.part.Close() }

// Joining implements membership.Guard.
func (p *Planes) Joining() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rebuild = true
}

// Changed implements membership.Guard.
func (p *Planes) Changed() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// Lost implements membership.Guard.
func (p *Planes) Lost(cause error) {
	p.mu.Lock()
	r := p.run
	p.mu.Unlock()
	if r != nil {
		r.stop(cause)
	}
	p.Fence(cause)
}

// Fence takes the plane out of service at once.
func (p *Planes) Fence(cause error) {
	if err := p.part.Fence(cause); err != nil {
		p.o.Log.Error("queue pairs were not moved to the error state", zap.Error(err))
	}
}

// Rest waits before a node joins again whose clock has failed, at most until ctx ends.
func (p *Planes) Rest(ctx context.Context) { p.clocks.rest(ctx) }

// Drain has the node build no plane and begin no run any more.
func (p *Planes) Drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
}

// drains reports whether the node has been told to stop.
func (p *Planes) drains() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// partitions are the primaries of the plane that the node holds.
func (p *Planes) partitions() []member.Member {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.version == 0 {
		return nil
	}
	return slices.Clone(p.shards.Primary)
}

// connecting says what the node waits for until it serves.
func (p *Planes) connecting(w status.Wait) {
	st := p.o.Members.State()
	p.o.Board.Connecting(w, st.Shards.Run)
}

// Alive is an error while a thread of the plane, or the steward, does not turn.
func (p *Planes) Alive() error {
	ctx, cancel := context.WithTimeout(context.Background(), aliveTimeout)
	defer cancel()
	err := p.part.Alive(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a worker thread has made no pass for %v", aliveTimeout)
	}
	// A plane that is being closed is alive, whatever the error.
	bound := aliveTimeout + 3*p.o.Members.Lease() // calls of the registry take two leases at most
	if at := p.turned.Load(); at > 0 {
		if since := p.o.Clock.Now() - time.Duration(at); since > bound {
			return fmt.Errorf("the daemon's loop has made no pass for %v", since.Round(time.Second))
		}
	}
	return nil
}

// Metrics of the plane; nil while there is none.
func (p *Planes) Metrics(ctx context.Context) (*load.Metrics, error) { return p.part.Metrics(ctx) }
