package scenario

import (
	"time"

	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// meets is a load of registers in which each client has a role, so that a repair of a transaction that lives meets
// its abort or commit, and what comes after that. By number of the client:
//
//	0 reads register 0, with a clock that is ahead: every lock has expired for it, and it pauses in repairs
//	1 updates register 0, and reads register 1: its updates without log often abort
//	2 updates register 1
//	3 updates registers 0 and 2: what a late repair does to its commit, nobody repeats
type meets struct{ registers }

const meetRoles = 4

func (meets) reads(int) bool { return false }

func (meets) program(k *repairClient, kind int, t *history.Txn) func(*rtx.Tx) error {
	return func(tx *rtx.Tx) error {
		read, write := [][]int{{0}, {1}, nil, nil}[k.owner%meetRoles], [][]int{nil, {0}, {1}, {0, 2}}[k.owner%meetRoles]
		for _, i := range read {
			if _, err := k.register(tx, t, i); err != nil {
				return err
			}
		}
		for _, i := range write {
			if err := k.change(tx, t, i); err != nil {
				return err
			}
		}
		return nil
	}
}

// meetings is the scenario of these roles.
func meetings() *scenario.Scenario {
	s := repairs("repairs-meet", "repairable transactions in roles, so that late repairs meet aborts and commits", false,
		meets{})
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
