// Package daemon is a node of a cluster: drtmd serve. It combines the control plane (package control)
// and the parts (rooms) of a node, and provides what the admin port shows.
//
// # Rooms
//
// Each room has its own state behind its own lock, and is tested alone, its neighbours faked:
//
//   - daemon/membership keeps the node a member: the registry, the session and its lease, the newest
//     state, clients of the other members.
//   - daemon/planes holds the node's part of a data plane: building, fencing, running.
//   - daemon/board says how the node is: its phase, why, and what happened (Board); and asks all rooms
//     and the other members for a status (Report).
//
// Calls go down: Report and Daemon call any room; planes call membership; both tell the board, which
// calls none. Upwards there is one interface, membership.Guard, by which membership tells the planes
// what follows for what they serve. The device (device.go) is beside the rooms: it is asked before a
// node joins again, and tells planes and membership when queue pairs cannot go on.
//
// No room calls another, or its Guard, with its lock held, so there is no order of locks between rooms.
// Two things lie above all of them: Report holds its lock while it asks the rooms, and the lock of
// load.Part, which the planes never call with theirs held, is a leaf.
//
// # A view change
//
// A member's lease ends, and another one proposes a view without it. The registry tells
// membership of each node, which stores the state, tells those who wait for that member's end (the
// leader of a run), and wakes the planes by Guard.Changed. Their steward finds the view pending: it moves
// the queue pairs to the removed member to the error state (a plane that is still being connected is
// closed), tells the board, and only then has membership acknowledge the epoch. Once all have, the
// registry makes the view active and membership hears of it; the steward of the member with the lowest
// id writes the next shard map, in which every primary is of that view, and has each member carry out
// open, connect and go. The planes of each let the steps in, or refuse them as stale if a primary is
// not in the newest view by then, and tell the board: connecting, then ready. The removed member,
// if it lives, is told by its session or by its own clock: membership has the Guard end its run and
// fence its plane, says "refusing" on the board, leaves, lets the Guard rest, and joins as a new
// incarnation, which is a view change again.
//
// # Data planes
//
// A data plane belongs to a version of the shard map: partition i, held by the i-th primary, is
// node i of a cluster of proto/node. There is no durability, so a plane is never mended: when the
// members change, whoever leads writes the next version and has every member build its part anew,
// tables loaded. A benchmark is a version of its own, led by the daemon that was asked for it; the
// plane that serves is built again after it. Of two who want to lead, the registry lets one.
//
// # Goroutines
//
// Serve owns all of them and returns when they have ended: the control server and the admin port, the
// membership loop, the steward, and those that watch the lease, the device, orphans and the watchdog.
package daemon
