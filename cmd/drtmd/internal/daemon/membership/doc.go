// Package membership is the part (room) of a daemon that keeps it a member of its cluster. It finds the
// registry, joins, watches the lease, and joins again as a new incarnation. It knows the newest state of
// the registry, and has a client for each other member.
//
// It tells its Guard (the planes) what follows for what the node serves, and its board how it is. It
// asks neither what they do. No call of either is made with a lock of this package held.
package membership
