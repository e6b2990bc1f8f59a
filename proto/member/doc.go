// Package member is the contract of membership: which nodes form the cluster, in which epoch, and
// which node holds which partition.
//
// # Epochs
//
// The cluster's State is an active View and, while it changes, a pending one. A view is a set of
// members with an epoch; each change of the set has a new epoch. A pending view becomes active when
// each of its members has fenced itself off from the removed members (Session.Fenced): one-sided
// operations carry no epoch, so the survivors move their queue pairs to a removed member to the error
// state before any of them uses the new view (design decision 11). A member that dies before its
// acknowledgement is removed as well, by a pending view of a later epoch, which the others acknowledge.
//
// # Incarnations
//
// A node that was removed and comes back is another member: it has the same NodeID and a larger
// Incarnation. Messages to the old incarnation are not for the new one.
//
// # Leases
//
// A member keeps a membership lease of seconds in the registry. (A read lease of a record, of fractions of a
// millisecond, is something else.) The member knows the time until which the registry cannot have expired the
// lease (Session.Lease), and serves no longer than that. An expired lease cannot be renewed: the node joins
// again, as a new incarnation.
//
// # The shard map
//
// The map says which member holds which partition, in versions. A change names the version on which it is
// based; of two changes of one version only one succeeds.
//
// With replicas, the map has a placement, which follows the active view (ShardMap.Placement): all nodes see
// the same placement for an epoch, whichever views they have missed.
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
