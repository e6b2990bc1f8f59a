package node

import "drtmd/internal/mutation"

// keeperMutation is a deliberate bug of the keeper, for tests that show that checks find it. Every
// protocol whose engines work through queue pairs has them.
type keeperMutation uint8

const (
	noReconnection keeperMutation = iota + 1
	noPayment
	anyLife
	fenceForgotten
	oldWayOpen
)

var keeperMutations = mutation.Table[keeperMutation]{
	{Name: "none", Doc: "the correct keeper"},
	noReconnection: {Name: "no-reconnection",
		Doc: "broken queue pairs between living members are not made anew"},
	noPayment: {Name: "no-payment",
		Doc: "what is owed to a peer that was out of reach is not paid when it is connected again"},
	anyLife: {Name: "any-life",
		Doc: "a new life of a peer is connected before the two have met"},
	fenceForgotten: {Name: "fence-forgotten", Doc: "a member that was removed is connected again"},
	oldWayOpen: {Name: "old-way-open",
		Doc: "the broken queue pair of a peer is not ended before a new one takes its place"},
}

// withKeeper adds the keeper's mutations to those of a protocol.
func withKeeper(list []Mutation, byRPC bool) []Mutation {
	n := len(list)
	list = append(list, keeperMutations.List("")...)
	if byRPC {
		list[n+int(oldWayOpen)-1].Equivalent = "the protocol writes nothing through queue pairs that could come late"
	}
	return list
}

// engineMutation is the configuration's Mutation if it is the engine's.
func (c *Config) engineMutation() string {
	if m, _ := keeperMutations.Find(c.Mutation); m != 0 {
		return ""
	}
	return c.Mutation
}
