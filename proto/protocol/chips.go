package protocol

import (
	"fmt"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/smartnic"
)

// Chips says how the hardware of a protocol is made that exists as a model only.
type Chips struct {
	// Check refuses sizes and options in words.
	Check func(s Sizes, o option.Values) error
	// Roles are those of each worker of a member, and how many cores its NIC has, with sizes and options that Check
	// takes; nil: every worker runs transactions, and reports say nothing of roles.
	Roles func(s Sizes, o option.Values) (workers []Roles, cores int)
	// New makes the chips of a member, once for all its workers. Env.Chips is what it returns, of all members.
	New func(e *ChipEnv) (any, error)
	// Cores: the chips are NICs with cores (smartnic.Board), and not NICs that carry one program.
	Cores bool
	// Preset is the cost model of the simulator if nobody names one; "": the simulator's default. One with cores, if
	// Cores.
	Preset string
}

// Sizes of a cluster.
type Sizes struct{ Nodes, Workers, Fibers int }

// ChipEnv is what the chips of a member are made from.
type ChipEnv struct {
	Sizes
	Node proto.NodeID
	// First is the member's first worker; its tables are those of the member.
	First *Env
	// Attach gives the chips the member's NIC, which hands messages to the Receiver.
	Attach func(smartnic.Receiver) (smartnic.NIC, error)
	// Board gives the chips the cores of the member's NIC.
	Board func() (Board, error)
	// PD is the member's.
	PD *verbs.PD
	// Step marks a step that the chips take by themselves, for the simulator's faults; nil: nobody wants to know.
	Step func(name string)
}

// Board is a NIC with cores.
type Board struct {
	smartnic.Board
	// NewWorker makes the worker of a core, which the member closes.
	NewWorker func(core int, cfg fiber.WorkerConfig) (*fiber.Worker, error)
	// Register tells it of memory of the host that DMA may access, beside that of tables; nil: it knows all.
	Register func(*verbs.MR)
	// Again is a deliberate bug: a packet that comes twice is taken twice. nil: none comes twice.
	Again func()
	// Played: a worker of the member plays the NIC, which is then an emulation (package node).
	Played bool
}

// CheckChips refuses a machine without the chips that the protocol needs: attach says whether its NIC carries a program,
// and board whether it has cores.
func (p *Protocol) CheckChips(device string, attach, board bool) error {
	if p.Chips == nil || attach && !p.Chips.Cores || board && p.Chips.Cores {
		return nil
	}
	return fmt.Errorf("%w: protocol %s runs on caches and NICs that exist as a model only, and device %s has none: use "+
		"the simulator", ErrNeeds, p.Name, device)
}
