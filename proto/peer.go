package proto

import (
	"drtmd/store/log"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Peer is how a worker reaches a machine. Engines share the slice of their worker's peers with
// whoever connects it: on the worker's thread, a peer may get another Conn or Session while a
// transaction waits, so an engine looks the peer up for each request and keeps nothing of it.
type Peer struct {
	Conn    *fiber.Conn  // that of the own machine leads back to itself
	Session *rpc.Session // nil for the own machine
	// Shares are the replicas that it holds, by shard; nil: none of that shard. A share may come while
	// transactions run.
	Shares []*PeerShare
	// Log is the ring there that this worker appends to; the zero value: there is none.
	Log PeerLog
	// Memory and Tables are those of the share of its own shard.
	Memory verbs.RemoteMR
	Tables []*remote.Table // table t is Tables[t-1]
}

// PeerShare is a replica of a shard on a peer.
type PeerShare struct {
	Memory verbs.RemoteMR
	Tables []*remote.Table // table t is Tables[t-1]
}

// PeerLog is a ring on a peer.
type PeerLog struct {
	Addr   uint64 // of its memory: a log.Piece's Offset counts from there
	RKey   uint32
	Writer log.WriterConfig
}
