// Package fiber runs straight-line protocol code over asynchronous verbs.
//
// A Thread is one OS thread (or one core of the simulator). It runs Workers; each belongs to a
// node and owns a send and a receive CQ and one RC queue pair per peer. A worker runs Fibers:
// coroutines that post operations and await them. While a fiber waits, the worker polls
// completions and resumes whoever is ready, so that many transactions overlap on one thread and
// each still reads from top to bottom, like the pseudo-code of the papers (design decision 4).
//
// # What a protocol author sees
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
// Requests are collected per queue pair and rung in with one doorbell when the fiber waits, or
// at the end of the worker's pass; only the last of a doorbell is signaled, and its completion
// completes those before it. An operation that is complete when awaited does not switch.
//
// A Part, such as package rpc's port, works on a worker beside its fibers: it has queue pairs of
// its own that report to the worker's CQ, takes their completions, and sends what it gathered at
// the end of each pass.
//
// # Who may call what
//
// Everything of a worker belongs to its thread: only its own fibers, and callbacks that the
// worker runs, may call it. Worker.Submit and Thread.Stop are the exceptions. A fiber never
// blocks its thread; it waits through the calls of this package only.
//
// # Real and virtual time
//
// The worker is a step function over a clock. Thread.Run drives it on real transports: spin for
// a bounded time, then sleep on the completion channels. Core drives it in the simulator, where
// Charge spends virtual CPU time and nothing else does.
//
// # Memory
//
// An operation that is abandoned (deadline, cancellation) is still in flight: its buffer belongs
// to the device until the worker has seen its completion. Conn.Quiesce waits for that, and
// Worker.Close does so before anything is deregistered.
package fiber
