package node

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drtmd/proto"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// A link that goes away takes the queue pairs with it: requests in flight fail when their retries are
// used up, and the queue pair is in error for ever. The members live on, and so must what they owe
// each other. So each worker has a keeper, a fiber that looks after its ways to the peers: it opens
// sessions anew, makes new queue pairs in place of broken ones, and has the engine pay its debts
// (proto.Debtor) when a peer can be reached again.
//
// Of two members the one with the lower number makes the new queue pair, by RPC between the two
// workers, whose ports are datagram queue pairs that outlast an outage under their address. The other
// one tells it when its own end has failed. A request carries the incarnation of the caller's port,
// which both sides know since they were first connected: nobody else, and no other life of a peer, is
// connected.
//
// A member that was removed (Cluster.Disconnect) is fenced: no queue pair to it is made, or taken into
// use, from then on. Worker.mu makes that airtight: a queue pair is brought to life and published
// under it, after a look at the fence.

// RPC types of this package; engines have those from 0x40 on.
const (
	typeReconnect rpc.Type = 0x20 // here is my new queue pair, give me yours
	typeBroken    rpc.Type = 0x21 // my end of our queue pair has failed
)

// Requests, little endian: node 2 | worker 2 | zero 4 | incarnation of the caller's port 8, and for
// typeReconnect the caller's endpoint 64. The response to typeReconnect is the endpoint 64.
const (
	callerBytes    = 16
	endpointBytes  = 64
	reconnectBytes = callerBytes + endpointBytes
)

// KeepTimes are those of a worker's keeper.
type KeepTimes struct {
	Look     time.Duration // between two looks when all is well; 0 = 10 ms
	Retry    time.Duration // after a failed try, doubling; 0 = 2 ms
	Most     time.Duration // the longest pause after a failed try; 0 = 256 ms
	Patience time.Duration // for one call or session; 0 = 1 s
}

// Defaults of KeepTimes.
const (
	keepLook     = 10 * time.Millisecond
	keepRetry    = 2 * time.Millisecond
	keepMost     = 256 * time.Millisecond
	keepPatience = time.Second
)

func (t KeepTimes) filled() KeepTimes {
	return KeepTimes{Look: cmp.Or(t.Look, keepLook), Retry: cmp.Or(t.Retry, keepRetry),
		Most: cmp.Or(t.Most, keepMost), Patience: cmp.Or(t.Patience, keepPatience)}
}

// errFenced: the peer was removed.
var errFenced = errors.New("node: the peer was removed")

// keeper is what a worker knows of its ways to the peers. It belongs to the worker's thread.
type keeper struct {
	w     *Worker
	times KeepTimes
	lacks keeperMutation
	// told[n]: peer n has said that its end is broken.
	told []bool
	// with[n] is the incarnation of the peer's port that the session is with.
	with []uint64
	// next and wait are when to try again with a peer, and how long to wait after that.
	next, wait []time.Duration
}

// serveReconnect makes the keeper, and registers its handlers before the port's address is given
// away.
func (w *Worker) serveReconnect(c *Config) {
	peers := len(w.Peers)
	lacks, _ := keeperMutations.Find(c.Mutation) // 0: the mutation is not the keeper's
	w.keeper = keeper{w: w, times: c.Keep.filled(), lacks: lacks,
		told: make([]bool, peers), with: make([]uint64, peers),
		next: make([]time.Duration, peers), wait: make([]time.Duration, peers)}
	if w.Port == nil {
		return
	}
	w.Port.Handle(typeReconnect, w.keeper.answer)
	w.Port.Handle(typeShares, w.describeShares)
	w.Port.Handle(typeBroken, func(req, _ []byte) (int, error) {
		n, err := w.keeper.caller(req)
		if err == nil {
			w.keeper.told[n] = true
		}
		return 0, err
	})
}

