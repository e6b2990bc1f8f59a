// Package shm is the default provider: a device, shm0, whose wire is memory shared between threads and
// between processes of one host.
//
// # How it works
//
// Every open Context is a member of a fabric, a run directory that the processes of one user
// share (package internal/fabric): it has a slot there, whose file lock tells the others that it
// lives, and its GID names slot and incarnation. A Context shows its peers one control segment
// with tables of its MRs, QPs and CQs (layout.go), and the memory of its MRs and receive queues.
//
// The initiator's own CPU does the work of a NIC. PostSend looks up the peer's MR by its rkey,
// checks bounds, rights and protection domain, and reads or writes the memory line by line.
// Beside each MR lies a word for every 64-byte line (package verbs/lineword): WRITE, CAS, FAA and
// the arrival of a message lock the line and raise its version, READ looks at the word before and
// after. Memory without remote rights and line owners, which is not kept, is private: this process
// stores there without locks, what READ, CAS and FAA have found and what datagrams bring. A SEND on
// an RC QP goes straight into the buffer that the peer posted; a datagram goes into a slot of a
// bounded ring, from which the receiver's Poll copies it.
//
// What can go on at once is complete when PostSend returns. What must wait (no receive posted, a
// locked line, memory still being imported) stays in the send queue, in order,
// and goes on in later calls of PostSend and Poll, and each millisecond by a ticker of the device,
// for owners that sleep or poll nothing. While requests are pending, and only then, owner and
// ticker exclude each other by a lock, on SingleThreaded CQs too.
//
// # Who owns what
//
// A segment belongs to the process that made it and ends with it, except kept MRs. A process that imports a
// segment has its own mapping, so a closed MR or a killed process takes no memory away from an operation that
// runs. The mapping of a peer's MR is removed with the last QP that has used it, or when that QP has used 32
// others.
//
// # Death and sleep
//
// An initiator locks one line at a time. Before that, it writes to its owner entry beside the MR which line
// it is, and what it will store. A process that finds a line locked for long asks the fabric whether the
// owner is alive. If the owner is dead, the process takes the line over and rolls it forward or back, so that
// a CAS or FAA has happened or has not. A line of memory without remote rights, where a sender died in the middle of
// a message, is only unlocked: by the next sender, and when the receive is flushed or its QP is closed. If the owner is
// only stopped, it keeps the line, and operations of others end with RETRY_EXC_ERR after
// 4.096 us * 2^Timeout * (RetryCount + 1) of their QP, 0.94 s by default; the completion's vendor error
// (VendorLine...) says why.
// The first use of a peer's memory needs that peer's process to run and gets two seconds at
// least. Under every line lock the initiator checks again that its QP, the peer's QP and the MR are valid: an
// initiator that was fenced while it slept changes nothing. A receiver skips a datagram slot after 50 us if
// the sender that claimed it has stopped.
//
// The death of a peer's process is noticed when the kernel closes its sockets, normally within
// some milliseconds; requests posted after that end with RETRY_EXC_ERR at once, pending ones
// at the next poll. Requests to a QP that was closed or is in error end so at once.
//
// # Trust
//
// Only processes of the same user can join. A process that overwrites shared memory may destroy its own data
// and that of the MRs it has access to, but it cannot crash this process or make it wait forever. A process
// never reads its own state back from shared memory; it reads other data there once, and checks it.
//
// # Architectures
//
// linux on amd64. The package relies on that processor's order of stores (a release is a plain
// store) and on 8-byte stores being whole. On arm64 lineword.StoreRelease is STLR, its Read needs
// a load barrier (DMB ISHLD) between copy and second look, and the plain stores in front of a
// release stay as they are; internal/fabric needs nothing. Elsewhere Open reports
// verbs.ErrNotBuilt.
//
// Builds with the race detector put all of it on the Go heap, so that the detector sees it, and
// reach only contexts of the same Provider; READ takes the line's lock there.
package shm
