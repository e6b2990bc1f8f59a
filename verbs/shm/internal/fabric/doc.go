//go:build linux && amd64

// Package fabric manages the processes and the memory of the shm provider: which processes are part of the
// fabric, which memory they share, and small calls from one process to another.
//
// A fabric is a run directory that the processes of one user share. It holds
//
//	lock             taken by whoever joins, leaves or reclaims (an OFD lock, bounded wait)
//	slots            table slot -> incarnation; byte N of it is locked while slot N's owner lives
//	pN.INCARNATION   the unix socket of the process in slot N
//	kept/NAME        named memory that outlives its process
//
// Death is the kernel's release of the OFD lock on a slot's byte and never a timeout. The kernel
// releases it when the last thread that shares the descriptor table has left user mode, so a
// process that Alive reports dead can store to shared memory no more (a fabric that was closed in
// a process that goes on is the exception: stop all access before Close).
//
// Memory. A Segment is a sealed memfd, a kept file, or plain Go heap in race builds. Whoever made
// or imported it owns one reference, given back by Close; the slice from Bytes is dead after
// that. Anonymous memory of a killed process goes away with the last mapping of it.
//
// Trust. Only processes of the same user can join: the directory is 0700, the sockets 0600, and both ends
// check SO_PEERCRED. Such a peer may still be broken or hostile: its descriptors are checked before they are
// mapped, frames are bounded and checked, and every wait ends. Kept files are trusted, like the user who can
// open them, because files of tmpfs cannot be sealed. A remaining risk: a peer that punches holes into shared
// memory can raise SIGBUS if the host has strict overcommit (vm.overcommit_memory=2) and no free memory, or
// with a hugetlb segment and an empty pool. Therefore Options.HugeTLB is off by default.
//
// Concurrency. All methods of Fabric, Segment and EventFD may be called from any goroutine. None
// is meant for the data path: each costs at least a system call. The package does not interpret memory, and
// knows nothing of queue pairs and keys.
package fabric
