package node

import (
	"drtmd/htm"
	"drtmd/proto/protocol"
	"drtmd/store"
	"drtmd/store/remote"
)

// Names of the layers whose safety steps every protocol with concurrency control relies on.
const (
	layerHTM    = "htm"
	layerStore  = "store"
	layerRemote = "store/remote"
)

// layers are the mutations of what is below the protocols.
func layers() []Mutation {
	list := protocol.MutationsOf(layerHTM, htm.Mutations())
	list = append(list, protocol.MutationsOf(layerStore, store.Mutations())...)
	return append(list, protocol.MutationsOf(layerRemote, remote.Mutations())...)
}

// mutated says of which layer, or of the protocol, the Mutation of the configuration is.
type mutated struct {
	htm      htm.Mutation
	store    store.Mutation
	remote   remote.Mutation
	protocol string
}

// mutation finds the configuration's Mutation.
func (c *Config) mutation() (m mutated) {
	m.htm = named(htm.Mutations(), c.Mutation)
	m.store = named(store.Mutations(), c.Mutation)
	m.remote = named(remote.Mutations(), c.Mutation)
	if m == (mutated{}) {
		m.protocol = c.engineMutation()
	}
	return m
}

// named is the mutation of a name, or none: the name may be that of another layer.
func named[B protocol.Bug](bugs []B, name string) B {
	bug, _ := protocol.FindBug(bugs, name)
	return bug
}
