//go:build linux && amd64 && !race

package shm

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// stormLines is how many lines of the parent's MR a storm works on.
const stormLines = 16

// serve posts receives and echoes each message as an 8-byte FAA on the first word of the
// parent's MR.
func (r *role) serve() {
	for i := range 32 {
		r.n.recv(r.tb, uint64(i), i*1024, 1024)
	}
	for {
		wc := r.n.poll2(r.tb)
		if wc.Status != 0 {
			continue
		}
		if wc.Op == verbs.WCOpcode(verbs.OpRecv) {
			r.n.recv(r.tb, wc.ID, int(wc.ID)*1024, 1024)
		}
	}
}

// poll2 polls for ever, sleeping now and then.
func (n *node) poll2(t testing.TB) verbs.WC {
	var wcs [1]verbs.WC
	for i := 0; ; i++ {
		k, err := n.cq.Poll(wcs[:])
		check(t, err)
		if k == 1 {
			return wcs[0]
		}
		if i%64 == 63 {
			time.Sleep(20 * time.Microsecond)
		}
	}
}

// storm posts one kind of operation as fast as it can until an error.
func (r *role) storm(op verbs.Opcode) {
	wr := verbs.WR{Op: op, NumSGE: 1, RKey: r.peer.MR.RKey, Flags: verbs.FlagSignaled}
	if r.n.qp.Type() == verbs.UD {
		h, err := r.n.pd.CreateAHTo(r.end)
		check(r.tb, err)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = h.Handle(), r.end.QPN, 17
	}
	words := r.n.mr.Bytes()
	for i := uint64(1); ; i++ {
		line := i % stormLines
		wr.RemoteAddr = r.peer.MR.Addr + line*lineBytes
		wr.CompareAdd, wr.Swap = i-1, i
		switch op {
		case verbs.OpCAS, verbs.OpFAA:
			wr.SGE[0] = r.n.mr.SGE(4096, 8)
			wr.CompareAdd = 1
			if op == verbs.OpCAS {
				wr.CompareAdd = binary.NativeEndian.Uint64(words[4096:])
				wr.Swap = wr.CompareAdd + 1
				wr.RemoteAddr = r.peer.MR.Addr
			}
		default: // a line of equal bytes
			wr.SGE[0] = r.n.mr.SGE(0, lineBytes)
			for j := range lineBytes {
				words[j] = byte(i)
			}
		}
		_, err := r.n.qp.PostSend([]verbs.WR{wr})
		check(r.tb, err)
		if wc := r.n.poll2(r.tb); wc.Status != 0 {
			time.Sleep(time.Hour) // until the parent hangs up
		}
	}
}

// await waits until the child has connected.
func (c *child) await() {
	c.t.Helper()
	var s string
	c.hear(&s)
}

func TestOperationsCrossProcesses(t *testing.T) {
	dir := runDir(t)
	n := newNode(t, New(Options{Dir: dir}), nodeOptions{})
	c := startChild(t, dir, "serve")
	h := c.meet(n)
	c.await()
	want := bytes.Repeat([]byte("line of sixty-four bytes, sixteen x4"), 100)
	copy(n.mr.Bytes(), want)
	wr := verbs.WR{Op: verbs.OpWrite, NumSGE: 1, SGE: [4]verbs.SGE{n.mr.SGE(0, len(want))},
		RemoteAddr: h.MR.Addr + 40000, RKey: h.MR.RKey}
	if wc := n.do(t, wr); wc.Status != 0 {
		t.Fatal(wc.Err())
	}
	wr.Op = verbs.OpRead
	wr.SGE[0] = n.mr.SGE(20000, len(want))
	if wc := n.do(t, wr); wc.Status != 0 {
		t.Fatal(wc.Err())
	}
	if !bytes.Equal(n.mr.Bytes()[20000:20000+len(want)], want) {
		t.Fatal("READ gave other bytes than WRITE stored")
	}
	for i := range 100 {
		wr := verbs.WR{Op: verbs.OpSend, NumSGE: 1, SGE: [4]verbs.SGE{n.mr.SGE(0, i)}}
		if wc := n.do(t, wr); wc.Status != 0 {
			t.Fatal(i, wc.Err())
		}
	}
}

func TestDatagramsCrossProcesses(t *testing.T) {
	dir := runDir(t)
	n := newNode(t, New(Options{Dir: dir}), nodeOptions{kind: verbs.UD, qkey: 17})
	c := startChild(t, dir, "ud-send")
	c.meet(n)
	for i := range 32 {
		n.recv(t, uint64(i), i*128, 128)
	}
	c.await()
	for range 1000 {
		wc := n.poll(t)
		if wc.Status != 0 || wc.ByteLen != lineBytes+verbs.GRHBytes {
			t.Fatalf("%+v", wc)
		}
		b := n.mr.Bytes()[wc.ID*128+verbs.GRHBytes:][:lineBytes]
		if !bytes.Equal(b, bytes.Repeat(b[:1], lineBytes)) {
			t.Fatalf("torn datagram %v", b)
		}
		n.recv(t, wc.ID, int(wc.ID)*128, 128)
	}
}

// TestKilledInitiatorLeavesNoLineLocked kills a process at random instants of a storm: the
// survivor can use every line at once, no line is torn, and each is unlocked afterwards.
func TestKilledInitiatorLeavesNoLineLocked(t *testing.T) {
	for _, op := range []string{"cas", "faa", "write"} {
		t.Run(op, func(t *testing.T) {
			for range killRounds {
				killInStorm(t, op)
			}
		})
	}
}

// awaitStorm waits until a line of the MR has changed.
func (n *node) awaitStorm(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) {
		for i := range stormLines {
			if lineword.Load(&n.mr.Lines()[i]).Version() > 0 {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the storm does not begin")
		}
	}
}

// killRounds is how often each storm is cut short.
const killRounds = 6

func killInStorm(t *testing.T, op string) {
	dir := runDir(t)
	n := newNode(t, New(Options{Dir: dir}), nodeOptions{})
	c := startChild(t, dir, op)
	c.meet(n)
	c.await()
	n.awaitStorm(t)
	time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
	c.kill()
	// A loop-back QP of the survivor touches every line.
	s := newNode(t, n.prov, nodeOptions{})
	e, f := s.qp.Endpoint(), n.second(t)
	fe := f.Endpoint()
	check(t, s.qp.Connect(&fe, verbs.ConnectAttr{}))
	check(t, f.Connect(&e, verbs.ConnectAttr{}))
	total := uint64(0)
	for line := range uint64(stormLines) {
		wr := verbs.WR{Op: verbs.OpFAA, NumSGE: 1, SGE: [4]verbs.SGE{s.mr.SGE(0, 8)},
			RemoteAddr: n.mr.Addr() + line*lineBytes, RKey: n.mr.RKey()}
		if op == "write" {
			wr.Op, wr.SGE[0] = verbs.OpRead, s.mr.SGE(0, lineBytes)
		}
		if wc := s.do(t, wr); wc.Status != 0 {
			t.Fatalf("line %d: %v", line, wc.Err())
		}
		if b := s.mr.Bytes()[:lineBytes]; op == "write" {
			if !bytes.Equal(b, bytes.Repeat(b[:1], lineBytes)) {
				t.Fatalf("torn line %d: %v", line, b)
			}
		}
		total += binary.NativeEndian.Uint64(s.mr.Bytes())
	}
	for i := range n.mr.Lines() {
		if w := lineword.Load(&n.mr.Lines()[i]); w.Locked() {
			t.Errorf("line %d: %s", i, w)
		}
	}
	if total == 0 {
		t.Error("the storm did nothing")
	}
}
