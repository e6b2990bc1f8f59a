package node

import (
	"drtmd/htm"
	"drtmd/proto/drtm"
	"drtmd/proto/twopl"
	"drtmd/store"
	"drtmd/store/remote"
)

// Names of the layers whose safety steps every protocol with concurrency control relies on.
const (
	layerHTM    = "htm"
	layerStore  = "store"
	layerRemote = "store/remote"
)

// bug is a Mutation as the packages describe it.
type bug interface {
	String() string
	Doc() string
	Equivalent() string
}

// mutationsOf describes mutations of a protocol ("") or of a layer.
func mutationsOf[B bug](of string, bugs []B) (list []Mutation) {
	for _, m := range bugs {
		list = append(list, Mutation{Name: m.String(), Doc: m.Doc(), Of: of,
			Equivalent: m.Equivalent()})
	}
	return list
}

// layers are the mutations of what is below the protocols.
func layers() []Mutation {
	list := mutationsOf(layerHTM, htm.Mutations())
	list = append(list, mutationsOf(layerStore, store.Mutations())...)
	return append(list, mutationsOf(layerRemote, remote.Mutations())...)
}

func drtmMutations() []Mutation { return append(mutationsOf("", drtm.Mutations()), layers()...) }

func twoplMutations() []Mutation {
	return append(mutationsOf("", twopl.Mutations()), layers()...)
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

// named is the mutation of a name, or none.
func named[B bug](bugs []B, name string) (none B) {
	for _, m := range bugs {
		if m.String() == name {
			return m
		}
	}
	return none
}
