package smartnic

// NIC carries the program of one node, in one life of the node. It belongs to the goroutine of its event loop.
type NIC interface {
	// Send sends bytes to the program of another node, by its index, after a span of work in picoseconds. What is sent
	// to one node arrives in order and once, however late, unless one of the two nodes dies. The bytes are copied.
	Send(to int, payload []byte, afterPs int64)
	// AfterPs has f called after a span in picoseconds, unless the node dies.
	AfterPs(ps int64, f func())
	// Alive reports whether that life of the node goes on.
	Alive() bool
}

// Receiver is what a program does with a message. The bytes are the carrier's after the call.
type Receiver func(from int, payload []byte)
