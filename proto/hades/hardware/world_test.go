package hardware

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// The small world: two transactions on a few nodes, and every order of what may happen.

// opKind is what a transaction does to a line.
type opKind uint8

const (
	reads  opKind = iota + 1
	partly        // fetches the line, and writes its own half
	fully         // writes both halves, without a fetch from another node
	first         // locks all that the others need
)

// op of a transaction.
type op struct {
	kind opKind
	line int // of the world's lines
}

func (o op) String() string {
	if o.kind == first {
		return "!"
	}
	return fmt.Sprintf("%c%c", "?RPF"[o.kind], 'a'+o.line)
}

// place says where lines and transactions are.
type place struct {
	name    string
	homes   []NodeID  // by line
	cores   [2]NodeID // of the transactions
	nodes   int
	lagging bool // an Ack may overtake a Squash
	twice   bool // each message arrives twice in a row
	hybrid  bool // nodes of HADES-H; each line belongs to a record, whose header is a line before it
}

// half is the content of a line: transaction k writes k to its half, or to both.
type half [2]byte

// client runs one transaction of the world, once.
type client struct {
	node    NodeID
	program []op
	next    int
	begun   bool
	later   bool // it began after the other one was told that it had committed
	tx      directory.TX
	waits   uint32 // for lines; 0: it does not
	found   []half
	told    []End
}

// world is one state of it.
type world struct {
	place   place
	nodes   []*Node
	memory  []*lines
	clients [2]*client
	queues  [][]*Message // by from*nodes + to
	steps   [][]Step     // by node
	lines   []bloom.Line // the universe
	pool    Pool
}

// lines is the memory of a node.
type lines map[bloom.Line]Data

func (l lines) Load(line bloom.Line, to *Data)    { *to = l[line] }
func (l lines) Store(line bloom.Line, from *Data) { l[line] = *from }

// lineOf is the address of a line of the world, headerOf that of the header of its record.
func lineOf(i int) bloom.Line   { return bloom.Line(3*i + 1) }
func headerOf(i int) bloom.Line { return bloom.Line(3 * i) }

// universe are all lines that there are.
func (p *place) universe() (all []bloom.Line) {
	for i := range p.homes {
		all = append(all, lineOf(i))
		if p.hybrid {
			all = append(all, headerOf(i))
		}
	}
	return all
}

// smallNode is a node with few and small parts, so that worlds are made quickly.
func smallNode() directory.Config {
	c := directory.Hades(1, 2)
	c.L1 = directory.Cache{Sets: 1, Ways: 4, Cycles: 2}
	c.L2, c.LLC = c.L1, directory.Cache{Sets: 1, Ways: 8, Cycles: 40}
	c.Read = bloom.Geometry{Bits: 256, Hashes: 1}
	c.Write = bloom.Geometry{Bits: 256, Hashes: 1, IndexBits: 1}
	return c
}

func newWorld(t *testing.T, p place, programs [2][]op, m Mutation, dm directory.Mutation) *world {
	t.Helper()
	w := &world{place: p, queues: make([][]*Message, p.nodes*p.nodes), steps: make([][]Step, p.nodes),
		lines: p.universe()}
	for i, program := range programs {
		w.clients[i] = &client{node: p.cores[i], program: program}
	}
	for i := range p.nodes {
		id, l := NodeID(i), lines{}
		d := smallNode()
		d.Mutation = dm
		n, err := New(Config{Node: id, Nodes: p.nodes, Directory: d, Pairs: 2, Mutation: m, Memory: l, Pool: &w.pool,
			Hybrid: p.hybrid, Filter: bloom.Geometry{Bits: 256, Hashes: 1},
			Hooks: Hooks{
				Send: func(m *Message, _ int) {
					q := &w.queues[i*p.nodes+int(m.To)]
					*q = append(*q, m)
				},
				Later:   func(s Step, _ int) { w.steps[i] = append(w.steps[i], s) },
				Fetched: func(tx directory.TX, _ uint32) { w.client(id, tx).waits = 0 },
				Acked:   func(directory.TX) {}, Reserved: func(directory.TX) {},
				Ended: func(tx directory.TX, end End) {
					if c := w.client(id, tx); c != nil {
						c.told = append(c.told, end)
					}
				},
			}})
		if err != nil {
			t.Fatal(err)
		}
		w.nodes, w.memory = append(w.nodes, n), append(w.memory, &l)
	}
	return w
}

// committed is what a client was told that was told once, and well.
var committed = []End{Committed}

// client is who has a transaction, or had it last.
func (w *world) client(node NodeID, tx directory.TX) (found *client) {
	for _, c := range w.clients {
		if c.begun && c.node == node && c.tx == tx && (found == nil || len(c.told) == 0) {
			found = c
		}
	}
	return found
}

