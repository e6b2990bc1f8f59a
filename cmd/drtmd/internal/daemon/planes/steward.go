package planes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
)

// Steward reacts to each state of the registry, and now and then looks by itself, until ctx ends: it
// fences the node off from members that are gone, and leads the building of planes where that is this
// node's task.
func (p *Planes) Steward(ctx context.Context) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		case <-wait.C:
		}
		p.turned.Store(int64(p.o.Clock.Now()))
		wait.Reset(p.react(ctx))
	}
}

// react does what the state asks for, and says when to look again at the latest.
func (p *Planes) react(ctx context.Context) time.Duration {
	s, st := p.o.Members.Now()
	if s == nil {
		return time.Second
	}
	if st.Pending != nil {
		p.cutOff(ctx, s, &st)
		return retryWait / 5
	}
	p.loseLeader(&st)
	busy := p.follow(ctx, s, &st)
	p.lead(ctx, s, &st)
	if busy {
		return retryWait / 5
	}
	return time.Second
}

// cutOff moves the queue pairs to everybody who is not in the pending view to the error state, and
// says so.
func (p *Planes) cutOff(ctx context.Context, s member.Session, st *member.State) {
	if !st.Pending.Has(s.Self()) {
		return // this node is the one that goes
	}
	removed := st.Removed()
	p.named = slices.DeleteFunc(p.named, func(m member.Member) bool {
		return !slices.ContainsFunc(removed, m.Same)
	})
	goesOn, fenced := p.goesOn(st), slices.Contains(st.Fenced, s.Self().Node)
	var gone []proto.NodeID
	for _, m := range removed {
		for i, x := range p.partitions() {
			if !x.Same(m) {
				continue
			}
			gone = append(gone, proto.NodeID(i))
			cause := fmt.Errorf("%v was removed from the cluster in epoch %d", m, st.Pending.Epoch)
			if err := p.disconnect(proto.NodeID(i), cause); err != nil {
				p.o.Log.Error("queue pairs were not moved to the error state", zap.Stringer("member", m),
					zap.Error(err))
				return // the epoch must not become active
			}
			if i := p.part.Info(); i != nil && i.Running && !goesOn {
				p.degrade(m)
			} else if !slices.ContainsFunc(p.named, m.Same) {
				p.named = append(p.named, m)
				p.o.Board.Event(status.Info, cause.Error())
			}
		}
	}
	if fenced {
		return // it has said so: the others are waited for
	}
	if goesOn && !p.pausePart(ctx, st, gone) {
		return
	}
	err := p.o.Members.Fenced(s, st.Pending.Epoch)
	if err != nil && !errors.Is(err, member.ErrStale) {
		p.o.Log.Warn("the epoch was not acknowledged", zap.Uint64("epoch", uint64(st.Pending.Epoch)),
			zap.Error(err))
	}
}

// disconnect ends the connections to a partition. A plane that is still being connected is closed:
// when this returns, nothing of it connects any more.
func (p *Planes) disconnect(n proto.NodeID, cause error) error {
	if i := p.part.Info(); i == nil || i.Open {
		return p.part.Disconnect(n, cause)
	}
	return errors.Join(p.part.Fence(cause), p.part.Close())
}

// degrade notes what is left of a member that is gone while clients run.
func (p *Planes) degrade(m member.Member) {
	until := "the tables are loaded again"
	p.mu.Lock()
	if p.data != nil {
		until = "it is back: the tables are kept, and recovered then"
	}
	p.mu.Unlock()
	text := fmt.Sprintf("partition of %v is gone; records that its clients had locked stay locked until %s", m, until)
	p.lack(status.Warn, text)
}

// lack adds to what the plane lacks, and tells it once.
func (p *Planes) lack(l status.Level, text string) {
	p.mu.Lock()
	known := slices.Contains(p.degraded, text)
	if !known {
		p.degraded = append(p.degraded, text)
	}
	p.mu.Unlock()
	if !known {
		p.o.Board.Event(l, text)
	}
}

// loseLeader ends the clients of a run whose leader is gone.
func (p *Planes) loseLeader(st *member.State) {
	p.mu.Lock()
	led, version := p.shards, p.version
	p.mu.Unlock()
	if version == 0 || led.Run == "" || st.Active.Has(led.Leader) {
		return
	}
	if i := p.part.Info(); i != nil && i.Fenced == nil {
		cause := fmt.Errorf("%v, which led run %s, is gone", led.Leader, led.Run)
		p.o.Board.Event(status.Warn, cause.Error())
		p.Fence(cause)
	}
}
