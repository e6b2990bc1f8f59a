package node

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"drtmd/proto"
	"drtmd/proto/placement"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// A change of the members takes each worker through two steps, on a fiber of its own thread. Pause: who is
// gone is fenced, and no transaction of the worker is under way. When all workers of all members have come
// so far, there is a new placement. Adopt: the worker takes it into use, and recovery begins; it goes on by
// itself, and the next Pause ends it.

// views is how far a member has come.
type views struct {
	mu     sync.Mutex    // held while the placement is changed
	paused []atomic.Bool // by worker
}

// viewing is how far a worker has come. It belongs to the worker's thread.
type viewing struct {
	adopted    uint64 // epoch of the placement in use
	recovering bool
	err        error // of a recovery that failed
	// paused says since when a change is under way, if changing; took is how long the last one was, from the
	// first Pause until nothing of the dead was left.
	changing bool
	paused   time.Duration
	took     time.Duration
	unfenced []*fiber.Conn // to who is gone, with the mutation lateFence
}

// lateFence is a mutation: who is gone is fenced when the recovery has ended.
const lateFence = "promote-before-fence"

// recoverer is the engine, if it is one; nil: its transactions do not outlive nodes.
func (w *Worker) recoverer() proto.Recoverer {
	r, _ := w.Engine.(proto.Recoverer)
	return r
}

// Pause fences nodes that are gone, and returns when nothing of the worker's transactions is under way.
func (w *Worker) Pause(f *fiber.Fiber, gone ...proto.NodeID) error {
	if v := &w.viewing; !v.changing {
		v.changing, v.paused = true, f.Now()
	}
	for _, n := range gone {
		if w.member.cluster.Mutation == lateFence {
			w.fenced[n].Store(true)
			w.viewing.unfenced = append(w.viewing.unfenced, w.conns[n])
		} else if err := w.Fence(n); err != nil {
			return err
		}
		if s := w.Peers[n].Session; s != nil {
			s.Close() // what it was asked is not answered any more
		}
	}
	if r := w.recoverer(); r != nil {
		if err := r.Pause(f); err != nil {
			return err
		}
	}
	w.member.views.paused[w.Index].Store(true)
	return nil
}

// Paused reports whether all workers of the member are.
func (m *Member) Paused() bool {
	for i := range m.views.paused {
		if !m.views.paused[i].Load() {
			return false
		}
	}
	return true
}

// Adopt takes a placement of a later epoch into use, and reports whether it is in use: not before all
// workers of the member are paused, which Adopt sees to for this one. Recovery runs on from then.
func (w *Worker) Adopt(f *fiber.Fiber, next *placement.Map) (bool, error) {
	if w.viewing.adopted >= next.Epoch {
		return true, nil
	}
	if err := w.Pause(f); err != nil {
		return false, err
	}
	m := w.member
	if ok, err := m.place(next); !ok || err != nil {
		return false, err
	}
	for _, s := range m.shares {
		if s != nil && w.Shares[s.shard] == nil {
			if err := m.openNew(w, s); err != nil {
				return false, err
			}
			d := m.describeShare(s)
			w.reachShare(w.Node, &d)
		}
	}
	w.viewing.adopted = next.Epoch
	m.views.paused[w.Index].Store(false)
	if r := w.recoverer(); r != nil {
		w.viewing.recovering = true
		w.Worker.Go("recover", nil, func(f *fiber.Fiber) error {
			err := r.Recover(f, next.Epoch, next.Lives)
			v := &w.viewing
			for _, c := range v.unfenced {
				_ = c.QP().ToError()
			}
			v.unfenced = nil
			v.recovering, v.err = false, errors.Join(v.err, err)
			if !m.views.paused[w.Index].Load() { // else the next change has ended it
				v.changing, v.took = false, f.Now()-v.paused
			}
			return nil
		})
	}
	return true, nil
}

// Follow raises the epoch of the worker's messages to a newer view's, before there is a placement to adopt: a
// member that has just come can meet the others only so.
func (w *Worker) Follow(epoch uint64) error {
	if e := rpc.Epoch(epoch); w.viewing.adopted == 0 && w.Env.Port != nil && e > w.Env.Port.Epoch() {
		return w.Env.Port.SetEpoch(e)
	}
	return nil
}

