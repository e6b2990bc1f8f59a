package hades

import "drtmd/proto/hades/hardware"

// Hardware is the model of the worker's node, for its statistics.
func (e *Engine) Hardware() *hardware.Node { return e.chip.Node }
