// Package membership is the part (room) of a daemon that keeps it a member of its cluster. It finds the
// registry, joins, watches the lease, and joins again as a new incarnation. It knows the newest state of
// the registry, and has a client for each other member.
//
// It notifies its Guard (the planes) of changes, and its board of its state. It asks neither about theirs,
// and calls neither while it holds a lock of this package.
package membership
