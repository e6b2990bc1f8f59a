package node

import "drtmd/verbs/sim"

// WorldStats are what the simulated network of a cluster counts itself.
func (c *Cluster) WorldStats() sim.Stats { return c.host.(*cores).world.Stats() }
