package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// start runs on a fiber of the worker when the queue pairs of all members are connected: it opens
// the sessions, measures the round trip, and makes the engine.
func (w *Worker) start(f *fiber.Fiber, p *Protocol) error {
	if err := w.openSessions(f); err != nil {
		return err
	}
	var err error
	if w.RoundTrip, err = w.measureRoundTrip(f); err != nil {
		return err
	}
	begin := f.Now()
	if w.Engine, err = p.Make(&w.Env); err != nil {
		return err
	}
	err = w.restore(f)
	w.Restored = f.Now() - begin
	return err
}

// restore has the engine do what its logs of an earlier life leave to do, before there are clients. All members
// are connected. The rest of chains is run by a fiber of its own, which may need what is owed to be done before.
func (w *Worker) restore(f *fiber.Fiber) error {
	e, ok := w.Engine.(proto.Logger)
	if !ok || e.LogStats().Recovering == 0 {
		return nil
	}
	var failed error
	w.Worker.Submit("rest of chains", w.resume, func(err error) { failed = err })
	for e.LogStats().Recovering > 0 {
		if failed != nil {
			return failed
		}
		for n := range w.Peers {
			if peer := proto.NodeID(n); w.Mend(f, peer) {
				w.Pay(f, peer)
			}
		}
		if err := f.Sleep(w.keeper.times.Retry); err != nil {
			return err
		}
	}
	return nil
}

// resume runs what is left of chains.
func (w *Worker) resume(f *fiber.Fiber) error {
	of, ok := w.member.cluster.Workload.(proto.Resumer)
	if !ok {
		of = noChains{w.member.cluster.Workload.Name()}
	}
	r := proto.Runner{Engine: w.Engine, Rand: rand.New(rand.NewPCG(uint64(w.Node), uint64(w.Index)))}
	return r.Resume(f, of)
}

// noChains is a workload that has none.
type noChains struct{ name string }

func (n noChains) Resume(uint8, int, []byte) (proto.Chain, error) {
	return nil, fmt.Errorf("workload %s does not run transactions in pieces: start with the workload of before", n.name)
}

func (w *Worker) openSessions(f *fiber.Fiber) error {
	for n := range w.Peers {
		if n == int(w.Node) {
			continue
		}
		p := &w.Peers[n]
		var err error
		var deadline time.Duration // none but RPC.PeerTimeout
		if !w.member.cluster.Retried {
			deadline = f.Now() + startTimeout
		}
		if p.Session, err = w.Port.Connect(f, w.addresses[n], deadline); err != nil {
			return fmt.Errorf("session with node %d: %w", n, starved(w.blocked(err)))
		}
		w.keeper.with[n] = w.addresses[n].Incarnation
	}
	return nil
}

// starved says what to do about a peer that has sent its descriptor, and then was silent.
func starved(err error) error {
	if !errors.Is(err, rpc.ErrPeerGone) {
		return err
	}
	return fmt.Errorf("%w; a busy machine may have stopped it: look at its load (uptime), then start again, with fewer "+
		"nodes, workers or threads", err)
}

// blocked names what is in the way where a peer that has sent its descriptor, over TCP between hosts,
// does not answer on the wire: the own port, else a firewall.
func (w *Worker) blocked(err error) error {
	ctx := w.Worker.PD().Context()
	port, portErr := ctx.Port(1)
	silent := errors.Is(err, verbs.WCRetryExcErr) || errors.Is(err, rpc.ErrPeerGone) ||
		errors.Is(err, rpc.ErrUnanswered)
	if portErr != nil || port.Link != verbs.LinkEthernet || !silent {
		return ctx.Explain(err)
	}
	if problem := port.Problem(ctx.Attr().Name); problem != "" {
		return fmt.Errorf("%w; %s", err, problem)
	}
	return fmt.Errorf("%w; if it answers over TCP and not over RDMA, let UDP port 4791 (RoCE v2) "+
		"through the firewalls between both, in both directions; Soft-RoCE needs its interface in the "+
		"initial network namespace", err)
}

// measureRoundTrip is the longest of the median times of an 8-byte READ of each peer; 0 in a
// cluster of one. The other workers start at the same time, so it errs upwards.
func (w *Worker) measureRoundTrip(f *fiber.Fiber) (trip time.Duration, err error) {
	if len(w.Peers) == 1 {
		return 0, nil
	}
	buffer, err := w.Worker.PD().AllocMR(8, verbs.AccessLocalWrite, verbs.MROptions{NoHuge: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, buffer.Close()) }()
	for n := range w.Peers {
		p := &w.Peers[n]
		if n == int(w.Node) {
			continue
		}
		var times [readTrips]time.Duration
		for i := range times {
			begin := f.Now()
			if err := p.Conn.Read(f, buffer.SGE(0, 8), p.Memory.Addr, p.Memory.RKey); err != nil {
				return 0, fmt.Errorf("READ of node %d: %w", n, w.blocked(err))
			}
			times[i] = f.Now() - begin
		}
		slices.Sort(times[:])
		trip = max(trip, times[readTrips/2])
	}
	return trip, nil
}
