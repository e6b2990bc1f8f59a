package optimal

import (
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/inplace"
)

// Kind is the layout: a lock word for each object.
var Kind = &inplace.Kind{Protocol: "optimal", Magic: 0x3154_504f_4d54_5244, Version: 2, PerObject: 8} // "DRTMOPT1"

const (
	rootBytes = inplace.RootBytes
	nodeBytes = inplace.NodeBytes
	edgeBytes = 8 // a version, at both ends
)

func (c *Client) lockAt(p rtx.Ptr) int { return c.Shape.ObjectAt(p) }
