package sim

import (
	"fmt"
	"math/bits"
)

// Bandwidth is in bits per second, OpRate in operations per second, Bytes a size.
type (
	Bandwidth int64
	OpRate    int64
	Bytes     int64
	// Count is a number of things, Ratio one in thousandths, Capacity a size of memory.
	Count    int64
	Ratio    int64
	Capacity int64
)

// CostModel says what time the hardware takes. Every field is required, but those of Cores, of which all or none are
// there; a YAML file may name a base whose values it changes. The keys in a file are the names in the tags.
type CostModel struct {
	Name  string
	Link  LinkCost  `cost:"link"`
	PCIe  PCIeCost  `cost:"pcie"`
	NIC   NICCost   `cost:"nic"`
	CPU   CPUCost   `cost:"cpu"`
	Cores CoresCost `cost:"cores"`
}

// CoresCost is a NIC whose cores run programs (package smartnic). A model without NIC cores has a Count of 0.
type CoresCost struct {
	Count       Count    `cost:"count"`
	Alone       Ratio    `cost:"alone"`        // how many times longer a core takes than one of the host, if others rest
	Together    Ratio    `cost:"together"`     // if all work
	Pass        Time     `cost:"pass"`         // of a core: one look at its queues
	Receive     Time     `cost:"receive"`      // to take a packet
	Send        Time     `cost:"send"`         // to send one
	Message     Time     `cost:"message"`      // to take a message out of a packet
	Memory      Capacity `cost:"memory"`       // of the NIC
	QueueBurst  Time     `cost:"queue-burst"`  // host-NIC queues: each burst of packets, each direction
	QueuePacket Time     `cost:"queue-packet"` // each packet of it
	DMAQueues   Count    `cost:"dma-queues"`   // of the DMA engine
	DMAVector   Count    `cost:"dma-vector"`   // elements of a vector, at most
	DMASubmit   Time     `cost:"dma-submit"`   // of a core: to submit a vector
	DMARate     OpRate   `cost:"dma-rate"`     // elements that a queue carries out
}

// LinkCost is the network: each node has a cable to one switch.
type LinkCost struct {
	Rate        Bandwidth `cost:"rate"`        // of a cable, each direction, after coding
	MTU         Bytes     `cost:"mtu"`         // payload of a packet
	Header      Bytes     `cost:"header"`      // of a packet, frame overhead included
	Propagation Time      `cost:"propagation"` // along one cable
	Switch      Time      `cost:"switch"`      // from port to port, cut through
}

// PCIeCost is the path between NIC and host memory.
type PCIeCost struct {
	Rate      Bandwidth `cost:"rate"`       // each direction
	Read      Time      `cost:"read"`       // latency of a read by the NIC
	Write     Time      `cost:"write"`      // until a write by the NIC is visible
	Reads     OpRate    `cost:"reads"`      // reads that the NIC can issue
	TLP       Bytes     `cost:"tlp"`        // payload of a transaction packet
	TLPHeader Bytes     `cost:"tlp-header"` // its overhead
}

// NICCost is the adapter. An operation occupies the initiator's engine (Out) when it is issued
// and the target's engine (In) when it is served, each for the inverse of its rate.
type NICCost struct {
	Doorbell      Time      `cost:"doorbell"`       // CPU store until the NIC sees it
	Pipeline      Time      `cost:"pipeline"`       // latency of a message through one NIC
	WorkRequest   Bytes     `cost:"work-request"`   // what is fetched per request of a list
	Completion    Bytes     `cost:"completion"`     // size of a completion entry
	MaxInline     Bytes     `cost:"max-inline"`     // payload that travels with the doorbell
	Out           VerbRates `cost:"out"`            // as initiator
	In            VerbRates `cost:"in"`             // as target
	AtomicHold    Time      `cost:"atomic-hold"`    // an address is busy for
	AtomicLatency Time      `cost:"atomic-latency"` // an atomic takes, beyond the PCIe read
}

// VerbRates bound the messages of an engine.
type VerbRates struct {
	Read     OpRate `cost:"read"`
	Write    OpRate `cost:"write"`
	Send     OpRate `cost:"send"`
	Datagram OpRate `cost:"datagram"`
	Atomic   OpRate `cost:"atomic"`
}

