package node

import (
	"drtmd/proto/drtm"
	"drtmd/proto/nocc"
	"drtmd/proto/twopl"
)

// Protocols lists what transactions can run on; the first is the default. A protocol is added here,
// and nowhere else outside of its folder.
func Protocols() []Protocol {
	list := []Protocol{
		drtm.Protocol(),
		nocc.Protocol(),
		twopl.Protocol(),
		twopl.LocalProtocol(),
	}
	for i := range list {
		if p := &list[i]; p.Unmutated == "" {
			p.Mutations = withKeeper(append(p.Mutations, layers()...))
		}
	}
	return list
}

// DrTMConfig is drtm.ConfigOf.
func DrTMConfig(e *Env) (drtm.Config, error) { return drtm.ConfigOf(e) }
