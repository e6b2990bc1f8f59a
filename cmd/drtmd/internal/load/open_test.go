package load

import (
	"context"
	"errors"
	"strings"
	"testing"

	"drtmd/proto"
)

// mortal is a peer that dies in a step: before it carries it out, or without an answer.
type mortal struct {
	*localPeer
	in     Step
	silent bool // it does not notice: whoever asks has to
}

func (p *mortal) Do(ctx context.Context, r *Request) (*Answer, error) {
	switch {
	case r.Step != p.in:
		return p.localPeer.Do(ctx, r)
	case p.silent:
		go p.die()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p.die()
	return nil, errors.New("connection refused")
}

// TestAPeerLostBeforeClientsRunIsNamedWithTheStep and nothing hangs: the others can be opened again at
// once.
func TestAPeerLostBeforeClientsRunIsNamedWithTheStep(t *testing.T) {
	for _, step := range []Step{StepOpen, StepConnect, StepGo} {
		for name, silent := range map[string]bool{"refused": false, "silent": true} {
			t.Run(string(step)+" "+name, func(t *testing.T) {
				ctx, plan, list := testContext(t), testPlan(3), testPeers(t, 3, 0)
				o := peerOptions(t, plan, list)
				o.Peers[1] = &mortal{list[1], step, silent}
				res, err := RunPeers(ctx, o)
				var lost *OpenError
				if res != nil || !errors.As(err, &lost) {
					t.Fatalf("result %v, error %v, want a peer lost", res, err)
				}
				if lost.Process != "peer 1" || lost.Step != step || len(lost.Members) != 1 ||
					lost.Members[0] != proto.NodeID(1) {
					t.Errorf("%+v", lost)
				}
				if want := "peer 1, with nodes [1], was lost in step " + string(step); !strings.HasPrefix(
					err.Error(), want) {
					t.Errorf("%q does not begin with %q", err, want)
				}
				for _, p := range []*localPeer{list[0], list[2]} {
					if i := p.part.Info(); i != nil {
						t.Errorf("%s holds %+v", p.name, i)
					}
				}
				plan.Nodes, plan.Record = 2, false
				o = peerOptions(t, plan, []*localPeer{list[0], list[2]})
				if res, err := RunPeers(ctx, o); err != nil || res.Sum.Outcomes(proto.Committed) == 0 {
					t.Errorf("a run on the others: %v", err)
				}
			})
		}
	}
}

// TestAPeerThatIsGoneIsSoWhenPatienceHasEnded: the others of the step have used it up.
func TestAPeerThatIsGoneIsSoWhenPatienceHasEnded(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 100 { // which of two that are ready is taken is left to chance
		if !isGone(ended, &peer{Peer: departed{}}, errors.New("no answer")) {
			t.Fatal("a peer that is gone is taken for one that lives")
		}
	}
}

// departed is a peer that is gone.
type departed struct{ Peer }

func (departed) Gone() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
