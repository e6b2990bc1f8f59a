// Package bench measures latency and message rate of one verb at a time, through package verbs,
// on any provider. drtmd perf runs it.
//
// # Sides
//
// The initiator leads: it asks the responder for one measurement after another (package
// exchange), issues the operations, and holds the clock. The responder lends memory for one-sided
// operations and answers messages. In one process both are goroutines with a device context
// each; between two processes only the transport of the exchange differs. Each measurement has its
// own queue pairs, queues and memory, so that an error in one does not affect the next.
//
// # What a number means
//
// Latency has one operation outstanding. For READ, CAS and FAA, and for a WRITE of 0 bytes, it
// is the time from the post to the polled completion. For WRITE, SEND and UD SEND it is half of
// a ping-pong, as perftest prints: the other side answers each message with one of the same
// size, and a WRITE has arrived when its last byte is seen in memory. One clock reading separates
// two operations, so a latency contains one reading (its cost is measured and recorded).
//
// Rate keeps up to depth requests outstanding on one QP and posts them in batches, of which only the
// last request is signaled. READ, WRITE and atomics count when completed. For SEND the receiver
// returns credits, so that it never runs out of receive buffers (an RNR would measure the RNR
// timer); sent messages count when received. All operations of a measurement use the same memory,
// which is therefore warm.
//
// Every measurement ends with a verification: of the words that CAS and FAA changed, and of a
// checksum of the data.
//
// # Threads
//
// Each side is one goroutine locked to its OS thread, with single-threaded CQs. Waiting is a
// busy poll that yields the CPU every 64 empty polls and sleeps after 20 ms without
// progress, so that two sides on two cores do not starve what they wait for. A wait without
// progress ends after 10 s. The measuring loops do not allocate.
package bench
