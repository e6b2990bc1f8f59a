// Package rpc is two-sided RPC over unreliable datagrams, written on fibers: what FaSST and eRPC
// do, with the batching that Dandelion (§5) builds on.
//
// A Port is a worker's one UD queue pair. Connect opens a Session to another port; each side can
// call the other on it. Handlers are registered by Type and run on the worker that received the
// request: at once in its receive loop, or as a fiber of their own when they must await.
//
//	port.Handle(typeGet, func(req, resp []byte) (int, error) { ... })
//	s, err := port.Connect(f, address, deadline)
//	n, err := s.Call(f, typeGet, req, resp, deadline)
//
//	s.Start(f, &c1, typeGet, req1, resp1)     // several in flight
//	s2.Start(f, &c2, typeGet, req2, resp2)
//	err := rpc.AwaitAll(f, deadline, &c1, &c2)
//
// # At most once
//
// A session has slots, each with one request outstanding and a sequence number. The server keeps,
// per slot, the last sequence that it executed and the response: the same sequence again gets the
// saved response, or "in progress" while the handler runs; an older one is dropped. A call ends
// with exactly one response or error; after an error other than RemoteError the request was
// executed once or not at all. A caller that gives up (deadline, cancellation) frees its slot; its
// request is not sent again.
//
// A port has an incarnation, which its Address carries and every datagram repeats. A peer that
// restarted answers with a reset: callers get ErrPeerReset within one retransmission, and no
// request of before is executed. A peer that shows no sign of life for Config.PeerTimeout is
// ErrPeerGone. Such a session stays failed; Connect opens a new one.
//
// # Who calls, and when
//
// A handler of HandleFrom learns its Caller: node, worker and life, as the peer's Config.Self said when
// the session was opened, the incarnation of its port, and the epoch of the request. The epoch belongs to
// the port; its owner raises it with SetEpoch. Every datagram carries the epoch of its sender, and one of
// an older epoch than the receiver's is counted (ReasonEpoch) and dropped, but for openings. A newer one
// is taken: its handler sees the epoch. A request belongs to the epoch in which it was started: raising
// the epoch ends the calls in flight with ErrEpoch, so that none is sent again under the new one, and
// drops the answers to requests of before. A port that is behind learns so from the peer's datagrams, and
// its calls end with ErrEpoch after one retransmission timeout.
//
// # Batching
//
// Messages are gathered while the worker runs and leave at the end of its pass: those for one
// session in one datagram, all datagrams with one doorbell, and nothing waits to fill a quota.
// The receive loop hands the requests of a datagram to OnBatch, so that a store can prefetch,
// before it runs their handlers. Config.NoBatch sends each message in a datagram of its own.
//
// # Flow control and loss
//
// Each side grants the other a window of datagrams in flight and has receive buffers for it, so
// that the receive queue does not run dry in normal running; datagrams carry a number and
// acknowledge the other side's. Whoever hears nothing for a retransmission timeout (measured as
// RFC 6298 says, doubled each time, bounded) takes what is in flight for lost and goes on with a
// window of one until the peer is heard again. The client retransmits, the server never does of
// its own. Long messages are sent in segments, in order; a missing one is sent again with what
// follows it (go back N).
//
// # Bytes
//
// All numbers are little endian. A datagram, after the GRH:
//
//	 0  magic "dR" 2 | version 1 | messages 1 | length 2 | acknowledged number 2, its low half
//	 8  source incarnation 8
//	16  destination incarnation 8
//	24  source session 4 | destination session 4 (0: to open one)
//	32  number 4 | epoch 4
//	40  messages, each at a multiple of 8:
//	     0  kind 1 | flags 1 | type 1 | slot 1
//	     4  sequence 4
//	     8  length of the whole request or response 4
//	    12  segment 2 | bytes here 2
//	    16  the bytes, zero padded to 8
//
// The bytes of an opening (hello, welcome) are the sender's verbs.Endpoint 64 | window 2 |
// slots 2 | longest message 4, and in its message's header stand in place of sequence, segment, type and
// slot the sender's worker 2 | node 2, and its life 2 | 1 | 1, low bytes first; those of a reset are the incarnation 8 | session 4 | zero 4 that
// the refused datagram was for. Whatever arrives is checked; what does not fit is counted by
// Reason and dropped.
//
// # Who may call what
//
// Everything belongs to the worker's thread. Request and response slices of a call belong to the
// port until the call has ended; a handler's are valid during the handler. The port owns its
// registered memory. Memory is bounded: Config.Peers sessions, with Config.Slots requests and
// responses of at most Config.MaxMessage bytes each, allocated as they are needed, and a buffer of
// that size for each fiber handler that runs.
//
// What it does not do: congestion control beyond the window, encryption, authentication. Any QP
// that knows the queue key can send; one that also knows incarnations and session numbers can
// forge messages.
package rpc
