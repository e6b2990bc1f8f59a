//go:build linux && amd64

package shm

import (
	"testing"

	"drtmd/verbs"
)

// More MRs of one peer than a lane has views are imported once each, however they take turns.
func TestManyMRsOfAPeerAreImportedOnce(t *testing.T) {
	if raceEnabled {
		t.Skip("peers of other providers are not reached in race builds")
	}
	dir := runDir(t)
	a, b := newNode(t, New(Options{Dir: dir}), nodeOptions{}), newNode(t, New(Options{Dir: dir}),
		nodeOptions{})
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	check(t, a.qp.Connect(&eb, verbs.ConnectAttr{}))
	check(t, b.qp.Connect(&ea, verbs.ConnectAttr{}))
	var mrs []*verbs.MR
	for range 2*remoteViews + 1 {
		mr, err := b.pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
		check(t, err)
		mrs = append(mrs, mr)
	}
	round := func() {
		for i, mr := range mrs {
			wc := a.do(t, verbs.WR{Op: verbs.OpFAA, CompareAdd: uint64(i), NumSGE: 1,
				SGE:        [4]verbs.SGE{a.mr.SGE(0, 8)},
				RemoteAddr: mr.Addr(), RKey: mr.RKey()})
			if wc.Status != verbs.WCSuccess {
				t.Fatal(wc)
			}
		}
	}
	round()
	_, q := a.inside(t)
	p := q.peer
	imported := map[uint32]*region{}
	p.mu.Lock()
	for key, r := range p.regions {
		imported[key] = r
	}
	p.mu.Unlock()
	for range 20 {
		round()
	}
	for _, mr := range mrs {
		if r := imported[mr.RKey()]; r == nil || p.regions[mr.RKey()] != r {
			t.Fatal("an MR was imported again")
		}
	}
	for i, mr := range mrs {
		if got := *word(mr.Bytes(), 0); got != uint64(21*i) {
			t.Errorf("MR %d holds %d, not %d", i, got, 21*i)
		}
		check(t, mr.Close())
	}
	// What is deregistered goes with the next import, and everything with the last QP.
	mr, err := b.pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	check(t, err)
	mrs = []*verbs.MR{mr}
	round()
	p.mu.Lock()
	left := len(p.regions)
	p.mu.Unlock()
	if left > remoteViews+1 {
		t.Errorf("%d MRs are still imported", left)
	}
	check(t, a.qp.Close())
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.regions) > 0 {
		t.Errorf("%d MRs are still imported after the last QP was closed", len(p.regions))
	}
}
