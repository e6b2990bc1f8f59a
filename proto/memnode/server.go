package memnode

import (
	"errors"
	"fmt"
	"slices"

	"drtmd/verbs"
)

// Config of a memory node.
type Config struct {
	Bytes int
	// Keep names the memory, so that it outlives the process (verbs.Caps.KeptMRs); "": it does not.
	Keep string
	// Clients is how many clients there may be, up to MaxClient; they have the numbers 1..Clients. 0: 64.
	Clients int
	// QueuePairs is how many a client may have; 0: 16.
	QueuePairs int
	// Connect are the options of the passive ends.
	Connect verbs.ConnectAttr
	// Format lays the memory out before the first client; nil leaves it zero, or as it was kept.
	Format func(memory []byte) error
}

// Defaults of Config.
const (
	DefaultClients    = 64
	DefaultQueuePairs = 16
)

// cqDepth is that of the CQ that passive ends must have: nothing completes there.
const cqDepth = 16

// Server is a memory node.
type Server struct {
	cfg   Config
	pd    *verbs.PD
	cq    *verbs.CQ
	mr    *verbs.MR
	seats []seat // of the client numbers, from 1
}

// seat is what a client number has: the passive ends of its session, none without one. An end that could not be
// closed stays, and so the number is taken: what the client has on its way may still arrive.
type seat struct {
	qps []*verbs.QP
}

func (t *seat) taken() bool { return len(t.qps) > 0 }

// NewServer registers the memory and lays it out. ctx stays the caller's.
func NewServer(ctx *verbs.Context, cfg Config) (*Server, error) {
	if cfg.Clients == 0 {
		cfg.Clients = DefaultClients
	}
	if cfg.QueuePairs == 0 {
		cfg.QueuePairs = DefaultQueuePairs
	}
	if cfg.Clients < 1 || cfg.Clients > MaxClient {
		return nil, fmt.Errorf("memory node: %d clients are not in 1..%d", cfg.Clients, MaxClient)
	}
	s := &Server{cfg: cfg, seats: make([]seat, cfg.Clients)}
	err := s.open(ctx)
	if err == nil && cfg.Format != nil {
		err = cfg.Format(s.mr.Bytes())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("memory node: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx *verbs.Context) (err error) {
	if s.pd, err = ctx.AllocPD(); err != nil {
		return err
	}
	if s.cq, err = ctx.CreateCQ(verbs.CQConfig{Depth: cqDepth, SingleThreaded: true}); err != nil {
		return err
	}
	s.mr, err = s.pd.AllocMR(s.cfg.Bytes, verbs.AccessAll, verbs.MROptions{Keep: s.cfg.Keep})
	return err
}

// Memory is the registered memory. Clients own its content.
func (s *Server) Memory() *verbs.MR { return s.mr }

// Admit opens the session of a client. An error refuses it in words, and nothing has changed.
func (s *Server) Admit(r Request) (Reply, error) {
	if err := r.check(&s.cfg); err != nil {
		return Reply{}, err
	}
	id := r.Client
	for i := 0; id == 0 && i < len(s.seats); i++ {
		if !s.seats[i].taken() {
			id = ClientID(i + 1)
		}
	}
	if id == 0 {
		return Reply{}, fmt.Errorf("%w: all %d client numbers are in use", ErrFull, len(s.seats))
	}
	seat := &s.seats[id-1]
	if seat.taken() {
		return Reply{}, fmt.Errorf("%w: client %d has a session; end it, or choose another number", ErrInUse, id)
	}
	reply := Reply{Client: id, Clients: len(s.seats), Memory: s.mr.Remote()}
	for i := range r.Endpoints {
		qp, err := s.connect(&r.Endpoints[i])
		if err != nil {
			return Reply{}, errors.Join(fmt.Errorf("client %d, queue pair %d of %d: %w", id, i+1,
				len(r.Endpoints), err), seat.close())
		}
		seat.qps = append(seat.qps, qp)
		reply.Endpoints = append(reply.Endpoints, qp.Endpoint())
	}
	return reply, nil
}

// connect makes the passive end of a queue pair.
func (s *Server) connect(peer *verbs.Endpoint) (*verbs.QP, error) {
	qp, err := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq, SendDepth: 1,
		RecvDepth: 1, Access: verbs.AccessAll})
	if err != nil {
		return nil, err
	}
	if err := qp.Connect(peer, s.cfg.Connect); err != nil {
		return nil, errors.Join(err, qp.Close())
	}
	return qp, nil
}

// Leave ends the session of a client, if it has one: nothing of it reaches the memory any more. Whoever
// carries requests calls it when the client has said so, or when its process is gone. After an error the client
// is not fenced, and its number stays taken: call it again.
func (s *Server) Leave(id ClientID) error {
	if id == 0 || int(id) > len(s.seats) {
		return nil
	}
	return s.seats[id-1].close()
}

// close closes the passive ends, and keeps those that cannot be closed.
func (t *seat) close() error {
	var errs []error
	t.qps = slices.DeleteFunc(t.qps, func(qp *verbs.QP) bool {
		err := qp.Close()
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// Close ends all sessions and frees the memory. It may be called twice.
func (s *Server) Close() error {
	var errs []error
	for i := range s.seats {
		errs = append(errs, s.Leave(ClientID(i+1)))
	}
	if s.mr != nil {
		errs = append(errs, s.mr.Close())
	}
	if s.cq != nil {
		errs = append(errs, s.cq.Close())
	}
	if s.pd != nil {
		errs = append(errs, s.pd.Close())
	}
	return errors.Join(errs...)
}