// choice is something that may happen next.
type choice struct {
	kind  uint8 // 'm' message, 's' step, 'c' client
	index int   // of a queue, a node or a client
	at    int   // within the queue or the steps
}

// choices are all of them, in a fixed order. If a message has the same effect before and after whatever else may
// happen, it is the only choice.
func (w *world) choices(into []choice) []choice {
	into = into[:0]
	for i, q := range w.queues {
		if len(q) > 0 && w.commutes(q[0]) {
			return append(into, choice{'m', i, 0})
		}
	}
	for i, q := range w.queues {
		for at, m := range q {
			if at == 0 || w.place.lagging && m.Kind == Ack && q[at-1].Kind == Squash {
				into = append(into, choice{'m', i, at})
			}
		}
	}
	for i, s := range w.steps {
		for at := range s {
			into = append(into, choice{'s', i, at})
		}
	}
	for i, c := range w.clients {
		if len(c.told) > 0 || c.waits > 0 {
			continue
		}
		if p := w.nodes[c.node].txs[c.tx].phase; !c.begun || p == executing || p == validating {
			into = append(into, choice{'c', i, 0})
		}
	}
	return into
}

// commutes reports whether a message may as well arrive at once: lines that were asked for, an Ack that is not the
// last one, and what is for a transaction that is over. Only a Squash of the same transaction concerns what it
// changes, and in either order the transaction is squashed.
func (w *world) commutes(m *Message) bool {
	t := w.nodes[m.To].attempt(m.ID)
	switch m.Kind {
	case Fetched:
		return true
	case Ack:
		return t == nil || t.missing > 1
	case Squash:
		return t == nil
	}
	return false
}

// do lets it happen.
func (w *world) do(c choice) {
	switch c.kind {
	case 'm':
		q := &w.queues[c.index]
		m := (*q)[c.at]
		*q = slices.Delete(*q, c.at, c.at+1)
		if w.place.twice {
			w.nodes[m.To].Receive(&Message{Kind: m.Kind, From: m.From, To: m.To, ID: m.ID, Request: m.Request,
				Lines: slices.Clone(m.Lines), Data: slices.Clone(m.Data)})
		}
		w.nodes[m.To].Receive(m)
	case 's':
		s := w.steps[c.index][c.at]
		w.steps[c.index] = slices.Delete(w.steps[c.index], c.at, c.at+1)
		w.nodes[c.index].Run(s)
	case 'c':
		w.advance(c.index)
	}
}

// advance has a client do its next operation, or commit. Operations that only send a message follow at once: the
// message may take its time anyway.
func (w *world) advance(i int) {
	c, other := w.clients[i], w.clients[1-i]
	n := w.nodes[c.node]
	if !c.begun {
		tx, ok := n.Begin(0)
		if !ok {
			panic("no filters")
		}
		c.begun, c.tx = true, tx
		c.later = slices.Contains(other.told, Committed)
	}
	if c.next == len(c.program) {
		if n.txs[c.tx].phase == validating {
			n.Validate(c.tx)
		} else {
			n.Commit(c.tx)
		}
		return
	}
	o := c.program[c.next]
	if o.kind == first {
		c.next++
		n.Reserve(c.tx, w.reservations(c.program[1:]))
		return
	}
	line, home := lineOf(o.line), w.place.homes[o.line]
	mine := []byte{byte(i + 1)}
	if w.place.hybrid {
		w.software(c, i, o)
		return
	}
	var d Data
	if home == c.node {
		var a directory.Access
		switch o.kind {
		case reads:
			a = n.Read(c.tx, line, &d)
		case partly:
			a = n.Write(c.tx, line, i, mine)
		case fully:
			a = n.Write(c.tx, line, 0, []byte{mine[0], mine[0]})
		}
		if a.Verdict != directory.Granted {
			return
		}
		c.finished(o, &d)
		return
	}
	switch {
	case o.kind == fully:
		n.Update(c.tx, home, line, 0, slices.Repeat(mine, len(d)))
	case !n.Copy(c.tx, home, line, &d):
		c.waits = n.Fetch(c.tx, home, []bloom.Line{line}, o.kind == partly)
		return
	case o.kind == partly:
		n.Update(c.tx, home, line, i, mine)
	}
	c.finished(o, &d)
}

