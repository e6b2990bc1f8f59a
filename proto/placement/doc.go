// Package placement says which nodes hold the replicas of each shard.
//
// A workload divides its records among as many shards as the cluster has nodes: shard s holds the records
// whose home is node s in the workload's Placement. Shards never change. A Map says for one epoch where the
// replicas of each shard are. A Placed combines a Map with the workload's Placement; it is the Placement
// that engines use.
//
// # Failures
//
// A Map is a value: every change returns a new Map, and the same changes return the same Map on every node.
// So nodes that agree on which nodes are alive agree on the Map without a message.
//
//   - Without removes dead nodes. If the primary of a shard has died, a complete backup becomes the primary.
//     A shard without a complete backup is lost: it stays in the Map without replicas, so that requests for
//     it can be refused by name.
//   - Without gives each missing backup to the node with the fewest replicas. The new backup gets every update
//     from then on. It cannot become the primary before WithBackup has marked it complete.
//   - With adds a node that comes back with empty memory.
//   - No change moves a complete replica: a shard does not return to its first node by itself.
//
// # Concurrency
//
// A Map does not change once it is in use. Any goroutine may read it and its slices, which Locations share.
// Any goroutine may use a Placed.
package placement
