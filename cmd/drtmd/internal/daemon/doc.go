// Package daemon is a node of a cluster: drtmd serve. It combines the control plane (package control)
// and the parts (rooms) of a node, and provides what the admin port shows.
//
// # Rooms
//
// Each room has its own state and its own lock. Its tests run it alone, with fakes for the other rooms:
//
//   - daemon/membership keeps the node a member: the registry, the session and its lease, the newest
//     state, clients of the other members.
//   - daemon/planes holds the node's part of a data plane: building, fencing, running.
//   - daemon/data has the record of the tables that the node keeps over its lives.
//   - daemon/board stores the node's phase, its reason, and events (Board), and collects a status from all
//     rooms and the other members (Report).
//
// Calls go down: Report and Daemon call any room; planes call membership; both report to the board, which
// calls no room. One interface goes up: by membership.Guard, membership tells the planes about changes of
// the members. The device (device.go) is beside the rooms: the daemon checks it before a node joins again,
// and it reports to planes and membership when queue pairs cannot continue.
//
// No room calls another room or its Guard while it holds its lock, so no order of locks between rooms is
// needed. Two locks are outside of this rule: Report holds its lock while it asks the rooms, and the lock of
// load.Part is a leaf that the planes take without holding theirs.
//
// # A view change
//
//  1. A member's lease ends, and another member proposes a view without it. The registry notifies each
//     node's membership, which stores the state, notifies those that wait for the end of that member (the
//     leader of a run), and wakes the planes by Guard.Changed.
//  2. The planes' steward finds the view pending. It moves the queue pairs to the removed member to the
//     error state, closes a plane that is still being connected, and informs the board. Only then does
//     membership acknowledge the epoch.
//  3. After all acknowledgements the registry makes the view active, and notifies membership. The steward
//     of the member with the lowest id writes the next shard map, whose primaries are all in that view, and
//     has each member execute open, connect and go. The planes execute these steps, or refuse them as stale
//     if a primary is no longer in the newest view. They inform the board: connecting, then ready.
//  4. A removed member that is alive learns of its removal by its session or by its own clock. Its
//     membership has the Guard end the run and fence the plane, sets "refusing" on the board, leaves, lets
//     the Guard rest, and joins as a new incarnation: the next view change.
//
// # Data planes
//
// A data plane belongs to a version of the shard map: partition i, held by the i-th primary, is node i of a
// cluster of proto/node. With one replica of each record a plane is never repaired: when the members change, the
// leader writes the next version, and every member builds its part again and loads its tables. A benchmark
// is a version of its own, led by the daemon that received the request; afterwards the serving plane is built
// again. If two daemons want to lead, the registry accepts one.
//
// Tables whose transactions are logged are kept over the lives of the nodes (planes/data.go). Their planes are of the
// members that keep them, which attach to their memory and recover from their logs before a transaction runs; while one
// is away, nothing is built. Such planes have a clock that goes on from one life to the next (node.LastingEpoch).
//
// With more replicas a plane goes on without a member. The steward pauses the node's part before it
// acknowledges a pending view, and has it adopt the placement of the active one (planes/view.go); the registry
// changes that with the view. Recovery runs on the workers, and filling in a goroutine of the planes. Both are
// ended by the next view.
//
// # Goroutines
//
// Serve owns all of them and returns when they have ended: the control server and the admin port, the
// membership loop, the steward, and those that watch the lease, the device, orphans and the watchdog.
package daemon