// reservations are the lines of operations, by node.
func (w *world) reservations(ops []op) (set []Reservation) {
	for node := range NodeID(w.place.nodes) {
		r := Reservation{Node: node}
		for _, o := range ops {
			if w.place.homes[o.line] != node {
				continue
			}
			record := []bloom.Line{lineOf(o.line)}
			if w.place.hybrid {
				record = append(record, headerOf(o.line))
			}
			if o.kind == reads {
				r.Reads = append(r.Reads, record...)
			} else {
				r.Writes = append(r.Writes, record...)
			}
		}
		if len(r.Reads)+len(r.Writes) > 0 {
			set = append(set, r)
		}
	}
	return set
}

// software is an operation of HADES-H.
func (w *world) software(c *client, i int, o op) {
	n, home, mine := w.nodes[c.node], w.place.homes[o.line], byte(i+1)
	line, header := lineOf(o.line), headerOf(o.line)
	if home == c.node {
		var d [2]Data
		if n.ReadRecord(c.tx, []bloom.Line{header, line}, d[:]).Verdict != directory.Granted {
			return
		}
		switch o.kind {
		case partly:
			n.WriteRecord(c.tx, header, line, i, []byte{mine})
		case fully:
			n.WriteRecord(c.tx, header, line, 0, []byte{mine, mine})
		}
		c.finished(o, &d[1])
		return
	}
	wanted := []bloom.Line{line}
	switch o.kind {
	case partly:
		wanted = []bloom.Line{header, line}
	case fully:
		wanted = []bloom.Line{header}
	}
	var d Data
	if !n.Copy(c.tx, home, wanted[0], &d) {
		c.waits = n.Fetch(c.tx, home, wanted, o.kind != reads)
		return
	}
	switch o.kind {
	case partly:
		n.Update(c.tx, home, line, i, []byte{mine})
	case fully:
		n.Update(c.tx, home, line, 0, slices.Repeat([]byte{mine}, len(d)))
	}
	if o.kind != reads {
		n.Advance(c.tx, home, header, 0)
	}
	c.finished(o, &d)
}

func (c *client) finished(o op, d *Data) {
	if o.kind == reads {
		c.found = append(c.found, half{d[0], d[1]})
	}
	c.next++
}

