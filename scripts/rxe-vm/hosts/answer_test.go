package hosts

import (
	"encoding/binary"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"drtmd/verbs"
)

// TestLostAnswerOfAnAtomic has node 2 execute a WRITE and a CAS while what it sends is lost, and lets it
// answer when they are sent again. The CAS then gives what it has found, or it has failed: rxe completes
// it without its result (see docs/RXE.md), which on the pinned kernel must be seen, so that the test is
// known to test something.
func TestLostAnswerOfAnAtomic(t *testing.T) {
	const rounds = 6
	// Between two tries 0.5 s: the outage is over before the fourth, on a slow machine too.
	attr := verbs.ConnectAttr{RTS: verbs.RTSAttr{Timeout: 17, RetryCount: 6}}
	n, missing := node(t), 0
	for i := range uint64(rounds) {
		t.Run("round", func(t *testing.T) {
			h := connectWith(t, n, attr)
			if n == 2 {
				h.executeUnheard(i + 1)
			} else if !h.casAnswered(i) {
				missing++
			}
			h.barrier("done")
		})
	}
	if n == 1 {
		t.Logf("%d of %d results were missing", missing, rounds)
		if missing == 0 && os.Getenv("DRTMD_GUEST_PINNED") == "1" {
			t.Error("no result was missing: rxe deviates no more, or the test does not bring it out")
		}
	}
}

// casAnswered is node 1's part, and reports whether the result came.
func (h *half) casAnswered(i uint64) bool {
	h.barrier("blocked")
	const result = 64
	binary.NativeEndian.PutUint64(h.buffer.Bytes()[result:], ^uint64(0))
	request := func(op verbs.Opcode, local, remote int) verbs.WR {
		wr := verbs.WR{Op: op, NumSGE: 1, RemoteAddr: h.remote.Addr + uint64(remote), RKey: h.remote.RKey}
		wr.SGE[0] = h.buffer.SGE(local, 8)
		return wr
	}
	cas := request(verbs.OpCAS, result, casCounter)
	cas.CompareAdd, cas.Swap, cas.Flags = 0, i+1, verbs.FlagSignaled
	_, err := h.qp.PostSend([]verbs.WR{request(verbs.OpWrite, 0, dataArea), cas})
	must(h.t, err)
	h.barrier("posted")
	h.barrier("open")
	if err := h.completion(); err != nil {
		h.t.Logf("round %d: %v", i, err)
		return false
	}
	if old := binary.NativeEndian.Uint64(h.buffer.Bytes()[result:]); old != 0 {
		h.t.Errorf("round %d: the CAS has succeeded, and found %#x, want 0", i, old)
	}
	return true
}

// executeUnheard is node 2's part: its memory changes, and nobody hears of it.
func (h *half) executeUnheard(swapped uint64) {
	tc := func(args ...string) {
		out, err := exec.Command("tc", args...).CombinedOutput()
		if err != nil {
			h.t.Fatalf("tc %v: %v: %s", args, err, out)
		}
	}
	dev := os.Getenv("NETDEV")
	tc("qdisc", "add", "dev", dev, "root", "handle", "1:", "prio", "bands", "4")
	tc("qdisc", "add", "dev", dev, "parent", "1:4", "handle", "40:", "netem", "loss", "100%")
	tc("filter", "add", "dev", dev, "parent", "1:", "protocol", "ip", "u32", "match", "ip", "protocol", "17",
		"0xff", "match", "ip", "dport", "4791", "0xffff", "flowid", "1:4")
	open := false
	h.t.Cleanup(func() {
		if !open {
			tc("qdisc", "del", "dev", dev, "root")
		}
	})
	h.barrier("blocked")
	h.barrier("posted")
	word := (*uint64)(unsafe.Pointer(&h.target.Bytes()[casCounter]))
	for end := time.Now().Add(patience); atomic.LoadUint64(word) != swapped; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatal("the CAS was not executed")
		}
	}
	tc("qdisc", "del", "dev", dev, "root")
	open = true
	h.barrier("open")
}
