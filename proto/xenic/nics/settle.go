package nics

import (
	"time"

	"drtmd/proto/recovery"
	"drtmd/store/log"
	"drtmd/verbs/fiber"
)

// This file is how backups hear what is decided. A transaction is decided when all primaries have it; its coordinator
// tells all that hold a record, and they apply it. When all have heard, they are told to forget its name: until then one
// of them vouches for it in a recovery. This news rides on LOGs. Only a core that sends none to a node for a while sends
// it a message for that.

// news are names of transactions: those that are decided, and those that may be forgotten.
type news struct{ decided, forget []uint64 }

// mostNews bounds each list in a message.
const mostNews = 16

// settleAfter is how long news wait for a LOG. Assumed: many LOGs of a busy core, and short beside a recovery.
const settleAfter = 50 * time.Microsecond

// settling is the news of a core.
type settling struct {
	untold map[uint64]*untold // transactions that some holder has not confirmed as decided; looked up only
	nodes  []gossip           // by node
	armed  bool
}

type untold struct {
	holders []int
	left    int
}

// gossip is what a node has not been told, and the lists of decided ones that it was sent in messages of their own and
// has not confirmed.
type gossip struct {
	news
	sent  [][]uint64
	taken bool // since the last look
}

func (x *core) gossip(node int) *gossip {
	if x.nodes == nil {
		x.nodes, x.untold = make([]gossip, x.nic.cfg.Nodes), map[uint64]*untold{}
	}
	return &x.nodes[node]
}

// settle notes that a transaction is decided, of which these nodes hold records.
func (x *core) settle(tx uint64, holders []int) {
	if len(holders) == 0 {
		return
	}
	for _, d := range holders {
		g := x.gossip(d)
		g.decided = append(g.decided, tx)
	}
	x.untold[tx] = &untold{holders: holders, left: len(holders)}
	x.arm()
}

// takeNews gives what a node is told next.
func (x *core) takeNews(node int) (n news) {
	g := x.gossip(node)
	g.taken = true
	n.decided, g.decided = cut(g.decided)
	n.forget, g.forget = cut(g.forget)
	return n
}

func cut(list []uint64) (some, rest []uint64) {
	n := min(len(list), mostNews)
	return list[:n:n], list[n:]
}

// confirmed notes that a node has heard.
func (x *core) confirmed(node int, decided []uint64) {
	for _, tx := range decided {
		u := x.untold[tx]
		if u == nil {
			continue
		}
		if u.left--; u.left > 0 {
			continue
		}
		delete(x.untold, tx)
		for _, d := range u.holders {
			g := x.gossip(d)
			g.forget = append(g.forget, tx)
		}
		x.arm()
	}
}

// arm sees to it that news do not wait for ever.
func (x *core) arm() {
	if x.armed {
		return
	}
	x.armed = true
	n, turn := x.nic, x.nic.turn
	x.c.Worker().Go("settle", nil, func(f *fiber.Fiber) error {
		for {
			if err := f.Sleep(settleAfter); err != nil {
				return err
			}
			if n.turn != turn {
				return nil // recovery tells what is left
			}
			n.busy++
			more := x.flush(f)
			n.busy--
			if !more && n.turn == turn {
				x.armed = false
				return nil
			}
		}
	})
}

// flush tells those that got no LOG lately, and reports whether there may be more to tell later.
func (x *core) flush(f *fiber.Fiber) (more bool) {
	n := x.nic
	for d := range x.nodes {
		g := &x.nodes[d]
		if len(g.decided)+len(g.forget) == 0 {
			continue
		}
		more = true
		if g.taken {
			g.taken = false
			continue
		}
		w := x.takeNews(d)
		g.taken = false
		if d == n.cfg.Node {
			x.append(f, &entry{tx: n.name(), kind: logSettle, shard: d, news: w})
			x.confirmed(d, w.decided)
			continue
		}
		g.sent = append(g.sent, w.decided)
		n.Stats.News++
		x.c.Send(d, x.c.Index(), msgSettle, message(n.name()).news(&w).b)
	}
	return more
}

// name is one of the present view that is no transaction's.
func (n *NIC) name() uint64 { return txOf(n.cfg.Node, recovery.MaxWorkers-1, n.epoch, 1) }

func (x *core) onSettle(f *fiber.Fiber, from int, d *decoder) {
	e := entry{tx: d.u64(), kind: logSettle, shard: from}
	e.news = d.news()
	if !x.takes(d, nil, nil) {
		return
	}
	x.append(f, &e)
	x.c.Send(from, x.c.Index(), msgSettled, message(e.tx).b)
}

func (x *core) onSettled(from int, d *decoder) {
	d.u64()
	if g := x.gossip(from); x.takes(d, nil, nil) && len(g.sent) > 0 {
		list := g.sent[0]
		g.sent = g.sent[1:]
		x.confirmed(from, list)
	}
}

// news: what is decided, and what may be forgotten: counts 2, names of 8 each.
func (e *encoder) news(n *news) *encoder { return e.names(n.decided).names(n.forget) }
func (d *decoder) news() news            { return news{d.names(), d.names()} }

const _ = uint(logSettle - log.Type(1))
