// Package ring carries messages between workers as FaRM does (HADES §II, Xenic §2.2.2): the sender WRITEs a
// message into a ring in the receiver's registered memory, and the receiver polls the ring. Answers come the
// same way. The package is an alternative to package rpc for calls, where each answer belongs to one request.
// A call consumes no receive, and no datagram can be lost. The receiver's NIC places messages, which saves the
// receiver's CPU the work of receives; in return the CPU polls one ring for each peer.
//
//	port.Handle(typeLock, func(c *ring.Caller, req, resp []byte) (int, error) { ... })
//	l := port.Link(node)
//	err := l.Start(f, &call, typeLock, req, resp)
//	n, err := call.Await(f, deadline)
//
// # Links
//
// A Link joins two workers that have the same index. It has one ring in each direction, and lives as long as
// the RC queue pair that carries it. When the owner of the port has another queue pair to the peer
// (Config.Conn), the link is opened again, with a new generation. The worker of the node with the lower id
// opens the link: it calls the peer by package rpc, says where its own ring is, and the answer says where the
// peer's ring is. A peer whose queue pair is not the other end of the caller's refuses. The other worker can only
// ask for that call. When a link ends, its calls in flight end with ErrDown: each was executed once or not at all.
//
// Calls have no retransmission and no timeout of their own, because RC has both. If calls are in flight and
// nothing arrives, the port WRITEs a word to the peer at intervals of Config.Probe. If the peer is gone, this
// WRITE makes the queue pair fail.
//
// # Bytes
//
// All numbers are little endian. A message takes whole lines, and messages follow each other in the ring,
// which wraps. Where lines may become visible in any order, each line ends with a mark; elsewhere only the
// last line does (package lines).
//
//	 0  tag 32 | length of the body 16 | lines that are reserved for the answer 10 | kind 2 | flags 4
//	 8  ID 32 | epoch 32
//	16  head of the ring of the other direction, in lines 48 | type 8 | zero 8
//	24  the body, zero padded
//	    mark, in the last 8 bytes of the last line
//
// The tag is a hash of position and generation, and is never 0. The receiver clears the first word of each
// line that it has read. So a first word other than 0 begins a message. The receiver takes the message once
// all its marks are there.
//
// # Room
//
// A request needs room in the ring to the peer, and its answer needs room in the ring back. The sender
// reserves both before it sends. Requests and answers each may use three eighths of a ring: so there is always
// room for answers, and two workers that call each other cannot deadlock. A sender without room waits. Every
// message tells the peer how far its sender has read. When that is a quarter of the ring more than the peer was
// told, the receiver WRITEs it to the peer as a word.
//
// # Epochs
//
// Every message carries the epoch of its sender's port. The receiver does not execute a request of an older
// epoch than its own; it answers with a refusal. Raising the epoch ends the calls in flight with ErrEpoch.
//
// # Concurrency
//
// Everything belongs to the worker's thread. A handler runs at once, in the pass that found its request, and
// must not wait. Until a call ends, the port owns the memory of its request and response. The port is a
// fiber.Part: the worker closes it. Free releases its memory after the worker is closed. In steady state the
// port allocates nothing.
package ring
