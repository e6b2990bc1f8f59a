// Package exchange is the protocol between the two sides of drtmd perf: they exchange versions, and the
// endpoints and memory keys of each measurement. It runs over TCP between two processes, and over an
// in-memory pipe within one.
//
// The connecting side says hello first; the other answers with its own. Both must be through
// within HandshakeTimeout of the connection, however slowly bytes arrive; what is not a drtmd
// peer, or is one of another version, is refused with one error that says which. Afterwards the
// connecting side leads:
//
//	Setup   -> what to measure, its endpoint and memory
//	        <- Ready     the endpoint and memory of the other side, which now serves
//	(traffic over verbs)
//	Stop    -> the measurement is over
//	        <- Stopped   what arrived
//	Bye     -> no more measurements
//
// The connecting side says Alive every BeatEvery, at any time, so that the other side, which may
// have nothing to do during the traffic, tells a long measurement from a process that is stopped.
//
// Either side may say Fail, with a reason, at any time. Frames carry rkeys: who can read or
// change the TCP stream can reach the registered memory, so it belongs on a trusted network.
//
// Every frame is limited in length and checked; nothing that a peer sends is trusted beyond it.
package exchange
