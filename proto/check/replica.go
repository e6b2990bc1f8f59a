package check

import (
	"fmt"

	"drtmd/proto/history"
)

// loadReplica takes what one replica holds of a key. The first that names the key stands for all; the
// others must hold the same. A deleted key may be gone from a replica without a trace, and not from another.
func (c *checker) loadReplica(s *contents, x *history.Content) {
	key := c.keys.number(x.Table, x.Key)
	for int(key) >= len(s.copies) {
		s.copies, s.first = append(s.copies, 0), append(s.first, history.Replica{})
	}
	f, now := s.of(key), content{x.State, uint64(x.Version), uint64(x.Digest)}
	if s.copies[key]++; s.copies[key] == 1 {
		s.first[key] = x.Replica
		s.set(key, now)
		return
	}
	switch {
	case s.first[key].Shard != x.Replica.Shard:
		c.reportReplica(key, "stands in shard %d on node %d, and in shard %d on node %d", s.first[key].Shard,
			s.first[key].Node, x.Replica.Shard, x.Replica.Node)
	case f != now:
		c.reportReplica(key, "of shard %d is %s on node %d, and %s on node %d", x.Replica.Shard, inReplica(f),
			s.first[key].Node, inReplica(now), x.Replica.Node)
	}
}

// compareReplicas finds keys that some replicas hold and others do not.
func (c *checker) compareReplicas() {
	of := map[uint16]uint16{} // how many replicas a shard has
	all := c.history.Replicas()
	c.result.Replicas = len(all)
	for _, r := range all {
		of[r.Shard]++
	}
	s := &c.final
	if s.known && len(all) > 0 {
		c.result.FinalKeys = new(uint64)
	}
	for key, n := range s.copies {
		if n == 0 {
			continue
		}
		*c.result.FinalKeys++
		if want := of[s.first[key].Shard]; n != want && s.states[key] == history.Present {
			c.reportReplica(uint32(key), "of shard %d is %s on node %d, and is on %d of %d replicas",
				s.first[key].Shard, inReplica(s.of(uint32(key))), s.first[key].Node, n, want)
		}
	}
}

func (c *checker) reportReplica(key uint32, format string, args ...any) {
	if c.enough(ReplicasDiffer) {
		return
	}
	c.add(Violation{Anomaly: ReplicasDiffer, Text: fmt.Sprintf("%v: in the end %s ", ReplicasDiffer,
		c.keyName(key)) + fmt.Sprintf(format, args...)})
}

// inReplica is a content in words.
func inReplica(x content) string {
	v := history.Version(x.version)
	switch x.state {
	case history.Deleted:
		return fmt.Sprintf("deleted with version %v", v)
	case history.Pending:
		return fmt.Sprintf("owed a write over version %v", v)
	}
	return fmt.Sprintf("at version %v with digest %016x", v, x.digest)
}
