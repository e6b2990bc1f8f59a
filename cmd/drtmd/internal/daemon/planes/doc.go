// Package planes is the part (room) of a daemon that holds its share of a data plane. On the leader it
// builds planes and leads benchmarks; on every member it executes the leader's steps, and fences the node
// off from members that are gone.
//
// It asks its Members (membership) for the members, and informs its board of its state. Membership calls it
// as its Guard: Joining, Changed, Fence, Lost and Rest. It calls neither while it holds a lock of this
// package; the Part has a lock of its own.
package planes
