package node

import (
	"drtmd/proto"
	"drtmd/verbs"
)

// QueuePairs counts a cluster's queue pairs in this process.
type QueuePairs struct {
	RC, UD  int
	InError int
}

// QueuePairs may be called from any goroutine.
func (c *Cluster) QueuePairs() QueuePairs {
	var n QueuePairs
	count := func(qp *verbs.QP) {
		n.RC++
		if qp.State() == verbs.StateErr {
			n.InError++
		}
	}
	for _, w := range c.Workers() {
		w.mu.Lock()
		for _, conn := range append(w.conns[:len(w.conns):len(w.conns)], w.loop) {
			if conn != nil {
				count(conn.QP())
			}
		}
		w.mu.Unlock()
		if w.Port != nil {
			n.UD++
		}
	}
	return n
}

// Linked reports whether every queue pair of this process to a member is ready to send. It may be
// called from any goroutine.
func (c *Cluster) Linked(n proto.NodeID) bool {
	for _, w := range c.Workers() {
		if int(n) >= len(w.Peers) || !w.Linked(n) {
			return false
		}
	}
	return true
}

// Linked is that of the cluster, for one worker.
func (w *Worker) Linked(n proto.NodeID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int(n) < len(w.conns) && w.conns[n] != nil && w.conns[n].QP().State() == verbs.StateRTS
}

// Registered is the memory that members in this process have registered for tables and logs, in bytes.
func (c *Cluster) Registered() (bytes uint64) {
	for _, m := range c.Members {
		for _, s := range m.shares {
			if s != nil {
				bytes += s.mr.Remote().Length
				for _, g := range s.growth {
					bytes += uint64(g.Bytes())
				}
			}
		}
		if m.logs != nil {
			bytes += m.logs.mr.Remote().Length
		}
	}
	return bytes
}
