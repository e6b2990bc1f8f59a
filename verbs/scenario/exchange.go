package scenario

import (
	"fmt"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// Memory of the server in an exchange: the lock (0, or 1 + the index of who holds it), and on
// lines of their own the two words that a write changes.
const (
	lockAt    = 0
	firstAt   = verbs.LineBytes
	secondAt  = 2 * verbs.LineBytes
	lockBytes = 3 * verbs.LineBytes
	rounds    = 4 // of each client
	lockRetry = 5 * time.Microsecond
)

const (
	mutationNoRecovery  = "no-recovery"
	mutationUnlockFirst = "unlock-first"
)

// Marked steps of an exchange.
const (
	stepBeforeLock   = "exchange: before lock"
	stepAfterLock    = "exchange: after lock"
	stepAfterRead    = "exchange: after read"
	stepAfterFirst   = "exchange: after first write"
	stepAfterSecond  = "exchange: after second write"
	stepAfterUnlock  = "exchange: after unlock"
	stepBeforeRepair = "exchange: before repair"
)

// exchange is a lock, a read, a write and an unlock of words on another node, with every step
// marked. A client that crashed or lost its link finds its own lock, and repairs what it left.
func exchange() *Scenario {
	return &Scenario{Name: "exchange", Nodes: 2, MinNodes: 2, MaxNodes: 16,
		Doc:   "clients lock, read, write and unlock two words on node n0; every step is marked",
		Until: 4 * sim.Millisecond, EventLimit: 10e6,
		Steps: []string{stepBeforeLock, stepAfterLock, stepAfterRead, stepAfterFirst, stepAfterSecond,
			stepAfterUnlock, stepBeforeRepair},
		Mutations: []Mutation{
			{Name: mutationNoRecovery, Doc: "a client that finds its own lock takes it for taken just now"},
			{Name: mutationUnlockFirst, Doc: "the lock is released before the second word is written"}},
		Draw: func(d *Drawing) sim.Schedule {
			// Without faults the rounds of a client take some 50 us.
			return drawWithin(d, 6, 200*sim.Microsecond, 200*sim.Microsecond, []weight{
				{sim.CrashNode, 4}, {sim.BreakQPs, 2},
				{sim.CutLink, 2}, {sim.DelayRC, 2},
				{sim.PauseNode, 2}, {sim.PauseWorker, 1},
				{sim.SlowNIC, 1}})
		},
		Build: buildExchange}
}

// bank is what the checks know: both words are equal whenever nobody holds the lock, and count
// the rounds that were done.
type bank struct {
	e       *Env
	server  *Machine
	memory  *verbs.MR
	clients []*locker
}

// locker is a client's state that survives its crashes, as a log on its disk would.
type locker struct {
	*bank
	id       int
	finished int  // rounds
	locked   bool // it may hold the lock
	added    bool // its outcome is unknown: it was interrupted after its write began
	value    uint64
}

func buildExchange(e *Env) error {
	b := &bank{e: e}
	var err error
	b.server, err = e.AddMachine(MachineConfig{Conns: 1, Boot: func(m *Machine) (err error) {
		b.memory, err = m.Kept("bank", lockBytes)
		return err
	}})
	if err != nil {
		return err
	}
	for i := 1; i < e.Nodes; i++ {
		c := &locker{bank: b, id: i}
		b.clients = append(b.clients, c)
		_, err := e.AddMachine(MachineConfig{Conns: 1, Depth: 4, Boot: c.boot})
		if err != nil {
			return err
		}
	}
	e.AtEnd(b.check)
	return nil
}

func (c *locker) boot(m *Machine) error {
	buffer, err := m.Memory(lockBytes)
	if err != nil {
		return err
	}
	m.Go(0, "client", func(f *fiber.Fiber) error {
		link := m.NewLink(0, c.server)
		for c.finished < rounds || c.locked {
			conn, err := link.Conn(f)
			if err != nil {
				return err
			}
			if err := c.exchange(f, conn, buffer); err == ErrOver {
				return err
			} // after another error the next one repairs what this one left
		}
		return nil
	})
	return nil
}

// exchange does one round: both words become the old value plus one. The value is logged before
// it is written, so that a round which was interrupted is completed, not done again.
func (c *locker) exchange(f *fiber.Fiber, conn *fiber.Conn, buffer *verbs.MR) error {
	mine := uint64(c.id) + 1
	r := c.memory.Remote()
	if c.finished == rounds {
		return c.unlock(f, conn) // the last one may have left it
	}
	for {
		f.Step(stepBeforeLock)
		c.locked = true
		old, err := conn.CAS(f, r.Addr+lockAt, r.RKey, 0, mine)
		if err != nil {
			return err
		}
		if old == 0 {
			break
		}
		if old == mine && !c.e.Mutated(mutationNoRecovery) {
			return c.repair(f, conn, buffer)
		}
		if old == mine {
			c.added = false // the bug: what the interrupted round wrote is forgotten
			break
		}
		c.locked = false
		if c.e.Over() {
			return ErrOver
		}
		if err := f.Sleep(lockRetry); err != nil {
			return err
		}
	}
	f.Step(stepAfterLock)
	if c.added { // the lock was free: the interrupted round had unlocked
		c.finish()
		return c.unlock(f, conn)
	}
	if err := conn.Read(f, buffer.SGE(firstAt, 8), r.Addr+firstAt, r.RKey); err != nil {
		return err
	}
	if err := conn.Read(f, buffer.SGE(secondAt, 8), r.Addr+secondAt, r.RKey); err != nil {
		return err
	}
	if a, b := word(buffer, firstAt), word(buffer, secondAt); a != b {
		c.e.Fail("equal", "n%d holds the lock and reads %d and %d", c.id, a, b)
	}
	c.value, c.added = word(buffer, firstAt)+1, true
	f.Step(stepAfterRead)
	return c.write(f, conn, buffer)
}

// write writes both words and unlocks.
func (c *locker) write(f *fiber.Fiber, conn *fiber.Conn, buffer *verbs.MR) error {
	r := c.memory.Remote()
	setWord(buffer, firstAt, c.value)
	setWord(buffer, secondAt, c.value)
	if err := conn.Write(f, buffer.SGE(firstAt, 8), r.Addr+firstAt, r.RKey); err != nil {
		return err
	}
	f.Step(stepAfterFirst)
	if c.e.Mutated(mutationUnlockFirst) {
		if err := c.unlock(f, conn); err != nil {
			return err
		}
		f.Step(stepAfterUnlock)
	}
	if err := conn.Write(f, buffer.SGE(secondAt, 8), r.Addr+secondAt, r.RKey); err != nil {
		return err
	}
	f.Step(stepAfterSecond)
	if c.e.Mutated(mutationUnlockFirst) {
		c.finish()
		return nil
	}
	if err := c.unlock(f, conn); err != nil {
		return err
	}
	f.Step(stepAfterUnlock)
	c.finish()
	return nil
}

func (c *locker) finish() {
	if c.added {
		c.finished++
		c.added = false
	}
}

// repair completes a round that was interrupted while it held the lock.
func (c *locker) repair(f *fiber.Fiber, conn *fiber.Conn, buffer *verbs.MR) error {
	f.Step(stepBeforeRepair)
	if !c.added { // nothing was written yet
		return c.unlock(f, conn)
	}
	return c.write(f, conn, buffer)
}

func (c *locker) unlock(f *fiber.Fiber, conn *fiber.Conn) error {
	r := c.memory.Remote()
	mine := uint64(c.id) + 1
	old, err := conn.CAS(f, r.Addr+lockAt, r.RKey, mine, 0)
	if err != nil {
		return err
	}
	if old != mine && c.finished < rounds {
		c.e.Fail("lock", "n%d unlocks, and %s", c.id, holder(old))
	}
	c.locked = false
	return nil
}

func holder(lock uint64) string {
	if lock == 0 {
		return "nobody holds the lock"
	}
	return fmt.Sprintf("n%d holds the lock", lock-1)
}

// check: every client that is up has done its rounds, unless the run was over before; the lock
// is free, unless its holder is down or out of time; both words count the rounds.
func (b *bank) check() {
	least, most := uint64(0), uint64(0)
	for _, c := range b.clients {
		least += uint64(c.finished)
		most += uint64(c.finished)
		if c.added {
			most++
		}
	}
	b.e.Count("rounds", least)
	if !b.server.Node.Up() {
		return
	}
	first, second := word(b.memory, firstAt), word(b.memory, secondAt)
	lock := word(b.memory, lockAt)
	switch {
	case first < least || first > most:
		b.e.Fail("rounds", "the first word is %d, and %d to %d rounds were done", first, least, most)
	case lock == 0 && first != second:
		b.e.Fail("equal", "nobody holds the lock, and the words are %d and %d", first, second)
	}
	if lock != 0 {
		if c := b.clients[lock-2]; c.finished == rounds {
			b.e.Fail("lock", "%s, which has done its rounds", holder(lock))
		}
	}
}
