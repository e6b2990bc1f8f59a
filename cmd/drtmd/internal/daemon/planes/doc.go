// Package planes is the room of a daemon that holds its part of a data plane: it builds planes where
// this node leads, carries out the steps of whoever does, fences the node off from members that are
// gone, and leads benchmarks.
//
// It asks its Members (membership) who is there, and tells its board how it is. Membership calls it
// back as its Guard: Joining, Changed, Fence, Lost and Rest. No call of Members or of the board is made
// with a lock of this package held; the Part has a lock of its own.
package planes
