package load

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/verbs/shm"
)

// replicated is what engines of replicated records offer.
type replicated interface {
	proto.Engine
	proto.Debtor
	proto.Truncator
	proto.Recoverer
	proto.OrphanLister
}

// lag is how much more engines owe each peer, and how many more records backups have not applied.
type lag struct{ debts, records atomic.Int64 }

// indebted is an engine with more to do.
type indebted struct {
	replicated
	more *lag
}

func (e indebted) DebtsAt(n proto.NodeID) int {
	return e.replicated.DebtsAt(n) + int(e.more.debts.Load())
}

func (e indebted) Untruncated() int { return e.replicated.Untruncated() + int(e.more.records.Load()) }

// indebtedPeers are peers whose records have two replicas, on one machine, with engines that have more to do.
func indebtedPeers(t *testing.T, n int, more *lag) (*Plan, []*localPeer) {
	t.Helper()
	dir := t.TempDir() // before the peers: it is removed after they are closed
	plan, list := testPlan(3), testPeers(t, n, time.Minute)
	plan.Protocol, plan.Replicas = "fasst", 2
	provider := shm.New(shm.Options{})
	for _, p := range list {
		p.part.cfg.Machine = "here"
		p.part.cfg.Open = func(ctx context.Context, r *Request, part *node.Part) (*node.Cluster, *Options, error) {
			cfg, err := r.Plan.Make(composition.BuiltIn())
			if err != nil {
				return nil, nil, err
			}
			cfg.Record = &node.Recording{SpillDir: dir, MemoryBytes: 1 << 20, Keep: true}
			made := cfg.Protocol.New
			cfg.Protocol.New = func(e *protocol.Env) (proto.Engine, error) {
				x, err := made(e)
				if err != nil {
					return nil, err
				}
				y, ok := x.(replicated)
				if !ok {
					return nil, fmt.Errorf("%T has no replicas", x)
				}
				return indebted{y, more}, nil
			}
			c, err := node.NewLocal(ctx, node.LocalConfig{Config: cfg, Provider: provider, Threads: 1, Part: part})
			o := r.Plan.Options(cfg.Workload)
			o.Settle = 50 * time.Millisecond
			return c, &o, err
		}
	}
	return plan, list
}

// TestARecoveredRunThatCannotSettleHasAResult: what the dead process recorded and what the others did are one history,
// without what the tables hold in the end.
func TestARecoveredRunThatCannotSettleHasAResult(t *testing.T) {
	var more lag
	more.debts.Store(3)
	plan, list := indebtedPeers(t, 3, &more)
	plan.Duration = time.Second
	o := peerOptions(t, plan, list)
	o.Machine = "here"
	killed := dieOnceMeasuring(&o, list[1])
	res, err := RunPeers(testContext(t), o)
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	var unsettled *UnsettledError
	if !errors.As(err, &unsettled) || unsettled.Owed == 0 || res == nil {
		t.Fatalf("the run ended with %v, result %v", err, res)
	}
	if res.Lost != nil || res.Recovered == nil || len(res.Recovered.Processes) != 1 || res.History == nil {
		t.Fatalf("lost: %v, recovered: %+v, history: %v", res.Lost, res.Recovered, res.History != nil)
	}
	defer res.History.Close()
	if known, _ := res.History.Knows(history.Final); known || len(res.History.Nodes()) != 3 {
		t.Errorf("a history of %d nodes, with what the tables hold in the end: %t", len(res.History.Nodes()), known)
	}
}

// startIndebted lets clients run in one process that has all members, and gives what asks it.
func startIndebted(t *testing.T, more *lag) (do func(r *Request) *Answer) {
	t.Helper()
	ctx := testContext(t)
	plan, list := indebtedPeers(t, 1, more)
	if err := BuildPeers(ctx, peerOptions(t, plan, list)); err != nil {
		t.Fatal(err)
	}
	do = func(r *Request) *Answer {
		t.Helper()
		a, err := list[0].part.Do(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	do(&Request{Step: StepStart})
	return do
}

// finishIndebted ends the process, and reports whether its history has what the tables hold in the end.
func finishIndebted(t *testing.T, do func(r *Request) *Answer) (final bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "0.hist")
	a := do(&Request{Step: StepFinish, History: file})
	h, err := history.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	final, _ = h.Knows(history.Final)
	if a.NoFinal == final || a.Audit != "" {
		t.Errorf("what the tables hold in the end is in the history: %t, and the answer says %t; audit: %q", final,
			!a.NoFinal, a.Audit)
	}
	return final
}

// TestWhatTheLastEndFindsCounts: what was owed when a process died, and was settled since, is not owed.
func TestWhatTheLastEndFindsCounts(t *testing.T) {
	var more lag
	do := startIndebted(t, &more)
	more.debts.Store(3)
	if a := do(&Request{Step: StepEnd}); a.Unsettled.Owed == 0 {
		t.Error("nothing is owed")
	}
	more.debts.Store(0)
	for do(&Request{Step: StepEnd}).Unsettled != (Unsettled{}) { // the patience of this test is short
	}
	if !finishIndebted(t, do) {
		t.Error("what the tables hold in the end is not judged")
	}
}

// TestReplicasThatLagAreNotJudged: where nothing is owed, and backups have still records to apply, a run is unsettled.
func TestReplicasThatLagAreNotJudged(t *testing.T) {
	const each = 2
	var more lag
	do := startIndebted(t, &more)
	more.records.Store(each)
	u := do(&Request{Step: StepEnd}).Unsettled
	for u.Unapplied > 3*each || u.Owed > 0 { // as above
		u = do(&Request{Step: StepEnd}).Unsettled
	}
	if u.Unapplied != 3*each || u.UnderWay || u.err() == nil {
		t.Errorf("%+v, %v", u, u.err())
	}
	if finishIndebted(t, do) {
		t.Error("what the tables hold in the end is judged")
	}
}
