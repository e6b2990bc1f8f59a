package admin

import (
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
)

// wholeSample is what all nodes did between two looks at the cluster; nil where the time between
// them was too long to tell.
type wholeSample struct {
	Time      time.Time `json:"time"` // UTC
	Committed *float64  `json:"committed_per_s"`
	Aborts    *float64  `json:"aborts_per_s"`
}

// wholeGap is the time between two looks behind which nothing is said of what was between them:
// more than one phase of a run may have passed. The page looks each second, while somebody has it
// open.
const wholeGap = 5 * time.Second

// whole has the last samples of the whole cluster. The maker of views owns it.
type whole struct {
	list []wholeSample
	last map[proto.NodeID]status.Load
	at   time.Time
}

// add takes a look at the cluster and gives all samples, for others to keep.
func (w *whole) add(c *status.Cluster, now time.Time) []wholeSample {
	x := wholeSample{Time: now.UTC()}
	if d := now.Sub(w.at); d > 0 && d <= wholeGap {
		committed, aborted := w.since(c)
		perSecond := func(n uint64) *float64 {
			v := float64(n) / d.Seconds()
			return &v
		}
		x.Committed, x.Aborts = perSecond(committed), perSecond(aborted)
	}
	w.last, w.at = map[proto.NodeID]status.Load{}, now
	for i := range c.Nodes {
		if l := c.Nodes[i].Load; l != nil {
			w.last[c.Nodes[i].Member.Node] = *l
		}
	}
	if len(w.list) == keptSamples {
		w.list = slices.Delete(w.list, 0, 1)
	}
	w.list = append(w.list, x)
	return slices.Clone(w.list)
}

// since adds up what the nodes did since the last look. Counts are of a phase of a run: those of a
// new one are all new. A node that said nothing at the last look is left out, for its counts may be
// older.
func (w *whole) since(c *status.Cluster) (committed, aborted uint64) {
	idle := len(w.last) == 0 // nothing ran then, so all that runs is new
	for i := range c.Nodes {
		l := c.Nodes[i].Load
		if l == nil {
			continue
		}
		last, known := w.last[c.Nodes[i].Member.Node]
		if !known && !idle {
			continue
		}
		if last.Run != l.Run || last.Phase != l.Phase || last.Committed > l.Committed ||
			last.Aborted > l.Aborted {
			last = status.Load{}
		}
		committed += l.Committed - last.Committed
		aborted += l.Aborted - last.Aborted
	}
	return committed, aborted
}
