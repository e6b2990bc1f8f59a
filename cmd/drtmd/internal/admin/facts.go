package admin

import (
	"fmt"
	"math"
	"strconv"

	"drtmd/cmd/drtmd/internal/status"
)

// fact is a line about the data plane, in words.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// count is a number in three digits or so, as page.js writes one.
func count(x float64) string {
	round := func(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
	switch {
	case x >= 1e6:
		return round(x/1e6, 2) + " M"
	case x >= 1e5:
		return round(x/1e3, 0) + " k"
	case x >= 1e4:
		return round(x/1e3, 1) + " k"
	case x >= 100 || x == math.Trunc(x):
		return round(x, 0)
	}
	return round(x, 2)
}

// countOf is a number with its noun.
func countOf(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// runText is the benchmark under way; "" is none.
func runText(c *status.Cluster) string {
	var first *status.Load
	sum, rate := uint64(0), 0.0
	for _, n := range c.Nodes {
		if l := n.Load; l != nil {
			if first == nil {
				first = l
			}
			sum += l.Committed
			rate += l.PerSecond
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf("%s: %s, %.1f of %.1f s; all nodes: %s committed/s, %s committed so far",
		first.Run, first.Phase, first.ElapsedS, first.OfS, count(rate), count(float64(sum)))
}

// planeFacts are what the data plane consists of, and how full its tables are. They are those of
// the node that answers, or of the first that has a plane; tables are added up over the nodes. Those
// that are gone are left out.
func planeFacts(c *status.Cluster) []fact {
	var of *status.Node
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Plane != nil && n.Phase != status.Gone && (of == nil || n.Member.Node == c.From) {
			of = n
		}
	}
	if of == nil {
		return []fact{{"data plane", "none: one is built once all members are connected"}}
	}
	p := of.Plane
	all := []fact{{"workload", p.Workload}, {"protocol", p.Protocol},
		{"data plane", fmt.Sprintf("%s, shard map %d", countOf(p.Partitions, "partition"), p.Version)},
		{"each node", fmt.Sprintf("%s of %s, on %s", countOf(p.Workers, "worker"),
			countOf(p.Fibers, "fiber"), countOf(p.Threads, "thread"))}}
	if r := c.Replicas(); r != "" {
		all = append(all, fact{"replicas", r})
	}
	for i := range c.Nodes {
		if r := c.Nodes[i].Recovery; r != nil && (r.Running || len(r.Fills) > 0 || r.TookS > 0 || r.Error != "") {
			all = append(all, fact{fmt.Sprintf("recovery, node %d", c.Nodes[i].Member.Node), r.String()})
		}
	}
	for i := range c.Nodes {
		if d := c.Nodes[i].Data; d != nil {
			all = append(all, fact{fmt.Sprintf("kept by node %d", c.Nodes[i].Member.Node), d.String()})
		}
		if l := c.Nodes[i].Logs; l != nil {
			all = append(all, fact{fmt.Sprintf("logs, node %d", c.Nodes[i].Member.Node), l.String()})
		}
	}
	for _, t := range of.Tables {
		entries, capacity := uint64(0), uint64(0)
		for i := range c.Nodes {
			for _, x := range c.Nodes[i].Tables {
				if x.Name == t.Name && c.Nodes[i].Phase != status.Gone {
					entries += x.Entries
					capacity += x.Capacity
				}
			}
		}
		all = append(all, fact{"table " + t.Name, fmt.Sprintf("%s of %s entries in use, %.1f %%",
			count(float64(entries)), count(float64(capacity)),
			100*float64(entries)/float64(max(capacity, 1)))})
	}
	return all
}

// nature says what the figures are made of: without it they cannot be compared with a paper's.
func nature(c *status.Cluster) string {
	const measured = "All figures are measured, in real time. "
	for i := range c.Nodes {
		switch d := &c.Nodes[i].Device; d.Transport {
		case "shm":
			return measured + "Verbs are emulated on shared memory: latencies say nothing about a " +
				"network. Hardware transactional memory is emulated."
		case "ibv":
			return measured + "Verbs are carried out by the device; an rxe device (Soft-RoCE) is " +
				"software in the kernel, no RDMA NIC. Hardware transactional memory is emulated."
		}
	}
	return measured
}
