package scenario

import (
	"fmt"

	"drtmd/verbs"
	"drtmd/verbs/sim"
)

// Shape of the load of Reads: five clients, as in DrTM §6.4, with more requests outstanding than
// the target can serve.
const (
	ReadClients     = 5
	readConnections = 8
	readDepth       = 16
)

// ReadRate is what one target serves of READs of a size. Modelled.
type ReadRate struct {
	Bytes int
	Mops  float64 // million per second
	Gbps  float64 // of payload, 10^9 bits per second
}

// Reads gives the throughput of READs from five nodes to one against their payload: the engine
// of the NIC bounds small ones, the link large ones (DrTM §2.2, §6.4).
func Reads(cost *sim.CostModel, sizes []int) ([]ReadRate, error) {
	var out []ReadRate
	for _, size := range sizes {
		if size < 0 || size > loadBytes/2 {
			return nil, fmt.Errorf("READs of %d bytes: 0 to %d can be measured", size, loadBytes/2)
		}
		l, err := NewLoad(LoadConfig{Cost: cost, Op: verbs.OpRead, Bytes: size, Nodes: ReadClients,
			QPs: readConnections, Depth: readDepth})
		if err != nil {
			return nil, err
		}
		rate, err := l.Rate(50*sim.Microsecond, 200*sim.Microsecond)
		if err != nil {
			return nil, err
		}
		out = append(out, ReadRate{size, rate / 1e6, rate * float64(size) * 8 / 1e9})
	}
	return out, nil
}

// BatchRate is what one server answers of Gets with a number of messages in a datagram. Modelled.
type BatchRate struct {
	Batch   int
	Mops    float64 // million Gets per second
	Speedup float64 // over the first of the list
	Payload int     // bytes of a datagram's messages, in either direction
	Wire    float64 // bytes of a datagram on the links, headers included, as the simulation counts them
}

// MostBatch is the most Gets that fit into a datagram.
func MostBatch(cost *sim.CostModel) int {
	return min(getSlot-verbs.GRHBytes, int(cost.Link.MTU)) / getBytes
}

// Batches gives the throughput of Gets over datagrams against the number of messages in one
// (Dandelion §5.3). No CPU is modelled: it is what the network has to give.
func Batches(cost *sim.CostModel, batches []int) ([]BatchRate, error) {
	var out []BatchRate
	for _, b := range batches {
		if most := MostBatch(cost); b < 1 || b > most {
			return nil, fmt.Errorf("%d messages in a datagram: 1 to %d fit", b, most)
		}
		r, err := getRate(cost, b)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
		out[len(out)-1].Speedup = r.Mops / out[0].Mops
	}
	return out, nil
}
