//go:build linux && amd64

package shm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"drtmd/verbs"
)

// node is a context with one QP and one MR, for tests of the data path.
type node struct {
	prov *Provider
	ctx  *verbs.Context
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	mr   *verbs.MR

	posted int // receives that stand posted, for benchmarks
}

// options of newNode; the zero value is an RC node with a small MR.
type nodeOptions struct {
	kind   verbs.QPType
	bytes  int
	depth  int
	single bool
	qkey   uint32
	lined  int // line owners of the MR
}

func newNode(t testing.TB, p *Provider, o nodeOptions) *node {
	t.Helper()
	if o.kind == 0 {
		o.kind = verbs.RC
	}
	if o.bytes == 0 {
		o.bytes = 1 << 16
	}
	if o.depth == 0 {
		o.depth = 64
	}
	n := &node{prov: p}
	var err error
	n.ctx, err = p.Open("")
	check(t, err)
	t.Cleanup(func() { check(t, n.ctx.Close()) })
	n.pd, err = n.ctx.AllocPD()
	check(t, err)
	n.mr, err = n.pd.AllocMR(o.bytes, verbs.AccessAll, verbs.MROptions{LineOwners: o.lined})
	check(t, err)
	n.cq, err = n.ctx.CreateCQ(verbs.CQConfig{Depth: 2 * o.depth, SingleThreaded: o.single})
	check(t, err)
	n.qp, err = n.pd.CreateQP(verbs.QPConfig{Type: o.kind, SendCQ: n.cq, RecvCQ: n.cq,
		SendDepth: o.depth, RecvDepth: o.depth, QKey: o.qkey,
		Access: verbs.AccessAll, MaxInline: 128})
	check(t, err)
	return n
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPair connects two RC nodes.
func newPair(t testing.TB, o nodeOptions) (a, b *node) {
	t.Helper()
	p := New(Options{Dir: runDir(t)})
	a, b = newNode(t, p, o), newNode(t, p, o)
	if o.kind == verbs.UD {
		check(t, a.qp.Connect(nil, verbs.ConnectAttr{}))
		check(t, b.qp.Connect(nil, verbs.ConnectAttr{}))
		return a, b
	}
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	check(t, a.qp.Connect(&eb, verbs.ConnectAttr{}))
	check(t, b.qp.Connect(&ea, verbs.ConnectAttr{}))
	return a, b
}

// do posts a request signaled and waits for its completion.
func (n *node) do(t testing.TB, wr verbs.WR) verbs.WC {
	t.Helper()
	wr.Flags |= verbs.FlagSignaled
	if _, err := n.qp.PostSend([]verbs.WR{wr}); err != nil {
		t.Fatal(err)
	}
	return n.poll(t)
}

func (n *node) poll(t testing.TB) verbs.WC {
	t.Helper()
	var wcs [1]verbs.WC
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		k, err := n.cq.Poll(wcs[:])
		check(t, err)
		if k == 1 {
			return wcs[0]
		}
	}
	t.Fatal("no completion within 10 s")
	return verbs.WC{}
}

func (n *node) recv(t testing.TB, id uint64, off, length int) {
	t.Helper()
	r := verbs.RecvWR{ID: id, NumSGE: 1, SGE: [4]verbs.SGE{n.mr.SGE(off, length)}}
	_, err := n.qp.PostRecv([]verbs.RecvWR{r})
	check(t, err)
}

// runDir is a run directory that does not exist yet; it must be gone after the test.
func runDir(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "run")
	t.Cleanup(func() {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the run directory was left behind (%v)", err)
		}
	})
	return dir
}

// second makes another RC QP on the node's CQ.
func (n *node) second(t testing.TB) *verbs.QP {
	t.Helper()
	qp, err := n.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: n.cq, RecvCQ: n.cq,
		SendDepth: 16, RecvDepth: 16, Access: verbs.AccessAll})
	check(t, err)
	return qp
}

// word is the 8-byte word at an offset.
func word(b []byte, off uint64) *uint64 { return (*uint64)(unsafe.Pointer(&b[off])) }

// inside gives the provider's own view of the node.
func (n *node) inside(t testing.TB) (*device, *qp) {
	t.Helper()
	id, err := procOf(n.qp.Endpoint().GID)
	check(t, err)
	d := n.prov.inProcess(id)
	return d, d.qps[n.qp.QPN()&(maxQP-1)]
}