// keep looks after the ways to all peers until the cluster stops.
func (w *Worker) keep(f *fiber.Fiber) error {
	for !w.over.Load() {
		soonest := w.keeper.times.Look
		for n := range w.Peers {
			peer := proto.NodeID(n)
			if w.Mend(f, peer) || w.Fenced(peer) {
				continue
			}
			soonest = min(soonest, max(w.keeper.next[n]-f.Now(), w.keeper.times.Retry))
		}
		for n := range w.Peers {
			w.Pay(f, proto.NodeID(n))
		}
		if err := f.Sleep(soonest); err != nil {
			return err
		}
	}
	return nil
}

// Mend sees to the way to a peer, on a fiber of the worker: it opens the session and makes the queue
// pair anew if they are broken. It reports whether all is well now. A peer that was fenced is left
// alone. After a failure it waits before it tries again, longer each time.
func (w *Worker) Mend(f *fiber.Fiber, peer proto.NodeID) bool {
	k := &w.keeper
	if k.fenced(peer) || f.Now() < k.next[peer] {
		return false
	}
	if err := k.mend(f, peer); err != nil {
		k.wait[peer] = min(max(2*k.wait[peer], k.times.Retry), k.times.Most)
		k.next[peer] = f.Now() + k.wait[peer]
		return false
	}
	k.wait[peer], k.next[peer] = 0, 0
	return true
}

// Pay has the engine do what it owes at a peer that can be reached.
func (w *Worker) Pay(f *fiber.Fiber, peer proto.NodeID) {
	e, ok := w.Engine.(proto.Debtor)
	if ok && e.DebtsAt(peer) > 0 && !w.Fenced(peer) && !w.broken(peer) && w.keeper.lacks != noPayment {
		e.Finish(f, peer)
	}
}

func (k *keeper) mend(f *fiber.Fiber, peer proto.NodeID) error {
	w := k.w
	broken := w.broken(peer) && k.lacks != noReconnection
	if peer == w.Node {
		if broken {
			return w.rejoinSelf(f)
		}
		return nil
	}
	if err := k.session(f, peer); err != nil {
		return err
	}
	switch {
	case !broken && !k.told[peer]:
		if w.viewing.adopted > 0 {
			return w.learnShares(f, peer)
		}
		return nil
	case w.Node < peer:
		return k.reconnect(f, peer)
	}
	// The peer makes the queue pair: it is told, and its request will find this end.
	var req [callerBytes]byte
	k.sign(req[:])
	if _, err := w.Peers[peer].Session.Call(f, typeBroken, req[:], nil, f.Now()+k.times.Patience); err != nil {
		return err
	}
	if w.broken(peer) {
		return errors.New("the peer was asked to reconnect, and has not yet")
	}
	return nil
}

// broken reports whether the own end of the queue pair to a peer has failed.
func (w *Worker) broken(peer proto.NodeID) bool {
	bad := func(c *fiber.Conn) bool {
		return c == nil || c.Err() != nil || c.QP().State() != verbs.StateRTS
	}
	return bad(w.conns[peer]) || peer == w.Node && bad(w.loop)
}

// session opens the session with a peer anew if it has failed, or is with another life of the peer.
func (k *keeper) session(f *fiber.Fiber, peer proto.NodeID) error {
	w := k.w
	p := &w.Peers[peer]
	address := w.addresses[peer]
	if p.Session != nil && p.Session.Err() == nil && k.with[peer] == address.Incarnation {
		return nil
	}
	s, err := w.Port.Connect(f, address, f.Now()+k.times.Patience)
	if err != nil {
		return err
	}
	if p.Session != nil {
		p.Session.Close()
	}
	p.Session, k.with[peer] = s, address.Incarnation
	return nil
}

