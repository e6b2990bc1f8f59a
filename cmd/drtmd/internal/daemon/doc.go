// Package daemon is a node of a cluster: drtmd serve. It puts together the control plane (package
// control), membership (proto/member), and the data plane (package load's Part), and is what the
// admin port shows.
//
// # Data planes
//
// A data plane belongs to a version of the shard map: partition i, held by the i-th primary, is
// node i of a cluster of proto/node. There is no durability, so a plane is never mended: when the
// members change, whoever leads writes the next version and has every member build its part anew,
// tables loaded. A benchmark is a version of its own, led by the daemon that was asked for it; the
// plane that serves is built again after it. Of two who want to lead, the registry lets one.
//
// # Losing a member
//
// When a view without a member is pending, each daemon moves its queue pairs to that member to the
// error state and then says that it is fenced; a run goes on among the others. A daemon that loses
// its own lease fences its whole plane, refuses everything by name, and joins again as a new
// incarnation.
//
// # Goroutines
//
// Serve owns all of them and returns when they have ended: the control server, the membership loop,
// the steward, which reacts to each state of the registry, and the lease watch. Everything that
// they share is behind Daemon.mu, or is the Part, which has a lock of its own.
package daemon
