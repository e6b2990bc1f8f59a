// Package ibv is the provider over libibverbs: RDMA hardware and Soft-RoCE (rxe) alike.
//
// # What it is
//
// Thin: shim.h and the .c files beside it turn the flat structures of package verbs into those
// of libibverbs, hide the unions, bit-fields and macros of verbs.h, and return errnos; the Go
// files own every lifetime. What is portable about the behaviour is enforced by package verbs,
// above; what a driver gets wrong below it is corrected here (rxe.go) and listed in docs/RXE.md.
//
// A list is posted, and a batch polled, by one cgo call each. Work requests cross as they are
// and are translated on the C stack; scatter lists are read where the caller has them, during
// the call only. Nothing on the data path allocates.
//
// # Memory
//
// Regions are anonymous mappings (huge pages where enough are free), kept out of forked
// children, registered, and unmapped after deregistration. No Go pointer is stored in C, and
// address handles cross as indexes into a table on the C side that is checked at each post.
//
// # Blocking
//
// Descriptors of completion channels and of asynchronous events are non-blocking. Nothing waits
// inside libibverbs: the layer waits on the descriptor, and asynchronous events are read by a
// goroutine that sits in Go's poller. Both kinds of event are acknowledged as soon as they are
// read, so that destroying the object of an event never waits for the program.
//
// # Kept memory
//
// A provider with Options.KeepDir keeps memory in files of that folder, mapped shared: on tmpfs, where it
// outlives the process, on hugetlbfs, likewise with huge pages, or on DAX, where it outlives the machine.
//
// # What it does not do
//
// Shared receive queues, memory windows, resets, P_Keys other than index 0,
// waiting for lines (design decision 9). Without cgo the package builds, and Open fails
// with verbs.ErrNotBuilt.
package ibv
