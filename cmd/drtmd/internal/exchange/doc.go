// Package exchange is the protocol between the two sides of drtmd perf: they exchange versions, and the
// endpoints and memory keys of each measurement. It runs over TCP between two processes, and over an
// in-memory pipe within one.
//
// The connecting side sends Hello first; the other answers with its own. Both must arrive within
// HandshakeTimeout of the connection, however slowly bytes arrive. A peer that is not drtmd, or another
// version, is refused with an error that says which. Afterwards the connecting side leads:
//
//	Setup   -> what to measure, its endpoint and memory
//	        <- Ready     the endpoint and memory of the other side, which now serves
//	(traffic over verbs)
//	Stop    -> the measurement is over
//	        <- Stopped   what arrived
//	Bye     -> no more measurements
//
// The connecting side sends Alive every BeatEvery, at any time. The other side may have nothing to do during
// the traffic, and can so distinguish a long measurement from a stopped process.
//
// Either side may send Fail, with a reason, at any time. Frames carry rkeys: whoever can read or change the
// TCP stream can access the registered memory, so use a trusted network.
//
// Every frame is limited in length and checked before it is used.
package exchange