// Recovering reports whether the recovery of the last Adopt runs, and why the last one failed, or what is wrong with
// what another node has sent (proto.Troubled).
func (w *Worker) Recovering() (bool, error) {
	err := w.viewing.err
	if e, ok := w.Engine.(proto.Troubled); ok {
		err = cmp.Or(err, e.Trouble())
	}
	return w.viewing.recovering, err
}

// Took is how long the last change of the members was for the worker, from its Pause until its recovery
// had ended; 0: there was none.
func (w *Worker) Took() time.Duration { return w.viewing.took }

// Adopted is the epoch of the placement in use.
func (w *Worker) Adopted() uint64 { return w.viewing.adopted }

// place gives the member a placement of a later epoch, if all its workers are paused, with memory for the
// replicas that it has to fill.
func (m *Member) place(next *placement.Map) (bool, error) {
	m.views.mu.Lock()
	defer m.views.mu.Unlock()
	if m.Map().Epoch >= next.Epoch {
		return true, nil
	}
	if !m.Paused() {
		return false, nil
	}
	for _, shard := range next.Held(m.ID) {
		if m.shares[shard] != nil {
			continue
		}
		s, err := m.makeShare(shard)
		if err != nil {
			return false, err
		}
		s.empty, s.filled = true, true
		m.shares[shard] = s
	}
	m.placed.Use(next)
	return true, nil
}

// openNew gives a worker its view of a share that was made after the member. The first one formats it.
func (m *Member) openNew(w *Worker, s *share) error {
	m.views.mu.Lock()
	defer m.views.mu.Unlock()
	if err := m.openShare(w, s, s.empty); err != nil {
		return err
	}
	s.empty = false
	return nil
}

// Replaced takes the placement of the same epoch into use in which more replicas are complete.
func (m *Member) Replaced(same *placement.Map) {
	m.views.mu.Lock()
	defer m.views.mu.Unlock()
	if m.Map().Epoch == same.Epoch {
		m.placed.Use(same)
	}
}

// typeShares asks a peer for its shares: the response is their descriptors, one behind the other.
const typeShares rpc.Type = 0x22

// sharesBytes is the longest response.
const sharesBytes = 16 << 10

// learnShares asks a peer which shares it has, if a shard is said to be there and is not known.
func (w *Worker) learnShares(f *fiber.Fiber, peer proto.NodeID) error {
	p := &w.Peers[peer]
	unknown := false
	for _, shard := range w.member.Map().Held(peer) {
		unknown = unknown || p.Shares == nil || p.Shares[shard] == nil
	}
	if !unknown || peer == w.Node {
		return nil
	}
	if p.Session == nil {
		return fmt.Errorf("node %d has no session", peer)
	}
	var req [callerBytes]byte
	w.keeper.sign(req[:])
	resp := make([]byte, sharesBytes)
	n, err := p.Session.Call(f, typeShares, req[:], resp, f.Now()+w.keeper.times.Patience)
	if err != nil {
		return err
	}
	for b := resp[:n]; len(b) > 0; {
		var d ShareDescriptor
		if d, b, err = decodeShare(b); err != nil {
			return fmt.Errorf("%w: %w", ErrBadDescriptor, err)
		}
		if err := w.member.checkTables(peer, &d); err != nil {
			return err
		}
		if int(d.Shard) < len(p.Shares) && p.Shares[d.Shard] == nil {
			w.reachShare(peer, &d)
		}
	}
	return nil
}

// describeShares is the handler of typeShares.
func (w *Worker) describeShares(req, resp []byte) (int, error) {
	if _, err := w.keeper.caller(req); err != nil {
		return 0, err
	}
	m, n := w.member, 0
	m.views.mu.Lock()
	defer m.views.mu.Unlock()
	for _, s := range m.shares {
		if s == nil {
			continue
		}
		b, err := m.describeShare(s).MarshalBinary()
		if err != nil || n+len(b) > len(resp) {
			return 0, errors.Join(err, fmt.Errorf("the shares take more than %d bytes", len(resp)))
		}
		n += copy(resp[n:], b)
	}
	return n, nil
}

// makeShare registers memory for a replica.
func (m *Member) makeShare(shard proto.ShardID) (*share, error) {
	mr, err := m.allocTables(m.shareBytes, m.keptAs(shard))
	if err != nil {
		return nil, fmt.Errorf("%d bytes of memory for the tables of shard %d: %w", m.shareBytes, shard, err)
	}
	return &share{shard: shard, mr: mr, growth: m.growths(shard)}, nil
}
