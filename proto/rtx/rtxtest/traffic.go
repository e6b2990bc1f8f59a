package rtxtest

import (
	"fmt"
	"strings"

	"drtmd/verbs/sim"
)

// Traffic is what has reached the memory node n0 of a simulation: operations by class, and their bytes.
type Traffic struct {
	Reads, Writes int
	Bytes         Bytes
}

// Bytes are those of READs, WRITEs and CASes.
type Bytes struct{ Read, Write, CAS int }

// Minus is what came after an earlier count.
func (b Bytes) Minus(earlier Bytes) Bytes {
	return Bytes{b.Read - earlier.Read, b.Write - earlier.Write, b.CAS - earlier.CAS}
}

// Note counts an event of the simulation.
func (x *Traffic) Note(e sim.Event) {
	var n int
	i := strings.LastIndex(e.What, ", ")
	if e.Node != "n0" || i < 0 {
		return
	}
	if _, err := fmt.Sscanf(e.What[i:], ", %d B", &n); err != nil {
		return
	}
	switch {
	case e.Kind == "wire" && strings.HasPrefix(e.What, "RDMA_READ answer"):
		x.Reads++
		x.Bytes.Read += n
	case e.Kind == "exec" && strings.HasPrefix(e.What, "RDMA_WRITE request"):
		x.Writes++
		x.Bytes.Write += n
	case e.Kind == "wire" && strings.HasPrefix(e.What, "ATOMIC_CMP_AND_SWP answer"):
		x.Bytes.CAS += n
	}
}
