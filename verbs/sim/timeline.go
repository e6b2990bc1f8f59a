package sim

// Timeline is the world as one CPU of a node sees it: what package fiber needs of an event loop.
// It applies the node's pauses and crashes: while the CPU is paused, calls wait; those that a
// former life of the node scheduled never run.
type Timeline struct {
	node        *Node
	worker      int
	incarnation uint32
	board       *Board // whose core this is; nil: it is the host's CPU
}

// Timeline gives the event loop to a CPU of the node, in its present life. The index of the
// worker is that of PauseWorker.
func (n *Node) Timeline(worker int) *Timeline {
	return &Timeline{node: n, worker: worker, incarnation: n.incarnation}
}

// alive reports whether the life that the timeline belongs to goes on.
func (t *Timeline) alive() bool { return t.node.up && t.node.incarnation == t.incarnation }

// NowPs is the virtual time in picoseconds.
func (t *Timeline) NowPs() int64 { return int64(t.node.world.now) }

// AtPs has f called once at a time in picoseconds, or when the CPU is no longer paused.
func (t *Timeline) AtPs(at int64, f func()) {
	t.node.world.schedule(Time(at), event{kind: evCPU, cpu: t, call: f})
}

// run is the event of a call.
func (t *Timeline) run(f func()) {
	w := t.node.world
	if !t.alive() {
		return
	}
	ready := Time(0)
	if t.board != nil {
		ready = t.board.readyAt(t.worker)
	} else {
		ready = t.node.ReadyAt(t.worker)
	}
	if ready > w.now {
		w.schedule(ready, event{kind: evCPU, cpu: t, call: f})
		return
	}
	f()
}

// Step marks a named step of a protocol on this node; the name of who took it is not used.
func (t *Timeline) Step(_, name string) { t.node.world.step(t.node, t.worker, name) }

// PostCostPs is the CPU time of one doorbell with n requests, in picoseconds.
func (t *Timeline) PostCostPs(n int) int64 {
	if t.board != nil {
		return 0 // it has no queue pairs
	}
	c := &t.node.world.cost.CPU
	return int64(c.Doorbell + Time(n)*c.Post)
}

// MissCostPs is the time of n lines that no cache has and that are loaded together, in picoseconds.
func (t *Timeline) MissCostPs(n int) int64 {
	if t.board != nil {
		return 0
	}
	c := &t.node.world.cost.CPU
	return int64(Time((int64(n)+int64(c.Overlap)-1)/int64(c.Overlap)) * c.Memory)
}

// ThreadPs is the time that CPU work takes which takes ps on a core that nothing else uses, in picoseconds.
func (t *Timeline) ThreadPs(ps int64) int64 {
	if t.board != nil {
		return ps
	}
	return ps * int64(t.node.world.cost.CPU.Hardware) / 1000
}

// PassCostPs is the CPU time of one look at the queues, in picoseconds.
func (t *Timeline) PassCostPs() int64 {
	if t.board != nil {
		return int64(t.node.slow(t.node.world.cost.Cores.Pass))
	}
	return int64(t.node.world.cost.CPU.PollEmpty)
}

// PollCostPs is the CPU time of n completions, in picoseconds.
func (t *Timeline) PollCostPs(n int) int64 {
	if t.board != nil { // messages in packets
		return int64(t.node.slow(Time(n) * t.node.world.cost.Cores.Message))
	}
	return int64(Time(n) * t.node.world.cost.CPU.PollEntry)
}

// RPCCostPs is the CPU time of messages that an RPC layer sends and datagrams that it receives, in
// picoseconds.
func (t *Timeline) RPCCostPs(messages, datagrams int) int64 {
	if t.board != nil { // packets
		c := &t.node.world.cost.Cores
		return int64(t.node.slow(Time(messages)*c.Send + Time(datagrams)*c.Receive))
	}
	c := &t.node.world.cost.CPU
	return int64(Time(messages)*c.RPCSend + Time(datagrams)*c.RPCReceive)
}
