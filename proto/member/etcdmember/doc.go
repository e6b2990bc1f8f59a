// Package etcdmember keeps membership in etcd: it implements proto/member with the official client,
// and embeds a server for clusters that have no etcd of their own. It is the only package that
// knows etcd.
//
// # Keys
//
//	/drtmd/NAME/state              the member.State as JSON
//	/drtmd/NAME/alive/N-I          node N's incarnation I, under its lease
//
// The state is changed by compare-and-swap on its revision, and a member's key comes and goes in the
// same transaction as the member. Whoever sees a key vanish removes that member from the state: its
// lease has ended.
// Who is dead is judged by a state and keys of one revision. A candidate does it too, for the case
// that nobody is left to see it.
//
// # Leases
//
// A keep-alive is sent each quarter of the lease. A member may serve until the time at which the last
// keep-alive that was answered had been sent, plus the lease: etcd cannot have given it up before.
// An etcd that restarts gives every lease its whole time again, which errs to the safe side.
//
// # Goroutines
//
// A session has three: keep-alives, the watch, and the listener's calls. Leave and the loss of the
// lease end them. Everything here may be called from any goroutine.
package etcdmember
