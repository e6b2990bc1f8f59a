// Package placement says which nodes hold the replicas of each shard.
//
// A workload divides its records among as many shards as the cluster has nodes: shard s is what the
// workload's Placement calls home node s. Shards never change. A Map says for one epoch where the
// replicas of each shard are; a Placed joins it to the workload's Placement, and so is the Placement
// that engines ask.
//
// # Who may call what
//
// A Map does not change once it is in use and may be read by any goroutine; so are its slices, which
// Locations share. A Placed may be used by any goroutine.
package placement
