package node

import (
	"slices"

	"drtmd/htm"
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
	return slices.Concat(htm.Mutations().List(layerHTM), store.Mutations().List(layerStore),
		remote.Mutations().List(layerRemote))
}

// mutated says of which layer, or of the protocol, the Mutation of the configuration is.
type mutated struct {
	htm      htm.Mutation
	store    store.Mutation
	remote   remote.Mutation
	protocol string
}

// mutation finds the configuration's Mutation. In each table but one its name is unknown.
func (c *Config) mutation() (m mutated) {
	m.htm, _ = htm.Mutations().Find(c.Mutation)
	m.store, _ = store.Mutations().Find(c.Mutation)
	m.remote, _ = remote.Mutations().Find(c.Mutation)
	if m == (mutated{}) {
		m.protocol = c.engineMutation()
	}
	return m
}
