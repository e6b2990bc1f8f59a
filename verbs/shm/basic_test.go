//go:build linux && amd64

package shm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"drtmd/verbs"
)

func TestOneSidedOperationsMoveBytes(t *testing.T) {
	for _, access := range []verbs.Access{verbs.AccessAll, verbs.AccessLocalWrite} {
		t.Run(access.String(), func(t *testing.T) { oneSidedOperations(t, access) })
	}
}

// oneSidedOperations moves bytes to and from memory with some rights.
func oneSidedOperations(t *testing.T, access verbs.Access) {
	a, b := newPair(t, nodeOptions{})
	var err error
	a.mr, err = a.pd.AllocMR(a.mr.Len(), access, verbs.MROptions{})
	check(t, err)
	for i := range b.mr.Bytes() {
		b.mr.Bytes()[i] = byte(i * 7)
	}
	for _, c := range []struct{ local, remote, n int }{
		{0, 0, 64}, {0, 0, 8}, {3, 5, 200}, {64, 1, 64}, {1, 64, 63}, {0, 0, 4096}, {8, 8, 1},
		{17, 1000, 30000}, {0, 0, 1 << 16},
	} {
		clear(a.mr.Bytes())
		wr := verbs.WR{Op: verbs.OpRead, NumSGE: 1, SGE: [4]verbs.SGE{a.mr.SGE(c.local, c.n)},
			RemoteAddr: b.mr.Addr() + uint64(c.remote), RKey: b.mr.RKey()}
		if wc := a.do(t, wr); wc.Status != 0 {
			t.Fatal(wc.Err())
		}
		if !bytes.Equal(a.mr.Bytes()[c.local:c.local+c.n], b.mr.Bytes()[c.remote:c.remote+c.n]) {
			t.Errorf("READ %+v: bytes differ", c)
		}
		for i := range a.mr.Bytes() {
			a.mr.Bytes()[i] = byte(i * 13)
		}
		clear(b.mr.Bytes())
		wr.Op = verbs.OpWrite
		if wc := a.do(t, wr); wc.Status != 0 {
			t.Fatal(wc.Err())
		}
		if !bytes.Equal(a.mr.Bytes()[c.local:c.local+c.n], b.mr.Bytes()[c.remote:c.remote+c.n]) {
			t.Errorf("WRITE %+v: bytes differ", c)
		}
		for i, v := range b.mr.Bytes() {
			if v != 0 && (i < c.remote || i >= c.remote+c.n) {
				t.Fatalf("WRITE %+v: byte %d outside was changed", c, i)
			}
		}
	}
	wr := verbs.WR{Op: verbs.OpFAA, NumSGE: 1, SGE: [4]verbs.SGE{a.mr.SGE(4, 8)},
		RemoteAddr: b.mr.Addr() + 8, RKey: b.mr.RKey(), CompareAdd: 5}
	binary.NativeEndian.PutUint64(b.mr.Bytes()[8:], 7)
	if wc := a.do(t, wr); wc.Status != 0 {
		t.Fatal(wc.Err())
	}
	if got := binary.NativeEndian.Uint64(a.mr.Bytes()[4:]); got != 7 {
		t.Errorf("FAA returned %d, not 7", got)
	}
	wr.Op, wr.CompareAdd, wr.Swap = verbs.OpCAS, 12, 99
	if wc := a.do(t, wr); wc.Status != 0 {
		t.Fatal(wc.Err())
	}
	if got := binary.NativeEndian.Uint64(b.mr.Bytes()[8:]); got != 99 {
		t.Errorf("CAS left %d, not 99", got)
	}
}

func TestSendIsReceivedInOrder(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.RC, verbs.UD} {
		t.Run(kind.String(), func(t *testing.T) {
			a, b := newPair(t, nodeOptions{kind: kind, qkey: 17})
			var handle uint32
			grh := 0
			if kind == verbs.UD {
				h, err := a.pd.CreateAHTo(b.qp.Endpoint())
				check(t, err)
				handle, grh = h.Handle(), verbs.GRHBytes
			}
			for i := range 200 {
				b.recv(t, uint64(i), 0, 4096)
				n := i * 17
				for j := range n {
					a.mr.Bytes()[j] = byte(i + j)
				}
				wc := a.do(t, verbs.WR{Op: verbs.OpSendImm, Imm: uint32(i), NumSGE: 1,
					SGE: [4]verbs.SGE{a.mr.SGE(0, n)}, AH: handle, RemoteQPN: b.qp.QPN(),
					RemoteQKey: 17})
				if wc.Status != 0 {
					t.Fatal(wc.Err())
				}
				wc = b.poll(t)
				if wc.Status != 0 || wc.ID != uint64(i) || wc.Imm != uint32(i) ||
					int(wc.ByteLen) != n+grh {
					t.Fatalf("message %d: %+v", i, wc)
				}
				if !bytes.Equal(a.mr.Bytes()[:n], b.mr.Bytes()[grh:grh+n]) {
					t.Fatalf("message %d: bytes differ", i)
				}
			}
		})
	}
}
