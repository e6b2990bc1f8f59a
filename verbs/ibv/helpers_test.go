//go:build cgo && linux

package ibv

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"drtmd/verbs"
)

// patience bounds every wait of these tests; the guest is emulated and slow.
const patience = 20 * time.Second

// requireDevice opens the first device with an active port. Without one the test is skipped,
// with what was found; under DRTMD_REQUIRE=ibv it fails instead.
func requireDevice(t testing.TB) *verbs.Context {
	t.Helper()
	c, err := New().Open("")
	if err != nil {
		missing(t, err.Error())
	}
	t.Cleanup(func() { check(t, c.Close()) })
	p, err := c.Port(1)
	check(t, err)
	if p.State != verbs.PortActive {
		missing(t, fmt.Sprintf("port 1 of %s is %s", c.Attr().Name, p.State))
	}
	return c
}

func missing(t testing.TB, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("DRTMD_REQUIRE"), ","), "ibv") {
		t.Fatalf("DRTMD_REQUIRE=ibv: %s", why)
	}
	t.Skipf("no usable RDMA device: %s", why)
}

// requireGuest skips where the network must not be touched: anywhere but in the guest.
func requireGuest(t testing.TB) {
	t.Helper()
	if os.Getenv("DRTMD_GUEST") == "" {
		t.Skip("changes the network: runs in the guest only (DRTMD_GUEST is not set)")
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// side is one end of a connection in this process.
type side struct {
	t  testing.TB
	pd *verbs.PD
	mr *verbs.MR
	cq *verbs.CQ // of sends and receives
	qp *verbs.QP
}

type sideConfig struct {
	Type      verbs.QPType
	Depth     int // of each queue
	CQDepth   int // 0: room for everything
	Inline    int
	MRBytes   int
	Access    verbs.Access
	QPAccess  verbs.Access
	SGE       int
	Single    bool
	Channel   *verbs.Channel
	Connect   verbs.ConnectAttr
	Unchecked bool
}

func defaultConfig(q verbs.QPType) sideConfig {
	return sideConfig{Type: q, Depth: 64, MRBytes: 64 << 10, Access: verbs.AccessAll,
		QPAccess: verbs.AccessAll, SGE: 2}
}

const testQKey = 0x1234

func newSide(t testing.TB, c *verbs.Context, o sideConfig) *side {
	t.Helper()
	s := &side{t: t}
	var err error
	s.pd, err = c.AllocPD()
	check(t, err)
	s.mr, err = s.pd.AllocMR(o.MRBytes, o.Access, verbs.MROptions{})
	check(t, err)
	if o.CQDepth == 0 {
		o.CQDepth = 2 * o.Depth
	}
	s.cq, err = c.CreateCQ(verbs.CQConfig{Depth: o.CQDepth, Channel: o.Channel,
		SingleThreaded: o.Single})
	check(t, err)
	s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: o.Type, SendCQ: s.cq, RecvCQ: s.cq,
		SendDepth: o.Depth, RecvDepth: o.Depth, SendSGE: o.SGE, RecvSGE: o.SGE,
		MaxInline: o.Inline, QKey: testQKey, Access: o.QPAccess})
	check(t, err)
	t.Cleanup(func() {
		check(t, s.qp.Close())
		check(t, s.cq.Close())
		check(t, s.mr.Close())
		check(t, s.pd.Close())
	})
	return s
}

// newPair connects two sides of one context.
func newPair(t testing.TB, c *verbs.Context, o sideConfig) (a, b *side) {
	t.Helper()
	a, b = newSide(t, c, o), newSide(t, c, o)
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	pa, pb := &eb, &ea
	if o.Type == verbs.UD {
		pa, pb = nil, nil
	}
	check(t, a.qp.Connect(pa, o.Connect))
	check(t, b.qp.Connect(pb, o.Connect))
	return a, b
}

func (s *side) post(wrs ...verbs.WR) {
	s.t.Helper()
	_, err := s.qp.PostSend(wrs)
	check(s.t, err)
}

func (s *side) postRecv(wrs ...verbs.RecvWR) {
	s.t.Helper()
	_, err := s.qp.PostRecv(wrs)
	check(s.t, err)
}

// recv is a receive of length bytes at offset.
func (s *side) recv(id uint64, offset, length int) verbs.RecvWR {
	return verbs.RecvWR{ID: id, NumSGE: 1, SGE: [verbs.MaxSGE]verbs.SGE{s.mr.SGE(offset, length)}}
}

// wr is a signaled request with one local piece.
func (s *side) wr(op verbs.Opcode, id uint64, offset, length int) verbs.WR {
	return verbs.WR{ID: id, Op: op, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: [verbs.MaxSGE]verbs.SGE{s.mr.SGE(offset, length)}}
}

// at aims a request at an offset of the peer's region.
func at(wr verbs.WR, peer *side, offset int) verbs.WR {
	wr.RemoteAddr, wr.RKey = peer.mr.Addr()+uint64(offset), peer.mr.RKey()
	return wr
}

// wait polls for exactly n completions.
func (s *side) wait(n int) []verbs.WC {
	s.t.Helper()
	wcs, err := pollN(s.cq, n, patience)
	if err != nil {
		s.t.Fatal(err)
	}
	return wcs
}

func pollN(cq *verbs.CQ, n int, limit time.Duration) ([]verbs.WC, error) {
	var all []verbs.WC
	buf := make([]verbs.WC, 16)
	for end := time.Now().Add(limit); len(all) < n; {
		got, err := cq.Poll(buf[:min(len(buf), n-len(all))])
		if err != nil {
			return all, err
		}
		all = append(all, buf[:got]...)
		if got == 0 {
			if time.Now().After(end) {
				return all, fmt.Errorf("%d of %d completions after %s: %+v", len(all), n, limit, all)
			}
			time.Sleep(20 * time.Microsecond)
		}
	}
	return all, nil
}

// ok waits for n completions and wants them all to be successes.
func (s *side) ok(n int) []verbs.WC {
	s.t.Helper()
	wcs := s.wait(n)
	for i := range wcs {
		if err := wcs[i].Err(); err != nil {
			s.t.Fatalf("completion %d of %d: %v", i+1, n, err)
		}
	}
	return wcs
}

// quiet wants nothing more to complete within a short while.
func (s *side) quiet(d time.Duration) {
	s.t.Helper()
	if wcs, err := pollN(s.cq, 1, d); err == nil {
		s.t.Fatalf("unexpected completion %+v", wcs)
	}
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
