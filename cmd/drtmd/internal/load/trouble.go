package load

import (
	"context"
	"slices"

	"drtmd/proto"
	"drtmd/proto/node"
)

// Troubles are what the part's engines say of peers that have done what no correct node does (proto.Troubled),
// each once, in order. It may be called at any time.
func (p *Part) Troubles(ctx context.Context) (list []string, err error) {
	s, release := p.inUse()
	defer release()
	if s == nil {
		return nil, nil
	}
	err = s.cluster.Inspect(ctx, func(w *node.Worker) {
		if trouble := troubleOf(w); trouble != nil {
			list = append(list, trouble.Error())
		}
	})
	slices.Sort(list)
	return slices.Compact(list), err
}

// troubleOf asks a worker's engine, on its thread or when that has stopped.
func troubleOf(w *node.Worker) error {
	if e, ok := w.Engine.(proto.Troubled); ok {
		return e.Trouble()
	}
	return nil
}
