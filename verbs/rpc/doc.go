// Package rpc is two-sided RPC over unreliable datagrams, on fibers, as in FaSST and eRPC, with the
// batching of Dandelion (§5).
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
//	n1, err1 := c1.Await(f, deadline)
//	n2, err2 := c2.Await(f, deadline)
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
// A port has an incarnation, which is in its Address and in every datagram. A peer that has restarted
// answers with a reset: callers get ErrPeerReset within one retransmission, and no earlier request is
// executed. A peer that sends nothing for Config.PeerTimeout is ErrPeerGone; while a session is opened, the
// deadline of Connect may leave it more time. A time in which the own thread stood still, for half of that or longer, does
// not count: the machine may have been paused, and the peer with it. A session that has failed stays so; Connect opens a
// new one.
//
// # Callers and epochs
//
// A handler of HandleFrom gets its Caller: node, worker and life, as the peer's Config.Self stated when the
// session was opened, the incarnation of its port, and the epoch of the request. The epoch belongs to the
// port; its owner raises it with SetEpoch. Every datagram carries the epoch of its sender. The receiver
// counts (ReasonEpoch) and drops datagrams of an older epoch than its own, except openings. It accepts
// newer ones: their handler sees the epoch. A request belongs to the epoch in which it was started: raising
// the epoch ends the calls in flight with ErrEpoch, so that none is sent again under the new one, and drops
// the answers to older requests. The peer's datagrams tell a port that its epoch is too low; its calls then
// end with ErrEpoch after one retransmission timeout.
//
// # Batching
//
// A port collects messages while the worker runs, and sends them at the end of the worker's pass: those for
// one session in one datagram, all datagrams with one doorbell. No message waits for a batch to fill.
// Config.NoBatch sends each message in a datagram of its own.
//
// # Flows
//
// Session.Flow returns one of seven flows of a session. Messages of one flow to one peer share datagrams of
// up to the MTU; at any time one datagram is open per peer and flow. It is sent at the end of the worker's
// pass, in which every ready fiber has run until it waits, or by Flow.Flush. So a phase of a protocol uses a
// flow, and a batch of responses on the same flow answers a batch of its requests. What the worker answers and what it
// asks shares a datagram, unless Config.AnswersApart has them apart.
// Messages of a flow are compact: a request that locks one key, with 13 bytes for table, key and version,
// takes 16 bytes with its header, and 14 behind another of its type and length; 11 of them go inline where
// a device sends 188 bytes inline (Dandelion §5.2; Config.Inline, Stats.DatagramsInlined). Each fits in one
// datagram. To multicast, a caller starts the message on the flows of several sessions (TryInsertMcast).
//
//	fl := s.Flow(flowCommit)
//	fl.Start(f, &c, typeLock, req, resp)          // a request; await it as any other
//	fl.Send(f, typeUnlock, body, deadline)        // a one-way message
//	target, err := port.Expect(&answer, resp)     // at the node that wants the answer
//	fl.StartForward(f, &c, typeLog, req, target)  // at another: the answer goes to target
//	n, err := answer.Await(f, deadline)
//
// Requests of a flow are executed at most once, like others. A one-way message is executed at most once,
// too, but its loss is not reported: it is lost with its datagram; if the receiver has no handler for it or
// the handler fails (Stats.OneWaysFailed); if it arrives behind 64 later datagrams; if the receiver still
// waits for the answer to its own opening; or if the epoch is raised first. One-way messages have no order.
//
// A forwarded request goes to a third node in three exchanges, each of them at most once: the request, which
// its sender repeats until it is told that the answer was taken; the answer, which the executor repeats as a
// request to the target; and the target gives it to the one Answer with its ticket, or drops it (Stats.Strays).
// The executor finds the target by node and worker among its open sessions (SessionTo), whoever opened them.
// If the executor dies in between, the answer does not come: give Answer.Await a deadline.
//
// # Flow control and loss
//
// Each side grants the other a window of datagrams in flight, and has receive buffers for it, so that the
// receive queue normally does not run empty. Datagrams carry a number and acknowledge the other side's. A
// side that receives nothing for a retransmission timeout (measured as in RFC 6298, doubled each time,
// bounded) assumes that its datagrams in flight are lost, and continues with a window of one until it hears
// from the peer. Only the client retransmits by itself. Long messages are sent in segments, in order; a
// missing segment is sent again with those that follow it (go back N).
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
// A compact datagram carries the messages of a flow:
//
//	 0  magic "dR" 2 | 0x80 + flow * 16 + version 1 | messages 1
//	 4  destination session 4
//	 8  tag 4: a hash of both incarnations and both sessions
//	12  epoch 4
//	16  number 4 | acknowledged number 2, its low half
//	22  ID of the first message that carries none 4
//	26  messages, one behind the other:
//	     0  kind, bits 0 to 2 | names its ID, bit 3 | type and length as before, bit 4 | error, bit 5 |
//	        no handler, or deferred, bit 6 | long, bit 7
//	        type 1 (requests and one-way messages, unless as before)
//	        length 1, or 2 if long (unless as before)
//	        ID 4 (if named; otherwise it is that of the message before and one)
//	        target node 2 | worker 2 | ticket 8 (forwarded requests)
//	        the bytes
//
// An answer is a request whose bytes begin with the ticket 8. One-way messages have no ID. The low bits of a
// request's ID are its slot. IDs rise with every request of the session, which distinguishes the requests of
// a slot.
//
// The bytes of an opening (hello, welcome) are the sender's verbs.Endpoint 64 | window 2 | slots 2 | longest
// message 4. In the header of its message, sequence, segment, type and slot are replaced by the sender's
// worker 2 | node 2, and its life 2 | 1 | 1, low bytes first. The bytes of a reset are the incarnation 8 |
// session 4 | zero 4 of the refused datagram. The receiver checks everything that arrives; it counts invalid
// datagrams by Reason and drops them.
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
