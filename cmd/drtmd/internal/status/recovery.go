package status

import (
	"fmt"
	"strings"
	"time"

	"drtmd/proto"
)

// Recovery is what a node has of the replicas of a plane whose records have several, and how far it is with
// the last change of the members. Shards have the numbers of partitions.
type Recovery struct {
	Epoch   uint64          `json:"epoch"`   // of the placement in use
	Running bool            `json:"running"` // of the last change something is left to do
	Serves  []proto.ShardID `json:"serves"`  // it is their primary
	Backs   []proto.ShardID `json:"backs"`   // it has a complete backup of them
	Fills   []proto.ShardID `json:"fills"`   // it has a backup of them that is not complete yet
	// Undecided are transactions of nodes that are gone; Committed and Aborted are those that this node has
	// decided since the plane was built, and Filled the records that it has copied.
	Undecided int     `json:"undecided"`
	Committed uint64  `json:"committed"`
	Aborted   uint64  `json:"aborted"`
	Filled    uint64  `json:"records_filled"`
	TookS     float64 `json:"took_s"`          // the last change, from the pause until nothing of the dead was left
	Error     string  `json:"error,omitempty"` // why the recovery has failed
}

// String is for people.
func (r *Recovery) String() string {
	s := fmt.Sprintf("epoch %d; serves shards %v, backs up %v", r.Epoch, r.Serves, r.Backs)
	if len(r.Fills) > 0 {
		s += fmt.Sprintf(", fills %v (%d records so far)", r.Fills, r.Filled)
	}
	switch {
	case r.Error != "":
		return s + "; recovery has failed: " + r.Error
	case r.Running:
		s += fmt.Sprintf("; recovers, %d transactions undecided", r.Undecided)
	case r.TookS > 0:
		s += fmt.Sprintf("; last recovery took %v", time.Duration(r.TookS*1e9).Round(10*time.Microsecond))
	}
	if n := r.Committed + r.Aborted; n > 0 {
		s += fmt.Sprintf("; of %d transactions of nodes that are gone it has committed %d", n, r.Committed)
	}
	return s
}

// Replicas says where the replicas of each shard are, by node id, the one that serves it first; "" where
// nothing is replicated.
func (c *Cluster) Replicas() string {
	s := &c.State.Shards
	m := s.Placement
	if m == nil {
		return ""
	}
	node := func(n proto.NodeID) string {
		if int(n) >= len(s.Primary) {
			return "?"
		}
		return fmt.Sprint(s.Primary[n].Node)
	}
	var list []string
	missing := 0
	for i := range m.Shards {
		x := &m.Shards[i]
		if x.Lost() {
			list = append(list, fmt.Sprintf("%d lost", i))
			missing += m.Replicas
			continue
		}
		text := fmt.Sprintf("%d on %s", i, node(x.Primary))
		missing += m.Replicas - 1
		for _, b := range x.Backups {
			text += "+" + node(b)
			if x.Complete(b) {
				missing--
			} else {
				text += " (filling)"
			}
		}
		list = append(list, text)
	}
	text := fmt.Sprintf("%d of each record, epoch %d: shard %s", m.Replicas, m.Epoch, strings.Join(list, ", "))
	if missing > 0 {
		text += fmt.Sprintf("; %d missing", missing)
	}
	return text
}
