package htm_test

import (
	"encoding/binary"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"drtmd/htm"
	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

const (
	mrBytes   = 64 << 10
	mrOwners  = 4
	lineBytes = htm.LineBytes
)

// env is two nodes: a host whose memory regions run on, and an initiator of remote operations.
type env struct {
	t      testing.TB
	host   *verbs.MR
	memory *htm.Memory
	qp     *verbs.QP
	cq     *verbs.CQ
	buffer *verbs.MR
	idle   func() bool // lets time pass; false: nothing more will happen
}

// eachProvider runs a test on the providers that keep line words.
func eachProvider(t *testing.T, test func(t *testing.T, e *env)) {
	t.Run("shm", func(t *testing.T) { test(t, newShm(t)) })
	t.Run("sim", func(t *testing.T) { test(t, newSim(t)) })
}

func newShm(t testing.TB) *env {
	t.Helper()
	e := &env{t: t, idle: func() bool { runtime.Gosched(); return true }}
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "run")})
	e.connect(e.open(p.Open("")), e.open(p.Open("")))
	return e
}

func newSim(t testing.TB) *env {
	t.Helper()
	raceskip.Simulated(t)
	e := &env{t: t}
	world, err := sim.New(sim.Config{Seed: 1, EventLimit: 1_000_000})
	e.must(err)
	e.idle = func() bool { return world.RunOne(sim.Forever) }
	var contexts [2]*verbs.Context
	for i := range contexts {
		n, err := world.AddNode(sim.NodeConfig{})
		e.must(err)
		contexts[i] = e.open(n.Open())
	}
	e.connect(contexts[0], contexts[1])
	return e
}

func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// open closes the context after the test.
func (e *env) open(c *verbs.Context, err error) *verbs.Context {
	e.t.Helper()
	e.must(err)
	e.t.Cleanup(func() { e.must(c.Close()) })
	return c
}

// claim describes an MR to one worker.
func claim(mr *verbs.MR) (*htm.Memory, error) {
	o, err := mr.ClaimLineOwner()
	if err != nil {
		return nil, err
	}
	m := htm.NewMemory(mr.Bytes(), mr.Lines(), o.Slot, o.Journal)
	m.Rescue = o.Rescue
	return m, nil
}

func (e *env) connect(host, initiator *verbs.Context) {
	e.t.Helper()
	hostPD, err := host.AllocPD()
	e.must(err)
	e.host, err = hostPD.AllocMR(mrBytes, verbs.AccessAll, verbs.MROptions{LineOwners: mrOwners})
	e.must(err)
	e.memory, err = claim(e.host)
	e.must(err)
	pd, err := initiator.AllocPD()
	e.must(err)
	e.buffer, err = pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	e.must(err)
	hostQP, _ := e.newQP(host, hostPD)
	e.qp, e.cq = e.newQP(initiator, pd)
	to, from := hostQP.Endpoint(), e.qp.Endpoint()
	e.must(hostQP.Connect(&from, verbs.ConnectAttr{}))
	e.must(e.qp.Connect(&to, verbs.ConnectAttr{}))
}

func (e *env) newQP(c *verbs.Context, pd *verbs.PD) (*verbs.QP, *verbs.CQ) {
	e.t.Helper()
	cq, err := c.CreateCQ(verbs.CQConfig{Depth: 64})
	e.must(err)
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SendDepth: 16,
		RecvDepth: 1, Access: verbs.AccessAll})
	e.must(err)
	return qp, cq
}

// post posts one request with n bytes at off of the host's memory.
func (e *env) post(wr verbs.WR, off, n int) {
	e.t.Helper()
	wr.NumSGE, wr.SGE[0] = 1, e.buffer.SGE(0, n)
	wr.RemoteAddr, wr.RKey = e.host.Addr()+uint64(off), e.host.RKey()
	wr.Flags = verbs.FlagSignaled
	_, err := e.qp.PostSend([]verbs.WR{wr})
	e.must(err)
}

// poll reports whether the request has completed.
func (e *env) poll() bool {
	e.t.Helper()
	var wc [1]verbs.WC
	n, err := e.cq.Poll(wc[:])
	e.must(err)
	if n == 1 && wc[0].Status != verbs.WCSuccess {
		e.t.Fatal(wc[0].Err())
	}
	return n == 1
}

func (e *env) wait() {
	e.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !e.poll(); {
		if !e.idle() || time.Now().After(deadline) {
			e.t.Fatal("an operation does not complete")
		}
	}
}

func (e *env) cas(off int, expect, swap uint64) uint64 {
	e.t.Helper()
	e.post(verbs.WR{Op: verbs.OpCAS, CompareAdd: expect, Swap: swap}, off, 8)
	e.wait()
	return binary.NativeEndian.Uint64(e.buffer.Bytes())
}

func (e *env) write(off int, v uint64) {
	e.t.Helper()
	binary.NativeEndian.PutUint64(e.buffer.Bytes(), v)
	e.post(verbs.WR{Op: verbs.OpWrite}, off, 8)
	e.wait()
}

func (e *env) read(off int) uint64 {
	e.t.Helper()
	e.post(verbs.WR{Op: verbs.OpRead}, off, 8)
	e.wait()
	return binary.NativeEndian.Uint64(e.buffer.Bytes())
}

// get reads a word of the host in a region.
func (e *env) get(off int) uint64 {
	e.t.Helper()
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	v, ok := r.Load64(e.memory, off)
	if !ok || !r.Commit(nil) {
		c, _ := r.Aborted()
		e.t.Fatalf("a lone region aborted by %s", c)
	}
	return v
}

// postRead posts a READ of a word into the buffer.
func (e *env) postRead(off int) {
	e.t.Helper()
	e.post(verbs.WR{Op: verbs.OpRead}, off, 8)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
