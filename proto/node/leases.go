package node

import (
	"time"

	"drtmd/proto"
	"drtmd/verbs"
)

// Leases are the longest that the engines of the members in this process take; ok is false if the
// protocol has none. The engines are made.
func (c *Cluster) Leases() (lease, readOnly time.Duration, ok bool) {
	for _, w := range c.Workers() {
		if e, has := w.Engine.(proto.Leaser); has {
			l, r := e.Leases()
			lease, readOnly, ok = max(lease, l), max(readOnly, r), true
		}
	}
	return lease, readOnly, ok
}

// worstError has the histories of a member say how wrong its clock has been, where the clock knows
// that only afterwards. The workers have stopped.
func (m *Member) worstError() {
	c, ok := m.cfg.RecorderClock.(interface{ Worst() time.Duration })
	if !ok {
		return
	}
	worst := int64(c.Worst() + verbs.MonotonicError)
	for _, w := range m.Workers {
		w.Recorder.SetClockError(worst)
	}
}
