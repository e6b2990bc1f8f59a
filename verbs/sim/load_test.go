package sim

import (
	"testing"

	"drtmd/verbs"
)

// closedLoop keeps every QP of its clients full of one kind of request and counts completions.
type closedLoop struct {
	w    *World
	done uint64
}

// client drives one QP: depth requests are always outstanding.
type client struct {
	s     *side
	qp    *verbs.QP
	cq    *verbs.CQ
	wr    verbs.WR
	loop  *closedLoop
	woken bool
	wcs   [16]verbs.WC
	list  [16]verbs.WR
}

// start posts the first depth requests, and from then on one for each completion.
func (c *client) start(depth int) {
	must(c.s.t, c.cq.OnArrival(func() {
		if !c.woken {
			c.woken = true
			c.loop.w.After(0, c.work)
		}
	}))
	for i := range c.list {
		c.list[i] = c.wr
	}
	for depth > 0 {
		n, err := c.qp.PostSend(c.list[:min(depth, len(c.list))])
		must(c.s.t, err)
		depth -= n
	}
}

func (c *client) work() {
	c.woken = false
	n, err := c.cq.Poll(c.wcs[:])
	must(c.s.t, err)
	for _, wc := range c.wcs[:n] {
		if wc.Status != verbs.WCSuccess {
			c.s.t.Fatal(wc.Status)
		}
	}
	c.loop.done += uint64(n)
	if n > 0 {
		_, err = c.qp.PostSend(c.list[:n])
		must(c.s.t, err)
		c.woken = true
		c.loop.w.After(0, c.work)
	}
}

// newLoad connects clients on nodes to one target and starts them.
func newLoad(t testing.TB, cost *CostModel, op verbs.Opcode, size, nodes, qps,
	depth int) *closedLoop {
	t.Helper()
	w := worldOf(t, Config{Seed: 1, Cost: cost})
	loop := &closedLoop{w: w}
	target := addSide(t, w, "target")
	for i := range nodes {
		s := addSide(t, w, "client"+string(rune('a'+i)))
		for j := range qps {
			var err error
			s.cq, err = s.ctx.CreateCQ(verbs.CQConfig{Depth: 1024})
			must(t, err)
			connect(s, target, verbs.ConnectAttr{})
			c := &client{s: s, qp: s.qp, cq: s.cq, loop: loop}
			// Each client has a place of its own, so that atomics do not meet.
			place := (i*qps + j) * 64 % (testBytes / 2)
			c.wr = oneSided(op, s, 0, target, place, size)
			c.wr.Flags = verbs.FlagSignaled
			c.wr.CompareAdd = 1
			c.start(depth)
		}
	}
	return loop
}

// rate runs a load for a while and gives its operations per second of virtual time.
func (l *closedLoop) rate(t testing.TB, warmup, measured Time) float64 {
	t.Helper()
	must(t, l.w.RunUntil(l.w.Now()+warmup))
	before := l.done
	must(t, l.w.RunUntil(l.w.Now()+measured))
	return float64(l.done-before) / (float64(measured) / float64(Second))
}
