// Package placement says which nodes hold the replicas of each shard.
//
// A workload divides its records among as many shards as the cluster has nodes: shard s is what the
// workload's Placement calls home node s. Shards never change. A Map says for one epoch where the
// replicas of each shard are; a Placed joins it to the workload's Placement, and so is the Placement
// that engines ask.
//
// # Failures
//
// A Map is a value: every change gives a new one, and the same changes give the same map on every node,
// so that nodes which agree on who lives agree on the map without a message. Without takes dead nodes
// out. A shard whose primary died goes on at a complete backup; one that has none is lost, and stays in
// the map without replicas, so that what asks for it can be refused by name. Each backup that is missing
// is given to the node with the fewest replicas, to be filled: it gets every update from then on, and is
// not promoted until WithBackup has made it complete. With takes in a node that comes back empty.
// Nothing moves a complete replica: a shard does not return to its first node by itself.
//
// # Who may call what
//
// A Map does not change once it is in use and may be read by any goroutine; so are its slices, which
// Locations share. A Placed may be used by any goroutine.
package placement
