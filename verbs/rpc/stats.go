package rpc

// Stats of a port, counted since its making; written by the worker's thread, read there.
type Stats struct {
	DatagramsSent     uint64
	DatagramsReceived uint64
	MessagesSent      uint64
	MessagesReceived  uint64
	Doorbells         uint64              // send posts
	AcksSent          uint64              // datagrams without a message
	Requests          uint64              // handlers run
	Calls             uint64              // calls started
	Retransmissions   uint64              // timeouts of calls
	Duplicates        uint64              // requests and responses that had been dealt with
	Stalls            uint64              // times that a window held messages back
	Reclaimed         uint64              // datagrams taken for lost
	Resets            uint64              // sent
	Evicted           uint64              // silent sessions that made room for others
	Lost              uint64              // failures of the queue pair that heal
	Garbage           [ReasonCount]uint64 // dropped, by Reason
}
