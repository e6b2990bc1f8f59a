package scenario

import (
	"time"

	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// roles are loads of registers in which each client has a role: by its number modulo their number, the registers that its
// transactions read, and those that they update.
type roles struct {
	registers
	read, update [][]int
	// rest bounds the pause before each transaction; nil: there is none.
	rest []time.Duration
}

func (roles) reads(int) bool { return false }

func (x roles) program(k *repairClient, kind int, t *history.Txn) func(*rtx.Tx) error {
	role := k.owner % len(x.update)
	return func(tx *rtx.Tx) error {
		if x.rest != nil && x.rest[role] > 0 {
			if err := tx.Fiber().Sleep(time.Duration(k.rand.Int64N(int64(x.rest[role])))); err != nil {
				return err
			}
		}
		for _, i := range x.read[role] {
			if _, err := k.register(tx, t, i); err != nil {
				return err
			}
		}
		for _, i := range x.update[role] {
			if err := k.change(tx, t, i); err != nil {
				return err
			}
		}
		return nil
	}
}

// meets has roles in which a repair of a transaction that lives meets its abort or commit, and what comes after that.
// By number of the client:
//
//	0 reads register 0, with a clock that is ahead: every lock has expired for it, and it pauses in repairs
//	1 updates register 0, and reads register 1: its updates without log often abort
//	2 updates register 1
//	3 updates registers 0 and 2: what a late repair does to its commit, nobody repeats
func meets() roles {
	return roles{read: [][]int{{0}, {1}, nil, nil}, update: [][]int{nil, {0}, {1}, {0, 2}}}
}

const meetRoles = 4

// repeats has roles in which a repair of an attempt that it has aborted meets the next attempt of the same owner, on the
// same registers. By number of the client:
//
//	0 reads register 1, with a clock that is ahead, and pauses when it has read a log
//	1 updates register 0 now and then: it takes what is unlocked too early
//	2 updates registers 0 and 1: it pauses with locks, before and after its log is DOING
func repeats() roles {
	return roles{read: [][]int{{1}, nil, nil}, update: [][]int{nil, {0}, {0, 1}},
		rest: []time.Duration{0, 60 * time.Microsecond, 0}}
}

const repeatRoles = 3

// meetings is the scenario of these roles.
func meetings() *scenario.Scenario {
	s := repairs("repairs-meet", "repairable transactions in roles, so that late repairs meet aborts and commits", false,
		meets())
	s.Nodes, s.MinNodes, s.Fibers = meetRoles+2, meetRoles+2, 1
	s.Dimensions = []scenario.Dimension{s.Dimensions[0]} // the phases
	s.Draw = func(d *scenario.Drawing) sim.Schedule {
		ahead := 40*time.Microsecond + time.Duration(d.Rand.Int64N(int64(100*time.Microsecond)))
		list := sim.Schedule{{Kind: sim.StepClock, At: 1, Node: d.Nodes[1], Shift: ahead}}
		steps := rtx.StepsOfRepairs()
		for range 60 {
			long := 300 * sim.Microsecond >> d.Rand.IntN(7)
			list = append(list, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep, Node: d.Nodes[1],
				Step: steps[d.Rand.IntN(len(steps))], Count: 1 + d.Rand.IntN(60), For: upTo(d.Rand, long)})
		}
		for range 30 { // the one whose commit nobody repeats stops in the middle
			held := rtx.StepsWithLocks()
			list = append(list, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep, Node: d.Nodes[meetRoles],
				Step: held[d.Rand.IntN(len(held))], Count: 1 + d.Rand.IntN(60), For: upTo(d.Rand, 40*sim.Microsecond)})
		}
		for range d.Rand.IntN(12) {
			list = append(list, sim.Fault{Kind: sim.DelayRC, At: upTo(d.Rand, d.Until), From: d.Nodes[1], To: d.Nodes[0],
				By: upTo(d.Rand, 100*sim.Microsecond), Times: 1 + d.Rand.IntN(3)})
		}
		return list
	}
	return s
}

// repetitions is the scenario of an owner's attempts that follow each other.
func repetitions() *scenario.Scenario {
	s := repairs("repairs-repeat", "repairable transactions in roles, so that a late repair of one attempt meets the next one",
		false, repeats())
	s.Nodes, s.MinNodes, s.Fibers = repeatRoles+2, repeatRoles+2, 1
	s.Dimensions = []scenario.Dimension{s.Dimensions[0]} // the phases
	s.Draw = func(d *scenario.Drawing) sim.Schedule {
		// Leases of 40 us are over for it, and those of the mutation that rounds them up to 128 us.
		ahead := 200*time.Microsecond + time.Duration(d.Rand.Int64N(int64(100*time.Microsecond)))
		list := sim.Schedule{{Kind: sim.StepClock, At: 1, Node: d.Nodes[1], Shift: ahead}}
		for _, step := range rtx.StepsOfAbortedLogs() {
			for count := range 60 {
				if d.Rand.IntN(2) == 0 {
					list = append(list, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep, Step: step,
						Count: 1 + count, For: upTo(d.Rand, 40*sim.Microsecond>>d.Rand.IntN(3))})
				}
			}
		}
		return list
	}
	return s
}
