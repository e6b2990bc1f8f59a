// Package ring is messages between workers as FaRM sends them (HADES §II, Xenic §2.2.2): WRITTEN into a ring
// in the receiver's registered memory, which the receiver polls, and answered in the same way. It is an
// alternative to package rpc where a call is what travels: requests with handlers, answers that belong to one
// request each. No receive is consumed and no datagram is lost; the NIC of the receiver does the work that
// its CPU has with receives, and the CPU polls one ring for each peer.
//
//	port.Handle(typeLock, func(c *ring.Caller, req, resp []byte) (int, error) { ... })
//	l := port.Link(node)
//	err := l.Start(f, &call, typeLock, req, resp)
//	n, err := call.Await(f, deadline)
//
// # Links
//
// A Link joins two workers of the same index. It has a ring in each direction, and lives as long as the RC
// queue pair that carries it: when the owner of the port has another queue pair to the peer (Config.Conn), the
// link is opened anew, with a new generation. The worker of the lower node opens it, by a call of package rpc
// that tells where its ring is and is answered with where the peer's is; the other one asks for that. Calls
// that were in flight when a link went end with ErrDown: they were executed once or not at all.
//
// A call has no retransmission and no timeout of its own, since RC has both. While calls are in flight and
// nothing arrives the port WRITES a word to the peer now and then (Config.Probe), so that a peer that is gone
// shows as a queue pair that fails.
//
// # Bytes
//
// All numbers are little endian. A message takes whole lines (package lines: where lines become visible in any
// order each has a mark, elsewhere the last one has), one behind the other; the ring wraps.
//
//	 0  tag 32 | length of the body 16 | lines that are reserved for the answer 10 | kind 2 | flags 4
//	 8  ID 32 | epoch 32
//	16  head of the ring of the other direction, in lines 48 | type 8 | zero 8
//	24  the body, zero padded
//	    mark, in the last 8 bytes of the last line
//
// The tag is a hash of position and generation and never 0; the receiver clears the first word of each line
// that it has taken. So a first word that is not 0 begins a message, which is taken when all its marks are
// there.
//
// # Room
//
// A request takes room in the ring to the peer, and its answer will take room in the ring back: both are
// reserved before it is sent, each in a share of three eighths of a ring, so that answers always find room and
// two workers that call each other do not wait for each other. Who finds none waits. The receiver tells how far
// it has read in every message that it sends, and by a WRITE of a word once it is a quarter of the ring ahead
// of what it has told.
//
// # Epochs
//
// Every message carries the epoch of its sender's port. A request of an older epoch than the receiver's is not
// executed, and answered so. Raising the epoch ends the calls in flight with ErrEpoch.
//
// # Who may call what
//
// Everything belongs to the worker's thread. Handlers run at once, in the pass that found the request; they
// must not wait. Request and response of a call belong to the port until it has ended. The port is a fiber.Part:
// the worker closes it; Free frees its memory when the worker is closed. In steady state nothing is allocated.
package ring
