package planes

import (
	"context"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
)

// orphansLook is how often the workers are asked for records that stay locked; keptOrphans of them are
// named in the status.
const (
	orphansLook = time.Second
	keptOrphans = 16
)

// WatchOrphans looks for records that stay locked until ctx ends.
func (p *Planes) WatchOrphans(ctx context.Context) {
	tick := time.NewTicker(orphansLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.lookForOrphans(ctx)
	}
}

// lookForOrphans asks the workers, and tells of records that have come to stay locked: of the first
// ones, and when none does any more. It tells what peers have done that no correct node does, too.
func (p *Planes) lookForOrphans(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if list, err := p.part.Troubles(ctx); err == nil {
		for _, text := range list {
			p.lack(status.Error, "a peer does what no correct node does: "+text)
		}
	}
	o, err := p.part.Orphans(ctx)
	if err != nil {
		return // a thread that does not answer is the watchdog's
	}
	p.tellOrphans(namedOrphans(o))
}

// tellOrphans takes down what stays locked; nil: nothing.
func (p *Planes) tellOrphans(now *status.Orphans) {
	p.mu.Lock()
	before := p.orphans
	p.orphans = now
	p.mu.Unlock()
	switch {
	case before == nil && now != nil:
		p.o.Board.Event(status.Warn, now.String())
	case before != nil && now == nil:
		p.o.Board.Event(status.Info, "no record stays locked any more")
	}
}

// namedOrphans is what the status says of them; nil: there are none.
func namedOrphans(o load.Orphans) *status.Orphans {
	if o.Count == 0 {
		return nil
	}
	s := &status.Orphans{Count: o.Count}
	for _, x := range o.List[:min(len(o.List), keptOrphans)] {
		s.List = append(s.List, status.Orphan{Node: x.Node, Table: x.Table, Key: x.Key, Owner: x.Owner})
	}
	return s
}