// sessionWith is Env.Connect.
func (w *Worker) sessionWith(f *fiber.Fiber, n proto.NodeID, worker int,
	deadline time.Duration) (*rpc.Session, error) {
	if int(n) >= len(w.ports) || worker < 0 || worker >= len(w.ports[n]) {
		return nil, fmt.Errorf("session with worker %d of node %d: no such worker is known here", worker, n)
	}
	if w.Fenced(n) {
		return nil, fmt.Errorf("session with worker %d of node %d: %w", worker, n, errFenced)
	}
	return w.Port.Connect(f, w.ports[n][worker], deadline)
}

// addPeer has the keeper know a peer, or another life of it, by the addresses of its ports. On the worker's
// thread, or before anything runs.
func (w *Worker) addPeer(peer proto.NodeID, ports []rpc.Address) {
	w.addresses[peer], w.ports[peer] = ports[w.Index], ports
	k := &w.keeper
	k.told[peer], k.next[peer], k.wait[peer] = false, 0, 0
}

// knows reports whether the address of a peer's port is known.
func (w *Worker) knows(peer proto.NodeID) bool { return w.addresses[peer].Incarnation != 0 }

// sign writes who calls.
func (k *keeper) sign(b []byte) {
	le := binary.LittleEndian
	clear(b[:callerBytes])
	le.PutUint16(b, uint16(k.w.Node))
	le.PutUint16(b[2:], uint16(k.w.Index))
	le.PutUint64(b[8:], k.w.Port.Address().Incarnation)
}

// caller reads who calls, and refuses who is not the peer that the worker was connected to.
func (k *keeper) caller(req []byte) (proto.NodeID, error) {
	le := binary.LittleEndian
	if len(req) != callerBytes && len(req) != reconnectBytes {
		return 0, errors.New("malformed request")
	}
	n, worker := proto.NodeID(le.Uint16(req)), int(le.Uint16(req[2:]))
	w := k.w
	switch {
	case int(n) >= len(w.addresses) || n == w.Node || worker != w.Index || !w.knows(n) ||
		le.Uint64(req[8:]) != w.addresses[n].Incarnation && k.lacks != anyLife:
		return 0, fmt.Errorf("node %d worker %d is no peer of worker %d", n, worker, w.Index)
	case k.fenced(n):
		return 0, errFenced
	}
	return n, nil
}

// fenced reports whether a peer was removed.
func (k *keeper) fenced(peer proto.NodeID) bool {
	return k.w.Fenced(peer) && k.lacks != fenceForgotten
}

// reconnect makes a queue pair to a peer in place of the broken one.
func (k *keeper) reconnect(f *fiber.Fiber, peer proto.NodeID) error {
	w := k.w
	near, err := w.Worker.NewConn(verbs.AccessAll)
	if err != nil {
		return err
	}
	var req [reconnectBytes]byte
	var resp [endpointBytes]byte
	k.sign(req[:])
	e, err := near.Endpoint().MarshalBinary()
	if err == nil {
		copy(req[callerBytes:], e)
		_, err = w.Peers[peer].Session.Call(f, typeReconnect, req[:], resp[:], f.Now()+k.times.Patience)
	}
	var far verbs.Endpoint
	if err == nil {
		err = far.UnmarshalBinary(resp[:])
	}
	if err == nil {
		err = w.take(peer, near, far)
	}
	if err != nil {
		w.retire(near)
		return err
	}
	k.told[peer] = false
	return nil
}

// answer makes this end of a new queue pair: the handler of typeReconnect.
func (k *keeper) answer(req, resp []byte) (int, error) {
	n, err := k.caller(req)
	if err != nil {
		return 0, err
	}
	if len(req) != reconnectBytes || len(resp) < endpointBytes {
		return 0, errors.New("malformed request")
	}
	var far verbs.Endpoint
	if err := far.UnmarshalBinary(req[callerBytes:]); err != nil {
		return 0, err
	}
	w := k.w
	near, err := w.Worker.NewConn(verbs.AccessAll)
	if err != nil {
		return 0, err
	}
	e, err := near.Endpoint().MarshalBinary()
	if err == nil {
		err = w.take(n, near, far)
	}
	if err != nil {
		w.retire(near)
		return 0, err
	}
	return copy(resp, e), nil
}

