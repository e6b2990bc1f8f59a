package hardware

import (
	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// The constants of HADES' nodes, frozen before any comparison. Those of caches, filters and memory are
// directory.Hades, those of the network the preset hades of the simulator.
const (
	// CyclePs is a cycle of a core, 2 GHz (cited: Table III).
	CyclePs = 500
	// lineCycles is the CRC of a line (cited: Table III, 2 cycles). Comparing it with all filters takes no more: they are
	// read in parallel (§V-B).
	lineCycles = 2
	// lockCycles is the loading of filters into a Locking Buffer, or its clearing (assumed: a round trip to the LLC).
	lockCycles = 40
)

// TableIII is the configuration of a node of HADES Table III, in a cluster of so many nodes of so many cores, each with
// perCore transactions. Node, Memory, Pool and Hooks are the caller's.
func TableIII(nodes, cores, perCore int) Config {
	return Config{Nodes: nodes, Directory: directory.Hades(cores, perCore), Filter: bloom.Plain(),
		Cycles: Cycles{Line: lineCycles, Lock: lockCycles}}
}
