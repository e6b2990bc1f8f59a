package occ

import "drtmd/proto"

// count notes what is sent to a node, and the bytes that come back. What goes through the own node's NIC is
// no message.
func (t *tx) count(p proto.Phase, node proto.NodeID, requests, bytes int) {
	if node == t.e.Env.Node {
		return
	}
	x := &t.e.Counters.Phases[p]
	x.Requests += uint64(requests)
	x.Bytes += uint64(bytes)
}

// countSent notes what package onesided has sent: rounds that came one after the other.
func (t *tx) countSent(p proto.Phase) {
	x := &t.e.Counters.Phases[p]
	x.Requests += t.Sent.Requests
	x.Bytes += t.Sent.Bytes
	t.trips += t.Sent.Trips
}

// countTrips ends a round of a phase: messages and one-sided operations of it were in flight together.
func (t *tx) countTrips(p proto.Phase) {
	t.e.Counters.Phases[p].Trips += t.trips
	t.trips = 0
}
