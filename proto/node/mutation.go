package node

import (
	"slices"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/btree"
	"drtmd/store/hopscotch"
	"drtmd/store/layout"
	"drtmd/store/records"
	"drtmd/store/remote"
	"drtmd/store/robinhood"
)

// Names of the layers whose safety steps every protocol with concurrency control relies on.
const (
	layerHTM       = "htm"
	layerStore     = "store"
	layerHopscotch = "store/hopscotch"
	layerRecords   = "store/records"
	layerBTree     = "store/btree"
	layerRemote    = "store/remote"
)

// layers are the mutations of what is below a protocol.
func layers(p *Protocol) []Mutation {
	_, index := p.Tables()
	inline := index == layout.HopscotchInline
	table := store.Mutations().List(layerStore)
	switch index {
	case layout.HopscotchInline:
		table = hopscotch.Mutations().List(layerHopscotch)
	case layout.DLHT:
		table = records.Mutations().List(layerRecords)
	}
	if p.Scans && !p.OneThread {
		table = append(table, btree.Mutations().List(layerBTree)...)
	}
	for _, m := range remote.Mutations().List(layerRemote) {
		switch overflow := m.Name == remote.OverflowUnread.String(); {
		case !overflow:
			table = append(table, m)
		case inline: // others have no overflow blocks
			m.Of = layerHopscotch
			table = append(table, m)
		}
	}
	return slices.Concat(htm.Mutations().List(layerHTM), table)
}

// mutated says of which layer, or of the protocol, the Mutation of the configuration is.
type mutated struct {
	htm       htm.Mutation
	store     store.Mutation
	hopscotch hopscotch.Mutation
	records   records.Mutation
	btree     btree.Mutation
	robinhood robinhood.Mutation
	remote    remote.Mutation
	protocol  string
}

// mutation finds the configuration's Mutation. In each table but one its name is unknown.
func (c *Config) mutation() (m mutated) {
	m.htm, _ = htm.Mutations().Find(c.Mutation)
	m.store, _ = store.Mutations().Find(c.Mutation)
	m.hopscotch, _ = hopscotch.Mutations().Find(c.Mutation)
	m.records, _ = records.Mutations().Find(c.Mutation)
	m.btree, _ = btree.Mutations().Find(c.Mutation)
	m.robinhood, _ = robinhood.Mutations().Find(c.Mutation)
	m.remote, _ = remote.Mutations().Find(c.Mutation)
	if m == (mutated{}) {
		m.protocol = c.engineMutation()
	}
	return m
}
