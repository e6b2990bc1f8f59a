package node

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/placement"
	"drtmd/verbs/fiber"
)

// adoptLook is the pause between two looks whether all workers of a member are paused.
const adoptLook = 200 * time.Microsecond

// Recovers reports whether the cluster goes on without a member that is gone: records have replicas, and the
// engines recover. It may be asked when the cluster has started.
func (c *Cluster) Recovers() bool {
	for _, w := range c.Workers() {
		if w.recoverer() == nil {
			return false
		}
	}
	return c.Config.Replicas > 1
}

// Pause begins to pause all workers without members that are gone (Worker.Pause). Nothing is under way in the
// members in this process when the tasks have ended.
func (c *Cluster) Pause(gone ...proto.NodeID) *Tasks {
	return c.Start("pause", 1, func(f *fiber.Fiber, w *Worker, _ int) error { return w.Pause(f, gone...) })
}

// Adopt begins to take a placement of a later epoch into use on all workers (Worker.Adopt). Until the tasks
// have ended, no other Pause may begin: it would not hold.
func (c *Cluster) Adopt(next *placement.Map) *Tasks {
	return c.Start("adopt", 1, func(f *fiber.Fiber, w *Worker, _ int) error {
		for {
			if ok, err := w.Adopt(f, next); ok || err != nil {
				return err
			}
			if err := f.Sleep(adoptLook); err != nil {
				return err
			}
		}
	})
}

// Replaced is Member.Replaced for the members in this process.
func (c *Cluster) Replaced(same *placement.Map) {
	for _, m := range c.Members {
		m.Replaced(same)
	}
}

// Fill begins to fill the replica of a shard that a member in this process has to fill (proto.Recoverer).
func (c *Cluster) Fill(n proto.NodeID, shard proto.ShardID) *Tasks {
	var first []*Worker
	for _, m := range c.Members {
		if m.ID == n {
			first = m.Workers[:1]
		}
	}
	t := newTasks(c.host, len(first))
	for _, w := range first {
		w.Worker.Submit("fill", func(f *fiber.Fiber) error { return w.recoverer().Fill(f, shard) }, t.ended)
	}
	return t
}
