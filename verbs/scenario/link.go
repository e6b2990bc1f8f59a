package scenario

import (
	"errors"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// ErrOver ends a program that would wait beyond the end of the run.
var ErrOver = errors.New("the run is over")

const (
	passiveCQ = 16 // nothing completes there
	// retryInterval is how long a program waits before it connects again.
	retryInterval = 50 * time.Microsecond
)

// linkAttr has timeouts that fit a run of milliseconds: 4 retries after 131 us each.
var linkAttr = verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 1},
	RTS: verbs.RTSAttr{Timeout: 5, RetryCount: 4, RNRRetry: 3}}

// Link is the way of one worker to the memory of a machine. It is connected when it is first
// used, and anew after it failed or its peer restarted. The two ends learn of each other at once
// and without the network: a link stands for what a connection manager does.
//
// It belongs to one life of its worker's machine: Boot makes it. The passive end that a former
// life left behind is closed before the machine boots again.
type Link struct {
	m      *Machine
	worker int
	to     *Machine

	lock fiber.Mutex // held while it is made anew
	conn *fiber.Conn
	peer *verbs.QP // the passive end
	life uint32    // of the peer, when it was connected
}

// NewLink makes a link of a worker.
func (m *Machine) NewLink(worker int, to *Machine) *Link {
	l := &Link{m: m, worker: worker, to: to}
	m.links = append(m.links, l)
	return l
}

// peerUp reports whether the life of the peer goes on to which the link was connected.
func (l *Link) peerUp() bool {
	return l.to.Up() && l.life == l.to.Node.Incarnation()
}

// closePeer frees the passive end, if it still exists. What is on its way to it is lost: a
// message of a link that was given up changes nothing any more.
func (l *Link) closePeer() error {
	peer := l.peer
	l.peer = nil
	if peer == nil || !l.peerUp() {
		return nil
	}
	return peer.Close()
}

// good reports whether nothing is known of a failure of the link. That the peer is down is found
// out by an operation that fails.
func (l *Link) good() bool {
	return l.conn != nil && l.conn.Err() == nil && l.conn.QP().State() == verbs.StateRTS &&
		l.life == l.to.Node.Incarnation()
}

// Conn is the link's connection, once there is one. Other fibers of the worker may share it. It
// fails with ErrOver when the run is over, and when the fiber is cancelled.
func (l *Link) Conn(f *fiber.Fiber) (*fiber.Conn, error) {
	for {
		if l.good() {
			return l.conn, nil
		}
		if l.m.Env.Over() {
			return nil, ErrOver
		}
		if err := l.lock.Lock(f); err != nil {
			return nil, err
		}
		err := l.renew(f)
		l.lock.Unlock(f)
		if err != nil {
			return nil, err
		}
		if l.good() {
			return l.conn, nil
		}
		if err := f.Sleep(retryInterval); err != nil {
			return nil, err
		}
	}
}

// renew closes a bad connection and makes a new one if the peer is up.
func (l *Link) renew(f *fiber.Fiber) error {
	if l.good() { // another fiber has done it
		return nil
	}
	if l.conn != nil {
		old := l.conn
		l.conn = nil
		if err := l.closePeer(); err != nil {
			return err
		}
		if err := old.Close(f); err != nil {
			return err
		}
	}
	if !l.to.Up() {
		return nil
	}
	conn, peer, err := l.connect()
	if err != nil {
		return err
	}
	l.conn, l.peer, l.life = conn, peer, l.to.Node.Incarnation()
	return nil
}

func (l *Link) connect() (*fiber.Conn, *verbs.QP, error) {
	conn, err := l.m.Workers[l.worker].NewConn(0)
	if err != nil {
		return nil, nil, err
	}
	peer, err := l.to.PD.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: l.to.cq,
		RecvCQ: l.to.cq, SendDepth: 1, RecvDepth: 1, Access: verbs.AccessAll})
	if err != nil {
		return nil, nil, err
	}
	near := conn.Endpoint()
	if err := peer.Connect(&near, linkAttr); err != nil {
		return nil, nil, err
	}
	return conn, peer, conn.Connect(peer.Endpoint(), linkAttr)
}
