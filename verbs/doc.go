// Package verbs is the contract of the project's RDMA layer: the vocabulary of libibverbs as
// Go types, and the one place that enforces the portable strict subset of its behaviour.
//
// # What it is
//
// A Context is an open device (ibv_open_device); it makes protection domains (PD), memory
// regions (MR), completion channels (Channel), completion queues (CQ), queue pairs (QP, RC and
// UD) and address handles (AH). The providers (verbs/ibv, verbs/shm, verbs/sim) implement
// the Driver interfaces of this package; programs only ever see the concrete types here. This
// package imports no provider and has no cgo.
//
// # The portable strict subset
//
// Providers differ in what they tolerate. The layer above them refuses whatever one of them
// would refuse or get wrong, in the same way on all:
//
//   - A send slot is free again only after a later signaled completion was polled; one request
//     more than the queue holds is refused at post (ENOMEM) and nothing is lost.
//   - A datagram over the path MTU is refused at post (EMSGSIZE).
//   - An unaligned atomic is refused at post (EINVAL).
//   - READ and atomics need MaxRdAtomic; without it they are refused at post.
//   - A CQ must have room for everything that may still complete on it, unsignaled requests
//     included, because these complete too when a QP fails. The post that could overrun a CQ
//     breaks it: the post fails with ErrCQOverrun, the CQ and every QP on it are in error, and
//     an EventCQErr says so.
//   - The first completion with an error puts its QP into the error state; what was posted is
//     flushed (WCWRFlushErr). Such a QP is closed and made anew, it is never reset.
//   - A posted request is carried out without any further call, retries included: its owner may
//     sleep, or wait for something else, and need not poll.
//   - A receive buffer that is too small fails with WCLocLenErr at the receiver and
//     WCRemInvReqErr at the sender; one that its own side may not write with WCLocProtErr at the
//     receiver, and WCRemOpErr or WCRemInvReqErr at the sender. An operation that the responder's
//     QP does not allow fails with WCRemInvReqErr, one that its MR does not allow with
//     WCRemAccessErr.
//   - Of an error completion only ID, Status, QPN and VendorErr mean anything, and Raw, the
//     provider's own status; the rest is zero. ByteLen of a send completion is zero.
//
// # Memory
//
// Registered memory is allocated by the device (PD.AllocMR), lies outside the Go heap, never
// moves, and is unmapped by MR.Close: the slice that MR.Bytes returned must not be touched
// after that. Race builds of the in-process shm provider place it on the Go heap.
//
// # Concurrency
//
// Control calls are safe from any goroutine. On the data path, PostSend, PostRecv and Poll are
// safe too unless the CQ was made SingleThreaded (ibv's IBV_CREATE_CQ_ATTR_SINGLE_THREADED):
// then the CQ and the matching halves of its QPs belong to one goroutine at a time, and no
// lock is taken. QP.ToError is always safe. Post writes the Token field of the caller's work
// requests, so one slice must not be posted from two goroutines at once.
//
// Nothing on the data path allocates.
package verbs
