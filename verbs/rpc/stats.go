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
	BytesSent         uint64              // of datagrams, their headers included
	DatagramsInlined  uint64              // sent with the doorbell, being at most Config.Inline bytes long
	OneWays           uint64              // messages handed to Send
	OneWaysFailed     uint64              // that came and whose handler failed
	Stale             uint64              // one-way messages of an older epoch that were not sent any more
	Answers           uint64              // to forwarded requests, that came here
	Strays            uint64              // of them, that nobody expected
	Undelivered       uint64              // answers to requests of here that did not reach their target
	Lost              uint64              // failures of the queue pair that heal
	Garbage           [ReasonCount]uint64 // dropped, by Reason
}
