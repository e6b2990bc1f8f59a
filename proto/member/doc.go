// Package member is the contract of membership: which nodes form the cluster, in which epoch, and
// which node holds which partition.
//
// # Epochs
//
// The cluster's State is an active View and, while it changes, a pending one. A view is a set of
// members with an epoch; each change of the set has a new epoch. A pending view becomes active when
// every member of it has said that it is fenced off from the members that are gone (Session.Fenced):
// one-sided operations carry no epoch, so the survivors move their queue pairs to a removed member
// to the error state before anybody acts on a world without it (design decision 11). A member that
// dies before it has said so is removed as well, by a pending view of a later epoch, which the
// others then say it for.
//
// # Incarnations
//
// A node that was removed and comes back is another member: it has the same NodeID and a larger
// Incarnation. What was addressed to the old one is not for it.
//
// # Leases
//
// A member keeps a membership lease, of seconds, in the registry; never to be confused with a read
// lease of a record, of fractions of a millisecond. It knows the time until which the registry
// cannot have given it up (Session.Lease), and serves no longer than that. A lease that was lost
// is lost for good: the node joins again, as a new incarnation.
//
// # The shard map
//
// Says which member holds which partition, in versions: whoever changes it names the version that
// the change is made to, and of two only one succeeds.
//
// # Implementations
//
// The transitions of State are pure functions in this package. A registry keeps a State, applies
// one transition at a time, and tells its sessions: proto/member/etcdmember in etcd,
// proto/member/membersim in the simulator's virtual time. proto/member/membertest is the suite that
// both pass.
//
// This package uses no clock, starts no goroutine, and draws nothing at random.
package member
