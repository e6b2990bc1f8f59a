//go:build linux && amd64

package shm

import (
	"bytes"
	"os"
	"testing"
	"time"

	"drtmd/verbs"
)

// Peers that came and went leave nothing in a process that stays: no memory of theirs stays
// mapped once the QPs and address handles to them are closed.
func TestDeadPeersAreForgotten(t *testing.T) {
	if raceEnabled {
		t.Skip("peers of other providers are not reached in race builds")
	}
	dir := runDir(t)
	stays := newNode(t, New(Options{Dir: dir}), nodeOptions{})
	peersAreForgotten(t, stays, func() *Provider { return New(Options{Dir: dir}) })
}

// The same holds for contexts of the same provider.
func TestClosedContextsAreForgotten(t *testing.T) {
	p := New(Options{Dir: runDir(t)})
	peersAreForgotten(t, newNode(t, p, nodeOptions{}), func() *Provider { return p })
}

func peersAreForgotten(t *testing.T, stays *node, provider func() *Provider) {
	t.Helper()
	datagrams := newNode(t, stays.prov, nodeOptions{kind: verbs.UD})
	check(t, datagrams.qp.Connect(nil, verbs.ConnectAttr{}))
	var before int
	const rounds = 12
	for round := range rounds {
		meetAndPart(t, provider(), stays, datagrams)
		waitUntilForgotten(t, stays)
		if round == 0 { // a target that was remembered is replaced by the next
			before = mappings(t)
		}
	}
	if after := mappings(t); after > before+rounds/2 {
		t.Errorf("%d mappings after one peer, %d after %d", before, after, rounds)
	}
}

// meetAndPart makes a peer of p that goes after an exchange, and closes what led to it.
func meetAndPart(t *testing.T, p *Provider, rc, ud *node) {
	t.Helper()
	ctx, err := p.Open("")
	check(t, err)
	pd, err := ctx.AllocPD()
	check(t, err)
	mr, err := pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	check(t, err)
	cq, err := ctx.CreateCQ(verbs.CQConfig{Depth: 64})
	check(t, err)
	far := [2]*verbs.QP{}
	for i, kind := range []verbs.QPType{verbs.RC, verbs.UD} {
		far[i], err = pd.CreateQP(verbs.QPConfig{Type: kind, SendCQ: cq, RecvCQ: cq, SendDepth: 16,
			RecvDepth: 16, Access: verbs.AccessAll})
		check(t, err)
	}
	qp := rc.second(t)
	near, there := qp.Endpoint(), far[0].Endpoint()
	check(t, qp.Connect(&there, verbs.ConnectAttr{}))
	check(t, far[0].Connect(&near, verbs.ConnectAttr{}))
	check(t, far[1].Connect(nil, verbs.ConnectAttr{}))
	_, err = qp.PostSend([]verbs.WR{{Op: verbs.OpWrite, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: [4]verbs.SGE{rc.mr.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}})
	check(t, err)
	if wc := rc.poll(t); wc.Status != verbs.WCSuccess {
		t.Fatal(wc)
	}
	ah, err := ud.pd.CreateAHTo(far[1].Endpoint())
	check(t, err)
	wc := ud.do(t, verbs.WR{Op: verbs.OpSend, AH: ah.Handle(), RemoteQPN: far[1].QPN()})
	if wc.Status != verbs.WCSuccess {
		t.Fatal(wc)
	}
	check(t, ctx.Close())
	// After its death, what is posted ends and does not crash.
	wc = ud.do(t, verbs.WR{Op: verbs.OpSend, AH: ah.Handle(), RemoteQPN: far[1].QPN()})
	if wc.Status != verbs.WCSuccess {
		t.Error(wc)
	}
	_, err = qp.PostSend([]verbs.WR{{Op: verbs.OpWrite, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: [4]verbs.SGE{rc.mr.SGE(0, 8)}, RemoteAddr: mr.Addr(), RKey: mr.RKey()}})
	check(t, err)
	if wc := rc.poll(t); wc.Status != verbs.WCRetryExcErr {
		t.Error(wc)
	}
	check(t, ah.Close())
	check(t, qp.Close())
}

// waitUntilForgotten waits for the device of an RC node to know no peer.
func waitUntilForgotten(t *testing.T, n *node) {
	t.Helper()
	d, _ := n.inside(t)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		known := len(d.peers)
		d.mu.Unlock()
		if known == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d dead peers are still known after 5 s", known)
		}
	}
}

func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	check(t, err)
	return bytes.Count(b, []byte("memfd:"))
}

// TestAPeerMayGoWhileAnotherIsConnected: whoever closes a context looks at the QPs of those that it was
// connected to, which make others at that time. For the race detector.
func TestAPeerMayGoWhileAnotherIsConnected(t *testing.T) {
	goes, stays := newPair(t, nodeOptions{})
	other := newNode(t, stays.prov, nodeOptions{})
	qp, far := stays.second(t), other.qp.Endpoint()
	connected := make(chan error, 1)
	go func() { connected <- qp.Connect(&far, verbs.ConnectAttr{}) }()
	time.Sleep(20 * time.Millisecond) // nothing but time between both, which orders no access to memory
	check(t, goes.ctx.Close())
	check(t, <-connected)
	near := qp.Endpoint()
	check(t, other.qp.Connect(&near, verbs.ConnectAttr{}))
}