// take connects a new queue pair to a peer's and takes it into use, unless the peer is fenced. The old
// one is in error before: what of it is still on its way changes nothing any more.
func (w *Worker) take(peer proto.NodeID, near *fiber.Conn, far verbs.Endpoint) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keeper.fenced(peer) {
		return errFenced
	}
	old := w.conns[peer]
	if old != nil && w.keeper.lacks != oldWayOpen {
		if err := old.QP().ToError(); err != nil {
			return err
		}
	}
	if err := near.Connect(far, w.connect); err != nil {
		return err
	}
	w.conns[peer], w.Peers[peer].Conn = near, near
	if old != nil {
		w.retire(old)
	}
	return nil
}

// rejoinSelf makes the way of a worker to its own memory anew, and tries it: the interface may still be
// down, which to connect the two ends does not show everywhere.
func (w *Worker) rejoinSelf(f *fiber.Fiber) error {
	for _, old := range []*fiber.Conn{w.conns[w.Node], w.loop} { // nothing of it may still take effect
		if old == nil {
			continue
		}
		if w.keeper.lacks == oldWayOpen {
			break
		}
		if err := old.QP().ToError(); err != nil {
			return err
		}
	}
	near, err := w.Worker.NewConn(verbs.AccessAll)
	if err != nil {
		return err
	}
	far, err := w.Worker.NewConn(verbs.AccessAll)
	if err == nil {
		err = errors.Join(far.Connect(near.Endpoint(), w.connect), near.Connect(far.Endpoint(), w.connect))
		if err == nil {
			err = w.try(f, near)
		}
		if err != nil {
			w.retire(far)
		}
	}
	if err != nil {
		w.retire(near)
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old, oldLoop := w.conns[w.Node], w.loop
	w.conns[w.Node], w.loop, w.Peers[w.Node].Conn = near, far, near
	w.retire(old)
	w.retire(oldLoop)
	return nil
}

// try reads a word of the own memory by a queue pair.
func (w *Worker) try(f *fiber.Fiber, c *fiber.Conn) (err error) {
	mr, err := w.Worker.PD().AllocMR(8, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	own := &w.Peers[w.Node].Memory
	was := f.Shield() // the buffer is the READ's until it has ended
	err = c.Read(f, mr.SGE(0, 8), own.Addr, own.RKey)
	f.Unshield(was)
	return errors.Join(err, mr.Close())
}

// retire frees a queue pair when what was in flight on it is flushed.
func (w *Worker) retire(c *fiber.Conn) {
	if c == nil {
		return
	}
	w.Worker.Go("retire", nil, func(f *fiber.Fiber) error {
		if w.keeper.lacks == oldWayOpen {
			if err := f.Sleep(w.keeper.times.Patience); err != nil {
				return err
			}
		}
		return c.Close(f)
	})
}

// BreakLink moves the own end of the queue pair to a peer to the error state, as an outage does: for
// tests. From any goroutine.
func (w *Worker) BreakLink(peer proto.NodeID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns[peer].QP().ToError()
}

// Fence has no queue pair to a peer work, now and later. From any goroutine.
func (w *Worker) Fence(peer proto.NodeID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fenced[peer].Store(true)
	if int(peer) >= len(w.conns) || w.conns[peer] == nil {
		return nil
	}
	return w.conns[peer].QP().ToError()
}

// Admit ends the fence of a peer: another life of it is to be met. From any goroutine.
func (w *Worker) Admit(peer proto.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fenced[peer].Store(false)
}

// Fenced reports whether a peer was removed (Cluster.Disconnect): nothing connects to it again, and
// its locks are nobody's. From any goroutine.
func (w *Worker) Fenced(peer proto.NodeID) bool { return w.fenced[peer].Load() }
