package smartnic

// Board is a NIC with cores, in one life of its node. The functions that it calls run outside of any fiber.
type Board interface {
	Cores() int
	MTU() int // bytes of a packet that is gathered
	// OnPacket and OnHost say who takes the packets for a core, and for a thread of the host. from is the node that a
	// packet comes from, -1 the host. The bytes are the board's after the call.
	OnPacket(core int, f func(from int, packet []byte))
	OnHost(thread int, f func(packet []byte))
	// Transmit sends a packet to a core of another node's NIC. The bytes are copied.
	Transmit(node, core int, packet []byte)
	// ToHost and ToCore send a burst of packets over the queues between NIC and host. The bytes are copied.
	ToHost(thread int, packets [][]byte)
	ToCore(core int, packets [][]byte)
	// Stage adds bytes of a region of the host, and a buffer of the NIC, to the vector of a core that Submit gives to
	// the DMA engine: at most MaxVector. Lines are accessed in ascending order, each at one moment. done says when
	// that is over, and whether all of it was done; it is not called if the node dies.
	Stage(core int, write bool, rkey uint32, off int, buf []byte)
	Submit(core int, write bool, done func(ok bool))
	MaxVector() int
	// SubmitPs is the time of a core that a submission takes, TransferPs how long a DMA takes that nothing delays, and
	// WorkPs the time of work which takes so long on a core of the host. In picoseconds; 0 where work takes the time that
	// it takes.
	SubmitPs() int64
	TransferPs(write bool) int64
	WorkPs(hostPs int64) int64
	// Alloc gives memory of the NIC, which goes with the life of the node. It fails if the NIC has no more.
	Alloc(n int) ([]byte, error)
}
