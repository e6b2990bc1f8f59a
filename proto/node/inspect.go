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
		for _, conn := range w.conns {
			if conn != nil {
				count(conn.QP())
			}
		}
		if w.loop != nil {
			count(w.loop.QP())
		}
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
		if int(n) >= len(w.conns) || w.conns[n] == nil || w.conns[n].QP().State() != verbs.StateRTS {
			return false
		}
	}
	return true
}

// Registered is the memory that members in this process have registered for tables, in bytes.
func (c *Cluster) Registered() (bytes uint64) {
	for _, m := range c.Members {
		bytes += m.mr.Remote().Length
	}
	return bytes
}
