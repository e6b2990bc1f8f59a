package hosts

import (
	"bytes"
	"encoding/binary"
	"testing"

	"drtmd/verbs"
)

// Offsets in the target.
const (
	addCounter = 0
	casCounter = 64
	dataArea   = 4096
)

// TestLossyLinkKeepsResultsRight works on the peer's memory in both directions at once while the
// story drops packets. Retransmission must be invisible: what was written reads back, and an
// atomic is carried out exactly once, however often its request or its answer was lost: each
// returns the value that the one before left, and the sum in memory is the number of calls.
func TestLossyLinkKeepsResultsRight(t *testing.T) {
	const rounds = 150
	h := connect(t, node(t))
	for i := range uint64(rounds) {
		h.atomic(verbs.WR{Op: verbs.OpFAA, CompareAdd: 1}, addCounter, i)
		h.atomic(verbs.WR{Op: verbs.OpCAS, CompareAdd: i, Swap: i + 1}, casCounter, i)
		h.writeAndReadBack(i)
	}
	h.barrier("done")
	for _, offset := range []int{addCounter, casCounter} {
		if got := binary.NativeEndian.Uint64(h.target.Bytes()[offset:]); got != rounds {
			t.Errorf("the word at offset %d is %d after %d atomics of the peer", offset, got, rounds)
		}
	}
	h.barrier("checked")
}

// atomic runs one and wants the old value to be want.
func (h *half) atomic(wr verbs.WR, offset int, want uint64) {
	h.t.Helper()
	must(h.t, h.do(wr, 0, 8, offset))
	if got := binary.NativeEndian.Uint64(h.buffer.Bytes()); got != want {
		h.t.Fatalf("%v number %d returned %d", wr.Op, want, got)
	}
}

// writeAndReadBack sends a pattern of one to five packets and compares what comes back. The
// sizes are those around the packet's, and the guest's links carry packets of 1024 bytes.
func (h *half) writeAndReadBack(round uint64) {
	h.t.Helper()
	sizes := []int{8, 1023, 1024, 1025, 4096, 5000}
	size := sizes[round%uint64(len(sizes))]
	const back = 32 << 10 // where the READ puts it
	pattern := h.buffer.Bytes()[64 : 64+size]
	for i := range pattern {
		pattern[i] = byte(round) + byte(i) + byte(i>>8)
	}
	clear(h.buffer.Bytes()[back : back+size])
	must(h.t, h.do(verbs.WR{Op: verbs.OpWrite}, 64, size, dataArea))
	must(h.t, h.do(verbs.WR{Op: verbs.OpRead}, back, size, dataArea))
	if !bytes.Equal(pattern, h.buffer.Bytes()[back:back+size]) {
		h.t.Fatalf("round %d: %d bytes read back are not those written", round, size)
	}
}