// key tells states apart that differ in what may happen next.
func (w *world) key(b []byte) []byte {
	flag := func(v bool) {
		if v {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	count := func(n int) { b = binary.AppendUvarint(b, uint64(n)) }
	id := func(i ID) { b = append(b, byte(i.Node), byte(i.TX), byte(i.Attempt)) }
	filter := func(f *bloom.Filter) {
		for _, l := range w.lines {
			flag(f.Contains(l))
		}
	}
	message := func(m *Message) {
		b = append(b, byte(m.Kind), byte(m.From), byte(m.To), byte(m.Request), byte(m.Reads))
		id(m.ID)
		count(len(m.Lines))
		for i, l := range m.Lines {
			b = append(b, byte(l))
			if len(m.Data) > 0 {
				b = append(b, m.Data[i][:2]...)
			}
		}
	}
	for _, c := range w.clients {
		flag(c.begun)
		flag(c.later)
		b = append(b, byte(c.next), byte(c.tx), byte(c.waits))
		count(len(c.found))
		for _, h := range c.found {
			b = append(b, h[:]...)
		}
		count(len(c.told))
		for _, e := range c.told {
			flag(e == Committed)
		}
	}
	for i, n := range w.nodes {
		for x := range n.pairs {
			p := &n.pairs[x]
			flag(p.used)
			flag(p.locked)
			flag(p.reserved)
			flag(p.outside)
			if p.used {
				id(p.id)
				filter(p.read)
				filter(p.write)
			}
		}
		for x := range n.txs {
			t := &n.txs[x]
			b = append(b, byte(t.phase), byte(t.at))
			flag(t.waits)
			flag(t.reserved)
			flag(t.outside)
			id(t.id)
			count(len(t.open))
			for _, r := range t.remote {
				b = append(b, byte(r.node), byte(r.line), r.data[0], r.data[1])
				flag(r.written)
			}
			count(len(t.local))
			for _, l := range t.local {
				b = append(b, byte(l.line), l.data[0], l.data[1])
			}
			count(len(t.records))
			for _, r := range t.records {
				b = append(b, byte(r.header), byte(r.version))
				flag(r.written)
			}
			count(len(t.readLines))
			count(len(t.nodes))
			for x, node := range t.nodes {
				b = append(b, byte(node))
				flag(t.acked[x])
			}
			read, write := n.dir.Filters(directory.TX(x))
			filter(read)
			filter(write)
		}
		for o := range len(n.txs) + len(n.pairs) {
			flag(n.dir.Buffers().Holds(directory.Owner(o)))
			for _, l := range w.lines {
				flag(n.dir.Buffers().Denies(directory.Owner(o), l, false))
				flag(n.dir.Buffers().Denies(directory.Owner(o), l, true))
			}
		}
		for _, l := range w.lines {
			d := (*w.memory[i])[l]
			b = append(b, d[:2]...)
		}
		count(len(n.stalled))
		for _, m := range n.stalled {
			message(m)
		}
		count(len(w.steps[i]))
		for _, s := range w.steps[i] {
			b = append(b, byte(s.kind))
			message(s.m)
		}
	}
	for _, q := range w.queues {
		count(len(q))
		for _, m := range q {
			message(m)
		}
	}
	return b
}

// verdict of a world in which nothing more can happen; "" is good.
func (w *world) verdict() string {
	for i, c := range w.clients {
		if len(c.told) != 1 {
			return fmt.Sprintf("transaction %d was told %v", i+1, c.told)
		}
		if c.program[0].kind == first && c.told[0] != Committed {
			return fmt.Sprintf("transaction %d has locked everything before, and was told %v", i+1, c.told)
		}
	}
	for i, n := range w.nodes {
		if !n.Idle() {
			return fmt.Sprintf("node %d still has something of a transaction", i)
		}
	}
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		if w.explains(order) {
			return ""
		}
	}
	var b strings.Builder
	for i, c := range w.clients {
		fmt.Fprintf(&b, "transaction %d %v %v found %v; ", i+1, c.program, c.told, c.found)
	}
	for i, home := range w.place.homes {
		d := (*w.memory[home])[lineOf(i)]
		fmt.Fprintf(&b, "line %c is %v; ", 'a'+i, d[:2])
	}
	return b.String() + "no order of the committed ones gives that"
}

// explains reports whether running those that have committed in an order finds and leaves what was found and left.
func (w *world) explains(order [2]int) bool {
	state := make([]half, len(w.place.homes))
	for _, i := range order {
		c := w.clients[i]
		if c.told[0] != Committed {
			continue
		}
		if first := w.clients[order[0]]; i == order[1] && first.told[0] == Committed && first.later {
			return false // it began after this one's end
		}
		found := c.found
		for _, o := range c.program {
			switch o.kind {
			case reads:
				if found[0] != state[o.line] {
					return false
				}
				found = found[1:]
			case partly:
				state[o.line][i] = byte(i + 1)
			case fully:
				state[o.line] = half{byte(i + 1), byte(i + 1)}
			}
		}
	}
	for i, home := range w.place.homes {
		d := (*w.memory[home])[lineOf(i)]
		if state[i] != (half{d[0], d[1]}) {
			return false
		}
	}
	return true
}

// explorer tries every order.
type explorer struct {
	make    func() *world
	seen    map[string]bool
	ends    int // states in which nothing more can happen
	both    int // of these, in which both have committed
	finding string
}

// explore goes on from a world that was reached by path, unless it is known. It gives up the world.
func (e *explorer) explore(w *world, key string, path []choice) {
	if e.finding != "" || e.seen[key] {
		return
	}
	e.seen[key] = true
	options := w.choices(nil)
	if len(options) == 0 {
		e.ends++
		if slices.Equal(w.clients[0].told, committed) && slices.Equal(w.clients[1].told, committed) {
			e.both++
		}
		e.report(w.verdict(), path)
		return
	}
	idle := 0 // choices that change nothing: accesses that are denied
	for i, c := range options {
		next := w
		if i < len(options)-1 {
			next = e.make()
			for _, before := range path {
				next.do(before)
			}
		}
		after := append(path[:len(path):len(path)], c)
		next.do(c)
		if k := string(next.key(nil)); k != key {
			e.explore(next, k, after)
		} else if idle++; idle == len(options) {
			e.report("a transaction waits for ever", path)
		}
	}
}

// report remembers the first finding, with what had happened before.
func (e *explorer) report(finding string, path []choice) {
	if finding == "" || e.finding != "" {
		return
	}
	var b strings.Builder
	w := e.make()
	for _, c := range path {
		switch c.kind {
		case 'm':
			fmt.Fprintf(&b, "  %v\n", w.queues[c.index][c.at])
		case 's':
			s := w.steps[c.index][c.at]
			fmt.Fprintf(&b, "  node %d, later: %v\n", c.index, s.m)
		case 'c':
			fmt.Fprintf(&b, "  transaction %d goes on\n", c.index+1)
		}
		w.do(c)
	}
	e.finding = finding + "\n" + b.String()
}

// explore tries every order of two programs.
func explore(t *testing.T, p place, programs [2][]op, m Mutation, dm directory.Mutation) *explorer {
	t.Helper()
	e := &explorer{seen: map[string]bool{}, make: func() *world { return newWorld(t, p, programs, m, dm) }}
	w := e.make()
	e.explore(w, string(w.key(nil)), nil)
	return e
}
