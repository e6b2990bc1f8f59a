// Package fiber runs straight-line protocol code over asynchronous verbs.
//
// A Thread is one OS thread (or one core of the simulator). It runs Workers; each belongs to a
// node and owns a send and a receive CQ and one RC queue pair per peer. A worker runs Fibers:
// coroutines that post operations and await them. While a fiber waits, the worker polls completions
// and resumes the fibers that are ready. So many transactions overlap on one thread, and the code of
// each reads from top to bottom, like the pseudo-code of the papers (design decision 4).
//
// # The interface
//
//	old, err := c.CAS(f, addr, rkey, expect, swap)  // post, wait, result
//	err = c.Read(f, sge, addr, rkey)
//
//	b.Reset()                                       // several at once, on several peers
//	b.CAS(f, c1, ...); b.Read(f, c2, ...)
//	err = b.Await(f)                                // first error; each has its own
//
//	f.Sleep(d); f.Now(); f.Yield(); f.Charge(cost); f.AwaitWord(...)
//
// The worker collects requests per queue pair and posts them with one doorbell when the fiber waits, or
// at the end of its pass. Only the last request of a doorbell is signaled; its completion completes the
// others. Awaiting an operation that is already complete does not switch to another fiber.
//
// A Part, such as package rpc's port, runs on a worker beside its fibers: it has its own queue pairs that
// report to the worker's CQ, handles their completions, and sends what it has collected at the end of
// each pass. Timers call it when it is time, Watches when a peer has written memory.
//
// # Who may call what
//
// A worker and everything in it belong to its thread: only its fibers, and callbacks that the worker
// runs, may call it. Worker.Submit and Thread.Stop are the exceptions. A fiber never blocks its thread;
// it waits only by calls of this package.
//
// # Real and virtual time
//
// The worker is a step function over a clock. Thread.Run drives it on real transports: spin for
// a bounded time, then sleep on the completion channels. Core drives it in the simulator, where
// Charge spends virtual CPU time and nothing else does.
//
// # Memory
//
// An abandoned operation (deadline, cancellation) is still in flight: its buffer belongs to the device
// until the worker has seen the completion. Conn.Quiesce waits for that, and so does Worker.Close before
// it deregisters memory.
package fiber