// CPUCost are the spans of CPU time that the fiber layer charges; the model itself spends none.
type CPUCost struct {
	Post       Time `cost:"post"`        // build one work request
	Doorbell   Time `cost:"doorbell"`    // ring once per list
	PollEmpty  Time `cost:"poll-empty"`  // poll a CQ in vain
	PollEntry  Time `cost:"poll-entry"`  // take one completion
	RPCSend    Time `cost:"rpc-send"`    // hand a message to the RPC layer
	RPCReceive Time `cost:"rpc-receive"` // per datagram: repost and dispatch

	Memory   Time  `cost:"memory"`   // latency of a line that no cache has
	Overlap  Count `cost:"overlap"`  // such lines of a thread that are under way together, at most
	Hardware Ratio `cost:"hardware"` // how many times longer a thread takes than one that has its core alone
}

// RoundTrip is the unloaded time from NIC to NIC and back: pipelines, cables and switch.
func (c *CostModel) RoundTrip() Time {
	return 2 * (2*c.NIC.Pipeline + 2*c.Link.Propagation + c.Link.Switch)
}

// Check says what is wrong with the model, or nil. Values of a wrong size are named by key.
func (c *CostModel) Check() error {
	for _, f := range costFields(c) {
		if c.Cores.Count == 0 && f.optional() {
			if f.value.Int() != 0 {
				return fmt.Errorf("cost model %q: %s is given, and cores.count is not", c.Name, f.path)
			}
			continue
		}
		if err := f.check(); err != nil {
			return fmt.Errorf("cost model %q: %s: %w", c.Name, f.path, err)
		}
	}
	switch c.Link.MTU {
	case 256, 512, 1024, 2048, 4096:
		return nil
	}
	return fmt.Errorf("cost model %q: link.mtu: %d B is not a path MTU (256, 512, 1024, 2048 or "+
		"4096 B)", c.Name, c.Link.MTU)
}

// rates are what the model computes with: picoseconds per operation, and per byte in 1/65536.
type rates struct {
	out, in     verbTimes
	dmaRead     Time
	element     Time // of a vector of the NIC's DMA engine
	linkPerByte uint64
	pciePerByte uint64
}

// verbTimes are the occupancies of an engine.
type verbTimes struct{ read, write, send, datagram, atomic Time }

const byteShift = 16

func (c *CostModel) rates() rates {
	perByte := func(b Bandwidth) uint64 {
		hi, lo := bits.Mul64(uint64(8*Second), 1<<byteShift)
		q, _ := bits.Div64(hi, lo, uint64(b))
		return q
	}
	verbs := func(v VerbRates) verbTimes {
		return verbTimes{v.Read.each(), v.Write.each(), v.Send.each(), v.Datagram.each(),
			v.Atomic.each()}
	}
	var element Time
	if c.Cores.Count > 0 {
		element = c.Cores.DMARate.each()
	}
	return rates{element: element, out: verbs(c.NIC.Out), in: verbs(c.NIC.In), dmaRead: c.PCIe.Reads.each(),
		linkPerByte: perByte(c.Link.Rate), pciePerByte: perByte(c.PCIe.Rate)}
}

// each is the time of one operation, rounded.
func (r OpRate) each() Time { return (Second + Time(r)/2) / Time(r) }

// span is the time of n bytes at a rate in 1/65536 ps per byte.
func span(n int, perByte uint64) Time {
	hi, lo := bits.Mul64(uint64(n), perByte)
	return Time(hi<<(64-byteShift) | lo>>byteShift)
}

// wireBytes is a message's size on the wire, headers included.
func (c *CostModel) wireBytes(payload int) int {
	mtu := int(c.Link.MTU)
	packets := max(1, (payload+mtu-1)/mtu)
	return payload + packets*int(c.Link.Header)
}

// pcieBytes is a transfer's size on PCIe, headers included.
func (c *CostModel) pcieBytes(n int) int {
	tlp := int(c.PCIe.TLP)
	return n + (n+tlp-1)/tlp*int(c.PCIe.TLPHeader)
}

// server is a resource that serves one request after the other.
type server struct{ busy Time }

// take reserves the resource for d, from at or when it is free, and gives the end.
func (s *server) take(at, d Time) Time {
	s.busy = max(s.busy, at).add(d)
	return s.busy
}
