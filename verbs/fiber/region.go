package fiber

import (
	"errors"

	"drtmd/internal/invariant"
)

// ErrInRegion refuses a request that was posted inside a transactional region (package htm), and
// has aborted that: hardware cannot do I/O in a transaction. Post after Commit or Abort.
var ErrInRegion = errors.New("posted inside a transactional region, which aborts it; " +
	"post after its end")

// Values of the region flag; those of package htm.
const (
	regionIdle uint32 = iota
	regionActive
	regionPosted
)

// RegionFlag is where a transactional region says that it runs on the worker (htm.Config.Flag).
// Only one can at a time, since a fiber must not wait inside of one: that is a failed invariant,
// Charge and Step in the simulator excepted, during which no other fiber of the worker runs.
// Conns refuse requests meanwhile with ErrInRegion and tell the region so. Datagrams that package
// rpc has gathered leave at the end of a pass, outside of any region. Only the worker's thread
// may touch it.
func (w *Worker) RegionFlag() *uint32 { return &w.region }

func (w *Worker) notInRegion() {
	invariant.Assert(w.region == regionIdle, "a fiber waits inside a transactional region")
}
