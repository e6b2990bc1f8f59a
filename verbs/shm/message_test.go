//go:build linux && amd64 && !race

package shm

import (
	"bytes"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// halfMessage dies in the middle of a message of 0x55, when eight bytes of it stand in the first buffer.
func (r *role) halfMessage() {
	q := r.ready()
	for !q.hasReceive() {
		time.Sleep(time.Millisecond)
	}
	to, out := q.buffer(&q.slot(0).sge[0], lineBytes)
	for ; out == waitFetch; to, out = q.buffer(&q.slot(0).sge[0], lineBytes) { // the buffer's memory is being imported
		time.Sleep(time.Millisecond)
	}
	l := &q.send.lane
	if out != success || !l.hold(to.v) {
		r.tb.Fatal("no view:", out)
	}
	line := to.off / lineBytes
	w, ok := to.v.tryLock(to.v.r.word(line), line)
	if !ok {
		r.tb.Fatal("the line is locked by another")
	}
	image := (*[lineBytes]byte)(bytes.Repeat([]byte{0x55}, lineBytes))
	to.v.e.stage(line, 0, lineBytes, w, image)
	copy(to.v.r.line(line)[:8], image[:])
	r.tell("half")
	select {}
}

// awaitDeath waits until the device has noticed that a peer's process is dead.
func awaitDeath(t *testing.T, p *peer) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !p.dead.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody notices the peer's death")
		}
	}
}

// TestHalfMessageLeavesItsBufferToTheReceiver: a sender that died in the middle of a message leaves no line of a private
// buffer locked, and nobody stores the rest of the message later: the buffer is the receiver's again.
func TestHalfMessageLeavesItsBufferToTheReceiver(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*testing.T, *node, *device, *qp, *region)
	}{
		{"flushed", func(t *testing.T, n *node, _ *device, q *qp, _ *region) {
			awaitDeath(t, q.peer)
			check(t, n.qp.ToError())
			if wc := n.poll(t); wc.Status != verbs.WCWRFlushErr {
				t.Fatalf("the receive ended with %v", wc.Status)
			}
		}},
		{"closed", func(t *testing.T, n *node, _ *device, q *qp, _ *region) {
			awaitDeath(t, q.peer)
			check(t, n.qp.Close())
		}},
		{"met by another sender", func(_ *testing.T, _ *node, d *device, _ *qp, r *region) {
			d.rescue(r, 2, lineword.Load(r.word(2)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, child := newProcessPair(t, "message", nodeOptions{})
			child.expect("ready")
			mr, err := n.pd.AllocMR(4096, verbs.AccessLocalWrite, verbs.MROptions{})
			check(t, err)
			_, err = n.qp.PostRecv([]verbs.RecvWR{{NumSGE: 1, SGE: [4]verbs.SGE{mr.SGE(2*lineBytes, lineBytes)}}})
			check(t, err)
			child.expect("half")
			child.kill()
			d, q := n.inside(t)
			r := d.mrs[mr.LKey()%maxMR].Load()
			own := bytes.Repeat([]byte{7}, lineBytes)
			copy(r.line(2)[:], own)
			if !lineword.Load(r.word(2)).Locked() {
				t.Fatal("the sender has not died in the middle of its message")
			}
			c.end(t, n, d, q, r)
			if w := lineword.Load(r.word(2)); w.Locked() {
				t.Errorf("the line is locked: %s", w)
			}
			if b := r.line(2)[:]; !bytes.Equal(b, own) {
				t.Errorf("the buffer is %v", b)
			}
			check(t, mr.Close())
		})
	}
}
