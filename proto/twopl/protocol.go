package twopl

import (
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
)

// Protocol describes two-phase locking with all locks over verbs.
func Protocol() protocol.Protocol {
	return protocol.Protocol{Name: "twopl",
		Doc:     "no-wait two-phase locking over verbs, local records by loopback (DrTM §7.3)",
		Needs:   protocol.Needs{Grows: true, Scans: true},
		Options: option.List{protocol.OrphanAfter()},
		Offers:  proto.OfferDebts | proto.OfferOrphans,
		Simulation: protocol.Simulation{Atomics: true, Steps: protocol.Steps{All: Steps(),
			Held: []string{stepLocked, stepCommit, stepWritten, stepCommitted, stepFinish}}},
		Mutations: Mutations().List(""),
		Holder:    onesided.HolderOf,
		New:       func(e *protocol.Env) (proto.Engine, error) { return newEngine(e, false) }}
}

// LocalProtocol describes the variant that locks local records by the CPU.
func LocalProtocol() protocol.Protocol {
	p := Protocol()
	p.Name, p.Family = "twopl-local", p.Name
	p.Doc = "the same, but local records are locked by the CPU where the device allows it"
	p.New = func(e *protocol.Env) (proto.Engine, error) { return newEngine(e, true) }
	return p
}

func newEngine(e *protocol.Env, cpuLocks bool) (proto.Engine, error) {
	return protocol.Engine(New(e, cpuLocks))
}

// Steps are the steps that an engine marks for the simulator's nemesis.
func Steps() []string {
	return []string{stepLocate, stepLock, stepLocked, stepCommit, stepWritten, stepCommitted,
		stepAbort, stepReleased, stepFinish}
}
