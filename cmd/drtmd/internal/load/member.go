package load

import (
	"context"
	"net"

	"drtmd/proto/node"
)

// Join serves a supervisor over c until it says quit or is gone: the side of one process of
// RunProcesses. open builds the process's part of the cluster.
func Join(ctx context.Context, c net.Conn, o Options,
	open func(ctx context.Context, p *node.Part) (*node.Cluster, error)) error {
	t := newTalk(c)
	part := NewPart(PartConfig{Open: func(ctx context.Context, _ *Request, p *node.Part) (*node.Cluster,
		*Options, error) {
		cluster, err := open(ctx, p)
		return cluster, &o, err
	}})
	for {
		r, err := t.take()
		if err != nil || r.Step == StepQuit { // gone: whoever had asked wants nothing any more
			return part.Close()
		}
		a, err := part.Do(ctx, r)
		if err != nil {
			a = &Answer{Error: err.Error()}
		}
		if err := t.send(a); err != nil {
			return part.Close()
		}
	}
}
