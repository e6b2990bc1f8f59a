// Package etcdmember keeps membership in etcd: it implements proto/member with the official client,
// and embeds a server for clusters that have no etcd of their own. It is the only package that
// knows etcd.
//
// # Keys
//
//	/drtmd/NAME/state              the member.State as JSON
//	/drtmd/NAME/alive/N-I          node N's incarnation I, under its lease
//
// The state is changed by compare-and-swap on its revision. A member's key is created and deleted in the same
// transaction that adds or removes the member. A session that sees a key vanish removes that member from the
// state, because its lease has ended. It compares a state and keys of one revision. A node that wants to join
// does the same, in case no session is left.
//
// # Leases
//
// A session sends a keep-alive each quarter of the lease. A member may serve until the time at which it sent
// the last keep-alive that was answered, plus the lease: etcd cannot have expired the lease before. After a
// restart, etcd gives every lease its full time again, which is safe.
//
// # Goroutines
//
// A session has three: keep-alives, the watch, and the listener's calls. Leave and the loss of the
// lease end them. Everything here may be called from any goroutine.
package etcdmember
