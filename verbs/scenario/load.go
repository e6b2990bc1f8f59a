package scenario

import (
	"fmt"

	"drtmd/verbs"
	"drtmd/verbs/sim"
)

// LoadConfig of NewLoad.
type LoadConfig struct {
	Cost  *sim.CostModel // nil is the default preset
	Op    verbs.Opcode   // OpRead, OpWrite or OpFAA
	Bytes int
	Nodes int // clients, each a node
	QPs   int // of each client
	Depth int // requests outstanding on each QP
	// OneWord has all atomics go to one address; otherwise each QP has a place of its own.
	OneWord bool
}

// Load keeps the QPs of some nodes full of one kind of request to one target: a closed loop
// without fibers and without CPU time, so that what limits it is the network's model alone.
type Load struct {
	World *sim.World
	Done  uint64 // completions
	err   error
}

const (
	loadBytes = 64 << 10 // memory of each node
	loadList  = 16       // most requests of a post
)

// party is a node with what a load needs of it.
type party struct {
	node *sim.Node
	ctx  *verbs.Context
	pd   *verbs.PD
	cq   *verbs.CQ // of the passive ends
	mr   *verbs.MR
}

func addParty(w *sim.World, name string) (*party, error) {
	n, err := w.AddNode(sim.NodeConfig{Name: name})
	if err != nil {
		return nil, err
	}
	p := &party{node: n}
	if p.ctx, err = n.Open(); err != nil {
		return nil, err
	}
	if p.pd, err = p.ctx.AllocPD(); err != nil {
		return nil, err
	}
	if p.cq, err = p.ctx.CreateCQ(verbs.CQConfig{Depth: loadList}); err != nil {
		return nil, err
	}
	p.mr, err = p.pd.AllocMR(loadBytes, verbs.AccessAll, verbs.MROptions{})
	return p, err
}

// NewLoad connects the clients of a load and starts them.
func NewLoad(c LoadConfig) (*Load, error) {
	w, err := sim.New(sim.Config{Seed: 1, Cost: c.Cost, KeepEvents: -1})
	if err != nil {
		return nil, err
	}
	l := &Load{World: w}
	target, err := addParty(w, "target")
	if err != nil {
		return nil, err
	}
	for i := range c.Nodes {
		p, err := addParty(w, fmt.Sprintf("client%d", i))
		if err != nil {
			return nil, err
		}
		for j := range c.QPs {
			place := 0
			if !c.OneWord {
				place = (i*c.QPs + j) * verbs.LineBytes % (loadBytes / 2)
			}
			if err := l.connect(&c, p, target, place); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// Rate runs the load on, and gives its operations per second of virtual time.
func (l *Load) Rate(warmup, measured sim.Time) (float64, error) {
	if err := l.World.RunUntil(l.World.Now() + warmup); err != nil {
		return 0, err
	}
	before := l.Done
	if err := l.World.RunUntil(l.World.Now() + measured); err != nil {
		return 0, err
	}
	return float64(l.Done-before) / (float64(measured) / float64(sim.Second)), l.err
}

// client drives one QP.
type client struct {
	load  *Load
	qp    *verbs.QP
	cq    *verbs.CQ
	woken bool
	wcs   [loadList]verbs.WC
	list  [loadList]verbs.WR // the request, so many times
}

func (l *Load) connect(cfg *LoadConfig, p, target *party, place int) error {
	c := &client{load: l}
	var err error
	if c.cq, err = p.ctx.CreateCQ(verbs.CQConfig{Depth: cfg.Depth + 1}); err != nil {
		return err
	}
	if c.qp, err = connectRC(p, target, c.cq, cfg.Depth); err != nil {
		return err
	}
	wr := verbs.WR{ID: 1, Op: cfg.Op, NumSGE: 1, Flags: verbs.FlagSignaled, CompareAdd: 1,
		RemoteAddr: target.mr.Addr() + uint64(place), RKey: target.mr.RKey()}
	wr.SGE[0] = p.mr.SGE(0, cfg.Bytes)
	for i := range c.list {
		c.list[i] = wr
	}
	if err := c.cq.OnArrival(c.wake); err != nil {
		return err
	}
	for left := cfg.Depth; left > 0; {
		n, err := c.qp.PostSend(c.list[:min(left, loadList)])
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// connectRC makes both ends of a connection and gives that of the client.
func connectRC(p, target *party, cq *verbs.CQ, depth int) (*verbs.QP, error) {
	make := func(x *party, cq *verbs.CQ, depth int) (*verbs.QP, error) {
		return x.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			SendDepth: depth, RecvDepth: 1, Access: verbs.AccessAll})
	}
	near, err := make(p, cq, depth)
	if err != nil {
		return nil, err
	}
	far, err := make(target, target.cq, 1)
	if err != nil {
		return nil, err
	}
	a, b := near.Endpoint(), far.Endpoint()
	if err := far.Connect(&a, verbs.ConnectAttr{}); err != nil {
		return nil, err
	}
	return near, near.Connect(&b, verbs.ConnectAttr{})
}

func (c *client) wake() {
	if !c.woken {
		c.woken = true
		c.load.World.After(0, c.work)
	}
}

// work posts a request for each that is done.
func (c *client) work() {
	c.woken = false
	n, err := c.cq.Poll(c.wcs[:])
	for i := range n {
		if err == nil {
			err = c.wcs[i].Err()
		}
	}
	if n > 0 && err == nil {
		_, err = c.qp.PostSend(c.list[:n])
	}
	if err != nil {
		c.load.err = err
		c.load.World.Stop()
		return
	}
	if c.load.Done += uint64(n); n > 0 {
		c.wake()
	}
}
