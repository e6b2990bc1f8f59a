package scenario

import (
	"fmt"

	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/sim"
)

// Shape of the load of RPCs: clients that are never what limits, in front of one worker. A request
// has the 8 B of a key, a response the 16 B of a value (Dandelion §5.3).
const (
	rpcClients       = 4
	rpcClientWorkers = 2
	rpcFibers        = 32 // of each worker
	rpcRequest       = 8
	rpcResponse      = 16
)

// RPCRate is what one worker answers of small RPCs. Modelled.
type RPCRate struct {
	Batching    bool
	Mops        float64 // million calls per second
	PerDatagram float64 // messages in a datagram of the server, on average
}

// RPCs gives the throughput of package rpc on one worker, without batching and with it: what the
// CPU time of the cost model allows, where Batches leaves it out.
func RPCs(cost *sim.CostModel) ([]RPCRate, error) {
	var out []RPCRate
	for _, batching := range []bool{false, true} {
		r, err := rpcRate(cost, batching)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// rpcLoad is a server and what calls it.
type rpcLoad struct {
	e       *Env
	cfg     rpc.Config
	server  *rpc.Port
	address rpc.Address
	served  uint64
}

func rpcRate(cost *sim.CostModel, batching bool) (RPCRate, error) {
	w, err := sim.New(sim.Config{Seed: 1, Cost: cost, KeepEvents: -1})
	if err != nil {
		return RPCRate{}, err
	}
	l := &rpcLoad{e: &Env{World: w, Nodes: 1 + rpcClients, Workers: 1, Until: sim.Forever},
		cfg: rpc.Config{Peers: rpcClients * rpcClientWorkers, Slots: rpcFibers, MaxMessage: 256,
			NoBatch: !batching}}
	defer l.e.kill()
	if err := l.build(); err != nil {
		return RPCRate{}, err
	}
	const warmup, measured = 300 * sim.Microsecond, 2 * sim.Millisecond // many passes
	if err := w.RunUntil(warmup); err != nil {
		return RPCRate{}, err
	}
	served, stats := l.served, l.server.Stats
	if err := w.RunUntil(warmup + measured); err != nil {
		return RPCRate{}, err
	}
	if f := l.e.failure; f != nil {
		return RPCRate{}, f
	}
	now := l.server.Stats
	r := RPCRate{Batching: batching,
		Mops: float64(l.served-served) / (float64(measured) / float64(sim.Second)) / 1e6}
	if n := now.DatagramsSent - stats.DatagramsSent; n > 0 {
		r.PerDatagram = float64(now.MessagesSent-stats.MessagesSent) / float64(n)
	}
	return r, nil
}

func (l *rpcLoad) build() error {
	extra := l.cfg.Completions()
	_, err := l.e.AddMachine(MachineConfig{Extra: extra, Boot: func(m *Machine) (err error) {
		if l.server, err = l.port(m, 0); err != nil {
			return err
		}
		l.address = l.server.Address()
		l.server.Handle(typeEcho, func(_, resp []byte) (int, error) {
			l.served++
			return rpcResponse, nil
		})
		return nil
	}})
	for range rpcClients {
		if err == nil {
			_, err = l.e.AddMachine(MachineConfig{Workers: rpcClientWorkers, Extra: extra,
				Boot: l.bootClient})
		}
	}
	return err
}

func (l *rpcLoad) port(m *Machine, worker int) (*rpc.Port, error) {
	cfg := l.cfg
	cfg.Incarnation = uint64(m.Index()*rpcClientWorkers + worker + 1)
	return rpc.NewPort(m.Workers[worker], cfg)
}

func (l *rpcLoad) bootClient(m *Machine) error {
	for worker := range rpcClientWorkers {
		port, err := l.port(m, worker)
		if err != nil {
			return err
		}
		for range rpcFibers {
			m.Go(worker, "caller", func(f *fiber.Fiber) error { return l.call(f, port) })
		}
	}
	return nil
}

func (l *rpcLoad) call(f *fiber.Fiber, port *rpc.Port) error {
	s, err := port.Connect(f, l.address, 0)
	if err != nil {
		return err
	}
	var req [rpcRequest]byte
	var resp [rpcResponse]byte
	for {
		n, err := s.Call(f, typeEcho, req[:], resp[:], 0)
		if err == nil && n != rpcResponse {
			err = fmt.Errorf("a response of %d bytes", n)
		}
		if err != nil {
			return err
		}
	}
}
