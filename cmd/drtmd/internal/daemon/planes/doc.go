// Package planes is the part (room) of a daemon that holds its share of a data plane. On the leader it
// builds planes and leads benchmarks; on every member it executes the leader's steps, and fences the node
// off from members that are gone.
//
// It asks its Members (membership) who is there, and tells its board how it is. Membership calls it
// back as its Guard: Joining, Changed, Fence, Lost and Rest. No call of Members or of the board is made
// with a lock of this package held; the Part has a lock of its own.
package planes
