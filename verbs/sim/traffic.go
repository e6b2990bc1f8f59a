package sim

import (
	"fmt"
	"strings"
)

// Traffic is what has reached the memory of a node, of one-sided operations, as Config.OnEvent tells of it: how many by
// class, and their bytes. It is for tests and tables that compare these with a paper.
type Traffic struct {
	Node          string // "n0" and so on
	Reads, Writes int
	Bytes         TrafficBytes
}

// TrafficBytes are those of READs, WRITEs and CASes.
type TrafficBytes struct{ Read, Write, CAS int }

// Minus is what came after an earlier count.
func (b TrafficBytes) Minus(earlier TrafficBytes) TrafficBytes {
	return TrafficBytes{b.Read - earlier.Read, b.Write - earlier.Write, b.CAS - earlier.CAS}
}

// Note counts an event.
func (x *Traffic) Note(e Event) {
	var n int
	i := strings.LastIndex(e.What, ", ")
	if e.Node != x.Node || i < 0 {
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
