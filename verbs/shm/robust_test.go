//go:build linux && amd64 && !race

package shm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// ready waits until the parent has connected too.
func (r *role) ready() *qp {
	_, q := r.n.inside(r.tb)
	for range 1000 {
		if q.ready() == success {
			return q
		}
		time.Sleep(time.Millisecond)
	}
	r.tb.Fatal("the parent does not connect")
	return nil
}

// lockFirstLine locks line 0 of the parent's MR with the child's send half.
func (r *role) lockFirstLine() (*lane, *view, lineword.Word) {
	q := r.ready()
	l := &q.send.lane
	v, out := l.remoteView(q.peer, r.peer.MR.RKey)
	if out != success || !l.hold(v) {
		r.tb.Fatal("no view:", out)
	}
	w, ok := v.tryLock(v.r.word(0), 0)
	if !ok {
		r.tb.Fatal("the line is locked by another")
	}
	return l, v, w
}

func (r *role) tell(what string) { fmt.Printf("%q\n", what) }

// stop stops the process. Another of its threads may take the signal, and this one run on for
// some instructions: the sleep is where it stands still.
func (r *role) stop() {
	check(r.tb, syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	time.Sleep(20 * time.Millisecond)
}

// holdLine locks a line and sleeps; resumed, it stores and unlocks as WRITE does.
func (r *role) holdLine() {
	l, v, w := r.lockFirstLine()
	r.tell("locked")
	r.stop()
	if l.fit(v.r) {
		v.r.line(0)[0] = 77
		lineword.Unlock(v.r.word(0), w)
	} else {
		lineword.Restore(v.r.word(0), w)
	}
	r.tell("unlocked")
	select {}
}

// halfWrite dies in the middle of storing a line of 0x55, when eight bytes of it stand there.
func (r *role) halfWrite() {
	_, v, w := r.lockFirstLine()
	image := (*[lineBytes]byte)(bytes.Repeat([]byte{0x55}, lineBytes))
	v.e.stage(0, 0, lineBytes, w, image)
	copy(v.r.line(0)[:8], image[:])
	r.tell("half")
	select {}
}

// sleepBeforeLock stops right before a WRITE.
func (r *role) sleepBeforeLock() {
	r.ready()
	r.tell("stopping")
	r.stop()
	wr := verbs.WR{Op: verbs.OpWrite, NumSGE: 1, SGE: [4]verbs.SGE{r.n.mr.SGE(0, 64)},
		RemoteAddr: r.peer.MR.Addr, RKey: r.peer.MR.RKey}
	r.n.mr.Bytes()[0] = 99
	r.tell(r.n.do(r.tb, wr).Status.String())
	select {}
}

// claimSlot takes a slot of the parent's ring and stops before it publishes.
func (r *role) claimSlot() {
	_, q := r.n.inside(r.tb)
	h, err := r.n.pd.CreateAHTo(r.end)
	check(r.tb, err)
	wr := verbs.WR{AH: h.Handle(), RemoteQPN: r.end.QPN, RemoteQKey: 17}
	t, out := q.findTarget(&wr)
	for out.waits() { // the parent is slow to hand out its memory
		time.Sleep(time.Millisecond)
		t, out = q.findTarget(&wr)
	}
	if t == nil {
		r.tb.Fatal("no target:", out)
	}
	s, w := t.claim(&q.dev.stats)
	for ; s == nil; s, w = t.claim(&q.dev.stats) { // the parent has not posted its buffers yet
		time.Sleep(time.Millisecond)
	}
	r.tell("claimed")
	r.stop()
	put32(&s.length, 5)
	copy(s.data[:], "late!")
	s.word.Swap(w)
	t.peer.notify(t.entry.cq.Load(), t.entry.group.Load(), false)
	r.tell("published")
	select {}
}

// keep fills a kept MR and waits to be killed.
func (r *role) keep() {
	mr, err := r.n.pd.AllocMR(1<<16, verbs.AccessAll, verbs.MROptions{Keep: "survivor"})
	check(r.tb, err)
	for i := range mr.Bytes() {
		mr.Bytes()[i] = byte(i * 3)
	}
	r.tell("kept")
	select {}
}

func (c *child) expect(what string) {
	c.t.Helper()
	var s string
	c.hear(&s)
	if s != what {
		c.t.Fatalf("the child says %q, not %q", s, what)
	}
}

// awaitStopped waits until the child's process is stopped.
func (c *child) awaitStopped() {
	c.t.Helper()
	for range 1000 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
		check(c.t, err)
		if i := bytes.LastIndexByte(b, ')'); b[i+2] == 'T' {
			return
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatal("the child does not stop")
}

func (c *child) resume() {
	c.t.Helper()
	check(c.t, c.cmd.Process.Signal(syscall.SIGCONT))
}

// loop gives a node of the same process that is connected to a new QP of n.
func (n *node) loop(t testing.TB, a verbs.ConnectAttr) *node {
	t.Helper()
	s, f := newNode(t, n.prov, nodeOptions{}), n.second(t)
	e, fe := s.qp.Endpoint(), f.Endpoint()
	check(t, s.qp.Connect(&fe, a))
	check(t, f.Connect(&e, a))
	return s
}

func (n *node) read(t testing.TB, from *node, off, length int) verbs.WC {
	t.Helper()
	return n.do(t, verbs.WR{Op: verbs.OpRead, NumSGE: 1, SGE: [4]verbs.SGE{n.mr.SGE(0, length)},
		RemoteAddr: from.mr.Addr() + uint64(off), RKey: from.mr.RKey()})
}

func newProcessPair(t *testing.T, what string, o nodeOptions) (*node, *child) {
	t.Helper()
	dir := runDir(t)
	n := newNode(t, New(Options{Dir: dir}), o)
	c := startChild(t, dir, what)
	c.meet(n)
	return n, c
}

// TestStoppedHolderIsWaitedFor: the lines of a stopped process stay its own; who wants them gets
// RETRY_EXC_ERR after its own retry time, the rest of the memory is usable, and the line as well
// once the holder goes on.
func TestStoppedHolderIsWaitedFor(t *testing.T) {
	n, c := newProcessPair(t, "hold", nodeOptions{})
	c.expect("ready")
	c.expect("locked")
	c.awaitStopped()
	// 4.096 us * 2^14 * 2 = 134 ms
	attr := verbs.ConnectAttr{RTS: verbs.RTSAttr{Timeout: 14, RetryCount: 1}}
	stated := 134 * time.Millisecond
	s := n.loop(t, attr)
	if wc := s.read(t, n, 64, 64); wc.Status != 0 {
		t.Fatal("another line:", wc.Err())
	}
	start := time.Now()
	wc := s.read(t, n, 0, 64)
	if took := time.Since(start); wc.Status != verbs.WCRetryExcErr || took < stated ||
		took > stated+2*time.Second {
		t.Fatalf("%s after %s, stated are %s", wc.Status, took, stated)
	}
	if w := lineword.Load(&n.mr.Lines()[0]); !w.Locked() {
		t.Fatalf("line 0 was overruled: %s", w)
	}
	c.resume()
	c.expect("unlocked")
	s = n.loop(t, attr)
	if wc := s.read(t, n, 0, 64); wc.Status != 0 || s.mr.Bytes()[0] != 77 {
		t.Fatalf("after it went on: %s, byte %d", wc.Status, s.mr.Bytes()[0])
	}
}

// TestFencedWhileAsleepChangesNothing: the holder of a line finds its QP fenced when it wakes.
func TestFencedWhileAsleepChangesNothing(t *testing.T) {
	for _, what := range []string{"hold", "asleep"} {
		t.Run(what, func(t *testing.T) {
			n, c := newProcessPair(t, what, nodeOptions{})
			c.expect("ready")
			if what == "hold" {
				c.expect("locked")
			} else {
				c.expect("stopping")
			}
			c.awaitStopped()
			check(t, n.qp.ToError())
			c.resume()
			if what == "hold" {
				c.expect("unlocked")
			} else {
				c.expect(verbs.WCRetryExcErr.String())
			}
			if b := n.mr.Bytes()[0]; b != 0 {
				t.Fatalf("it stored %d", b)
			}
			if w := lineword.Load(&n.mr.Lines()[0]); w.Locked() || w.Version() != 0 {
				t.Fatalf("line 0: %s", w)
			}
		})
	}
}

// TestHalfWrittenLineIsFinished: a line of which its dead writer stored a part is rolled forward
// by the first who reads it.
func TestHalfWrittenLineIsFinished(t *testing.T) {
	n, c := newProcessPair(t, "half", nodeOptions{})
	c.expect("ready")
	c.expect("half")
	c.kill()
	s := n.loop(t, verbs.ConnectAttr{})
	if wc := s.read(t, n, 0, 64); wc.Status != 0 {
		t.Fatal(wc.Err())
	}
	if want := bytes.Repeat([]byte{0x55}, 64); !bytes.Equal(s.mr.Bytes()[:64], want) {
		t.Fatalf("read %v", s.mr.Bytes()[:64])
	}
	if w := lineword.Load(&n.mr.Lines()[0]); w.Locked() || w.Version() != 1 {
		t.Fatalf("line 0: %s", w)
	}
}

// TestStoppedSenderDelaysOnlyItself: a sender that stops between claim and publish of a datagram
// slot holds up nobody else, over several laps of the ring, and its datagram comes once it goes
// on; if it is killed instead, its slot is used again.
func TestStoppedSenderDelaysOnlyItself(t *testing.T) {
	for _, end := range []string{"resumed", "killed"} {
		t.Run(end, func(t *testing.T) {
			o := nodeOptions{kind: verbs.UD, qkey: 17, depth: 8}
			n, c := newProcessPair(t, "ud-claim", o)
			for i := range 8 {
				n.recv(t, uint64(i), i*128, 128)
			}
			c.expect("ready")
			c.expect("claimed")
			c.awaitStopped()
			s := newNode(t, n.prov, o)
			check(t, s.qp.Connect(nil, verbs.ConnectAttr{}))
			h, err := s.pd.CreateAHTo(n.qp.Endpoint())
			check(t, err)
			datagram := func(i int) {
				s.mr.Bytes()[0] = byte(i)
				wc := s.do(t, verbs.WR{Op: verbs.OpSend, NumSGE: 1, AH: h.Handle(),
					SGE: [4]verbs.SGE{s.mr.SGE(0, 1)}, RemoteQPN: n.qp.QPN(), RemoteQKey: 17})
				if wc.Status != 0 {
					t.Fatal(wc.Err())
				}
				wc = n.poll(t)
				at := int(wc.ID) * 128
				if wc.Status != 0 || n.mr.Bytes()[at+verbs.GRHBytes] != byte(i) {
					t.Fatalf("datagram %d: %+v", i, wc)
				}
				n.recv(t, wc.ID, at, 128)
			}
			for i := range 50 {
				datagram(i)
			}
			if end == "killed" {
				c.kill()
				for i := range 50 {
					datagram(i)
				}
				_, q := n.inside(t)
				if k := len(q.recv.dgrams.stalled); k != 0 {
					t.Errorf("%d slots are still set aside", k)
				}
				return
			}
			c.resume()
			c.expect("published")
			wc := n.poll(t)
			if b := n.mr.Bytes()[wc.ID*128+verbs.GRHBytes:][:5]; string(b) != "late!" {
				t.Fatalf("%+v %q", wc, b)
			}
			n.recv(t, wc.ID, int(wc.ID)*128, 128)
			for i := range 50 {
				datagram(i)
			}
		})
	}
}

// TestKilledSenderLeavesTheReceiverWorking kills a process in the middle of a storm of messages;
// the receiver then takes messages from another.
func TestKilledSenderLeavesTheReceiverWorking(t *testing.T) {
	for _, what := range []string{"send", "ud-send"} {
		t.Run(what, func(t *testing.T) {
			for range killRounds {
				killSender(t, what)
			}
		})
	}
}

func killSender(t *testing.T, what string) {
	o := nodeOptions{qkey: 17, kind: verbs.RC}
	if what == "ud-send" {
		o.kind = verbs.UD
	}
	n, c := newProcessPair(t, what, o)
	for i := range 32 {
		n.recv(t, uint64(i), i*128, 128)
	}
	stop := time.Duration(rand.IntN(10_000)) * time.Microsecond
	var killed time.Time
	count := 0
	for killed.IsZero() || time.Since(killed) < 5*time.Millisecond {
		var wcs [8]verbs.WC
		k, err := n.cq.Poll(wcs[:])
		check(t, err)
		for _, wc := range wcs[:k] {
			if wc.Status != 0 {
				t.Fatal(wc.Err())
			}
			count++
			n.recv(t, wc.ID, int(wc.ID)*128, 128)
		}
		if count > 0 && killed.IsZero() {
			if stop -= 100 * time.Microsecond; stop < 0 {
				c.kill()
				killed = time.Now()
			}
			time.Sleep(50 * time.Microsecond)
		}
	}
	if o.kind == verbs.RC {
		wc := n.do(t, verbs.WR{Op: verbs.OpSend}) // to the dead
		if wc.Status != verbs.WCRetryExcErr && wc.Status != verbs.WCSuccess {
			t.Fatal(wc.Err())
		}
		return
	}
	s := newNode(t, n.prov, o)
	check(t, s.qp.Connect(nil, verbs.ConnectAttr{}))
	h, err := s.pd.CreateAHTo(n.qp.Endpoint())
	check(t, err)
	for range 200 {
		s.do(t, verbs.WR{Op: verbs.OpSend, AH: h.Handle(), RemoteQPN: n.qp.QPN(), RemoteQKey: 17})
		wc := n.poll(t)
		n.recv(t, wc.ID, int(wc.ID)*128, 128)
	}
}

// TestKeptMRSurvivesKill: the content of a kept MR is there after its owner was killed.
func TestKeptMRSurvivesKill(t *testing.T) {
	n, c := newProcessPair(t, "keep", nodeOptions{})
	c.expect("ready")
	c.expect("kept")
	c.kill()
	mr, err := n.pd.AllocMR(1<<16, verbs.AccessAll, verbs.MROptions{Keep: "survivor"})
	check(t, err)
	for i, b := range mr.Bytes() {
		if b != byte(i*3) {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
	if _, err := n.pd.AllocMR(1<<17, verbs.AccessAll,
		verbs.MROptions{Keep: "survivor"}); err == nil {
		t.Error("reopened with another size")
	}
	check(t, mr.Close())
	check(t, n.prov.RemoveKept("survivor"))
}

// scribble writes garbage over everything of the parent that the child can reach, for ever.
func (r *role) scribble() {
	q := r.ready()
	v, out := q.send.lane.remoteView(q.peer, r.peer.MR.RKey)
	if out != success {
		r.tb.Fatal("no view:", out)
	}
	targets := [][]byte{q.peer.seg.Bytes(), q.dev.ctlSeg.Bytes(), v.r.seg.Bytes()}
	for _, s := range q.peer.areas {
		targets = append(targets, s.Bytes())
	}
	r.tell("scribbling")
	for {
		b := targets[rand.IntN(len(targets))]
		i := rand.IntN(len(b)/8) * 8
		x := rand.Uint64()
		if rand.IntN(2) == 0 {
			x &= 0xff // small numbers look more like the truth
		}
		*(*uint64)(unsafe.Pointer(&b[i])) = x
	}
}

// TestScribblingPeerCannotCrashOrHang: while a peer overwrites all it has access to, operations
// end in some way and in time, and a new pair of QPs works afterwards.
func TestScribblingPeerCannotCrashOrHang(t *testing.T) {
	n, c := newProcessPair(t, "scribble", nodeOptions{})
	c.expect("ready")
	c.expect("scribbling")
	attr := verbs.ConnectAttr{RTS: verbs.RTSAttr{Timeout: 8, RetryCount: 1}} // 2 ms
	end := time.Now().Add(700 * time.Millisecond)
	for time.Now().Before(end) {
		s := newNode(t, n.prov, nodeOptions{})
		f := n.second(t)
		e, fe := s.qp.Endpoint(), f.Endpoint()
		if s.qp.Connect(&fe, attr) != nil || f.Connect(&e, attr) != nil {
			continue
		}
		_, _ = f.PostRecv([]verbs.RecvWR{{NumSGE: 1, SGE: [4]verbs.SGE{n.mr.SGE(0, 64)}}})
		for i := range 300 {
			op := []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpFAA, verbs.OpSend}[i%4]
			wr := verbs.WR{Op: op, NumSGE: 1, SGE: [4]verbs.SGE{s.mr.SGE(0, 8)},
				RemoteAddr: n.mr.Addr() + uint64(i%64*64), RKey: n.mr.RKey()}
			if wc := s.do(t, wr); wc.Status != 0 {
				break
			}
			var wcs [4]verbs.WC
			_, err := n.cq.Poll(wcs[:])
			check(t, err)
		}
		check(t, s.qp.Close())
		check(t, f.Close())
		if n.qp.State() == verbs.StateErr {
			break
		}
	}
	c.kill()
	p := New(Options{Dir: runDir(t)})
	a := newNode(t, p, nodeOptions{})
	b := a.loop(t, verbs.ConnectAttr{})
	if wc := b.read(t, a, 0, 4096); wc.Status != 0 {
		t.Fatal(wc.Err())
	}
}

// TestIdleProcessesUseNoCPU: ten processes that wait sleep.
func TestIdleProcessesUseNoCPU(t *testing.T) {
	dir := runDir(t)
	p := New(Options{Dir: dir})
	var pids []int
	for range 10 {
		n := newNode(t, p, nodeOptions{})
		c := startChild(t, dir, "idle")
		c.meet(n)
		c.expect("ready")
		pids = append(pids, c.cmd.Process.Pid)
	}
	used := func() (ticks uint64) {
		for _, pid := range pids {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			check(t, err)
			f := bytes.Fields(b[bytes.LastIndexByte(b, ')'):])
			var u, s uint64
			_, err = fmt.Sscan(string(f[12])+" "+string(f[13]), &u, &s)
			check(t, err)
			ticks += u + s
		}
		return ticks
	}
	time.Sleep(300 * time.Millisecond)
	before := used()
	time.Sleep(time.Second)
	// A tick is 10 ms of one process; ten busy ones would use a hundred or more on two cores.
	if ticks := used() - before; ticks > 10 {
		t.Errorf("ten idle processes used %d ticks of 10 ms in a second", ticks)
	}
}

// TestNothingIsAllocated guards the data path.
func TestNothingIsAllocated(t *testing.T) {
	a, b := newPair(t, nodeOptions{})
	wrs := []verbs.WR{{Flags: verbs.FlagSignaled, NumSGE: 1, RKey: b.mr.RKey(),
		SGE: [4]verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr()}}
	var wcs [4]verbs.WC
	recvs := []verbs.RecvWR{{NumSGE: 1, SGE: [4]verbs.SGE{b.mr.SGE(4096, 64)}}}
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpCAS, verbs.OpFAA,
		verbs.OpSend, verbs.OpWriteImm} {
		wrs[0].Op = op
		n := testing.AllocsPerRun(200, func() {
			if op == verbs.OpSend || op == verbs.OpWriteImm {
				_, _ = b.qp.PostRecv(recvs)
			}
			_, _ = a.qp.PostSend(wrs)
			if k, _ := a.cq.Poll(wcs[:]); k != 1 || wcs[0].Status != 0 {
				t.Fatalf("%s: %+v", op, wcs[0])
			}
			_, _ = b.cq.Poll(wcs[:])
		})
		if n != 0 {
			t.Errorf("%s allocates %v times", op, n)
		}
	}
}

// TestLinesAreNeverTorn reads and writes whole lines from two threads, on contexts of their own:
// every line read has one value, whatever its offset in a longer READ.
func TestLinesAreNeverTorn(t *testing.T) {
	w, m := newPair(t, nodeOptions{})
	r := m.loop(t, verbs.ConnectAttr{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20_000 {
			for j := range w.mr.Bytes()[:4*lineBytes] {
				w.mr.Bytes()[j] = byte(i)
			}
			_, _ = w.qp.PostSend([]verbs.WR{{Op: verbs.OpWrite, Flags: verbs.FlagSignaled,
				NumSGE: 1, SGE: [4]verbs.SGE{w.mr.SGE(0, 4*lineBytes)}, RKey: m.mr.RKey(),
				RemoteAddr: m.mr.Addr()}})
			var wcs [1]verbs.WC
			for k := 0; k == 0; {
				k, _ = w.cq.Poll(wcs[:])
			}
			if wcs[0].Status != 0 {
				t.Error(wcs[0].Err())
				return
			}
		}
	}()
	for reads := 0; ; reads++ {
		select {
		case <-done:
			if reads < 100 {
				t.Errorf("only %d reads", reads)
			}
			return
		default:
		}
		if wc := r.read(t, m, 0, 4*lineBytes); wc.Status != 0 {
			t.Fatal(wc.Err())
		}
		for i := range 4 {
			b := r.mr.Bytes()[i*lineBytes:][:lineBytes]
			if !bytes.Equal(b, bytes.Repeat(b[:1], lineBytes)) {
				t.Fatalf("torn line %d: %v", i, b)
			}
		}
	}
}
