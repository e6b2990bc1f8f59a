// Package inplace is what rTX's baselines have in common (003, section 6): memory with objects at fixed places, which are
// written where they are, and a client with its buffers.
//
//	header 4096 | words for each object, and bytes for each owner | counter of nodes 64 | root objects | nodes
//
// What the words and bytes are is the baseline's: lock words, or logs.
//
// A WRITE becomes visible in ascending order of addresses, and a READ reads so, on shared memory and in the simulator,
// and, as Sherman assumes, on NICs. So a block with a version at both ends, of which a writer writes the one at the end
// first and the one at the beginning last, shows whether it is whole.
//
// A Client belongs to one fiber at a time. Blocks that it had taken when it dies are lost.
package inplace
