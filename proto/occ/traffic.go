package occ

import (
	"slices"

	"drtmd/proto"
	"drtmd/proto/recovery"
)

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

// CountRecords implements proto.RecordCounter.
func (e *Engine) CountRecords() { e.countsRecords = true }

// countRecords notes the records that a message is about. A log record, and what says how it ended, names all of the
// transaction and is about those that its node has to hold.
func (t *tx) countRecords(p proto.Phase, c *call) {
	if !t.e.countsRecords {
		return
	}
	n := len(c.records)
	if c.typ == TypeLog || c.typ == TypeEnd {
		for i := range t.Records {
			if r := &t.Records[i]; t.logsRecord(r) && t.holds(r, c.node) {
				n++
			}
		}
	}
	t.e.Counters.Phases[p].Records += uint64(n)
}

// holds reports whether a node has to hold the log record of a transaction because of one of its records.
func (t *tx) holds(r *record, n proto.NodeID) bool {
	if t.e.strategy.LogsPrimary && r.Node == n {
		return true
	}
	return slices.Contains(recovery.Holders(nil, r.At, t.e.Env.Node), n)
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
