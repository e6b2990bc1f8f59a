package occ

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// State words that are the NIC's. Where NICs lock and there are no line words, a NIC's atomic and a CPU's store do not
// exclude each other: the NIC reads the word and writes it back a little later, also if a CAS fails, and what a CPU has
// stored between is lost (design decision 3). So transactions have the own node's NIC lock and unlock its records
// (back.go). Recovery locks by the CPU what is undecided in a shard that nobody reaches yet. What it unlocks in a shard
// that is served, the NIC does: the swap is noted, a task makes it, and who asked for it is told to ask again. Until it
// is made, no worker of the machine changes what is kept locked: the word in the record is that of its first keeper.

// swap is a change of the state word of an entry, which is locked by from. Only this machine unlocks such a word, so it
// may be tried again.
type swap struct {
	share    *share
	off      uint64
	from, to onesided.Word
}

// nicWords reports whether state words belong to NICs.
func (e *Engine) nicWords() bool { return !e.cpuLocks && !e.Worded() }

// shardOf is the shard of a replica here.
func (e *Engine) shardOf(s *share) (proto.ShardID, bool) {
	for i, x := range e.Env.Shares {
		if x == s {
			return proto.ShardID(i), true
		}
	}
	return 0, false
}

// nicReaches reports whether NICs may ask for records of a replica here: it is the shard's primary, which other nodes
// know of.
func (e *Engine) nicReaches(s *share) bool {
	if !e.nicWords() || e.view == nil || e.lacks(cpuUnlocks) {
		return false
	}
	shard, there := e.shardOf(s)
	return there && e.view.home[shard] == e.Env.Node && !e.view.restoring[shard]
}

// swapByNIC has the NIC change the state word of an entry that is locked.
func (e *Engine) swapByNIC(s *share, off uint64, to onesided.Word) {
	from := onesided.Word(onesided.StateOf(s.Memory, off))
	if from == to {
		return
	}
	e.swaps = append(e.swaps, swap{s, off, from, to})
	e.Env.Serving.Swapping(1)
	e.startSwaps()
}

// startSwaps has a task make the swaps that are noted.
func (e *Engine) startSwaps() {
	if e.swapping || len(e.swaps) == 0 {
		return
	}
	e.swapping = true
	if e.swapper != nil {
		e.Env.Worker.Restart(e.swapper)
		return
	}
	e.swapper = e.Env.Worker.Go("occ unlock", nil, func(f *fiber.Fiber) error {
		defer func() { e.swapping = false }()
		return e.makeSwaps(f)
	})
}

// makeSwaps makes the swaps that are noted, until none is left or the view is to change.
func (e *Engine) makeSwaps(f *fiber.Fiber) error {
	r := e.view.run(f)
	defer r.end()
	for len(e.swaps) > 0 && r.over() == nil {
		if e.swap(f, &e.swaps[0]) != nil {
			if f.Sleep(askPause) != nil {
				break
			}
			continue
		}
		e.swaps = e.swaps[1:]
		e.Env.Serving.Swapping(-1)
	}
	return f.Err()
}

// swap makes one; an error says that it may not have been made.
func (e *Engine) swap(f *fiber.Fiber, x *swap) error {
	shard, _ := e.shardOf(x.share)
	p := &e.Env.Peers[e.Env.Node]
	if p.Conn == nil || int(shard) >= len(p.Shares) || p.Shares[shard] == nil {
		return errAnswer
	}
	m := p.Shares[shard].Memory
	f.Step(stepFinish)
	_, err := p.Conn.CAS(f, m.Addr+x.off+layout.StateOffset, m.RKey, uint64(x.from), uint64(x.to))
	return err // whatever the word was: only this machine changes it from what it is locked by
}

// dropSwaps forgets swaps of shards that this node does not serve any more, and goes on with the others.
func (e *Engine) dropSwaps() {
	kept := e.swaps[:0]
	for _, x := range e.swaps {
		if shard, there := e.shardOf(x.share); there && e.view.home[shard] == e.Env.Node {
			kept = append(kept, x)
		} else {
			e.Env.Serving.Swapping(-1)
		}
	}
	e.swaps = kept
	e.startSwaps()
}

// swapping reports whether a worker of this machine has to wait for its NIC.
func (v *view) swapping() bool { return v.e.nicWords() && v.e.Env.Serving.Swaps() }

// awaitSwaps waits for the NIC.
func (r *run) awaitSwaps() error {
	for r.v.swapping() {
		if err := r.pause(); err != nil {
			return err
		}
	}
	return nil
}
