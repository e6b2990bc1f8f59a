//go:build cgo && linux

package ibv

// deviation is a point in which Soft-RoCE of Linux 6.1 differs from the contract of package
// verbs, or from hardware.
type deviation struct {
	Case string // what the contract speaks of
	RXE  string // what rxe 6.1 does there, seen below the layer
	Made string // what the provider and the layer make of it
}

// deviations is the table. Each row is checked by a test of the same name in the pinned guest,
// so that a kernel that behaves otherwise is noticed.
func deviations() []deviation {
	return []deviation{
		{
			Case: "depth of the send queue",
			RXE: "rounds the depth up, takes more requests than were asked for, and frees a " +
				"slot when the request is done, polled or not",
			Made: "the layer grants exactly the depth, and a slot is free only after a later " +
				"signaled completion was polled",
		},
		{
			Case: "CQ overrun",
			RXE: "raises a CQ error event and drops the completions that find no room; the QP " +
				"stays in RTS",
			Made: "the layer counts what may still complete: the post that could overrun the " +
				"CQ fails and breaks the CQ and its QPs",
		},
		{
			Case: "datagram over the path MTU",
			RXE:  "reports success and sends nothing",
			Made: "the layer refuses it at post (EMSGSIZE)",
		},
		{
			Case: "unaligned atomic",
			RXE:  "fails the post with EINVAL, in the user-space driver",
			Made: "the layer refuses it at post, before any driver sees it",
		},
		{
			Case: "receive buffer too small",
			RXE:  "LOC_QP_OP_ERR at the receiver, REM_OP_ERR at the sender; a UD QP fails too",
			Made: "LOC_LEN_ERR and REM_INV_REQ_ERR, with the driver's status in WC.Raw",
		},
		{
			Case: "receive buffer with a bad lkey",
			RXE: "the same LOC_QP_OP_ERR and REM_OP_ERR as for a buffer that is too small, so " +
				"that the sender cannot tell them apart",
			Made: "LOC_PROT_ERR at the receiver, which knows its buffers; REM_INV_REQ_ERR at " +
				"the sender, with REM_OP_ERR in WC.Raw",
		},
		{
			Case: "request with a bad lkey",
			RXE:  "LOC_QP_OP_ERR if the key is unknown, LOC_PROT_ERR only out of bounds",
			Made: "LOC_PROT_ERR: the provider checks the pieces of the request that failed",
		},
		{
			Case: "request while the interface is down",
			RXE:  "LOC_QP_OP_ERR at once, without retries",
			Made: "RETRY_EXC_ERR on RC, as for any peer out of reach, with LOC_QP_OP_ERR in " +
				"WC.Raw",
		},
		{
			Case: "datagram while the interface is down",
			RXE:  "LOC_QP_OP_ERR, and the UD queue pair is in error",
			Made: "RPC ports bring it back under its number: to RESET when all is flushed, and up " +
				"again (`verbs.QP.ToReset`)",
		},
		{
			Case: "retry count 7",
			RXE: "never gives up: a request to a peer that does not answer gets no completion, " +
				"where hardware fails it after seven retries",
			Made: "the layer refuses 7 on every provider; the default is 6, with which a request " +
				"fails after 0.94 s",
		},
		{
			Case: "receive posted in the error state",
			RXE:  "is kept and never flushed: the kernel does not look",
			Made: "the provider moves the QP to the error state once more after such a post",
		},
		{
			Case: "QP that failed as a target",
			RXE: "goes to the error state without an asynchronous event; hardware announces " +
				"QP_ACCESS_ERR or QP_REQ_ERR",
			Made: "its posted receives are flushed, which tells the layer; a receive posted to " +
				"an empty queue makes the provider ask for the state",
		},
		{
			Case: "GRH flag of an RC receive",
			RXE:  "sets IBV_WC_GRH on receives of RC QPs, whose buffers hold no GRH",
			Made: "the layer clears it",
		},
		{
			Case: "CAS that does not match",
			RXE:  "writes the word back unchanged, so that a CPU store in between is lost",
			Made: "nothing: the device says ATOMIC_HCA; a word that is the target of atomics " +
				"is written by NIC atomics only",
		},
		{
			Case: "CPU atomics against remote ones",
			RXE:  "do not exclude each other (ATOMIC_HCA): updates are lost",
			Made: "nothing, by design: a local CAS on such a word goes through the loopback QP",
		},
	}
}
