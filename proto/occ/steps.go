package occ

import (
	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/protocol"
)

// Marked steps.
const (
	stepExecute   = "occ: before execute"
	stepFound     = "occ: record found, not locked yet" // of the own node
	stepLine      = "occ: line copied"                  // of a record of the own node
	stepLookup    = "occ: before lookup"
	stepEnsure    = "occ: before ensure"
	stepExecuted  = "occ: after execute"
	stepLock      = "occ: before lock"
	stepLocked    = "occ: after lock"
	stepValidate  = "occ: before validate"
	stepValidated = "occ: after validate"
	stepLog       = "occ: before log"
	stepLogged    = "occ: after log"
	stepTruncate  = "occ: before truncate"
	stepCommit    = "occ: before commit"
	stepValue     = "occ: part of a value written" // of the own node
	stepWritten   = "occ: record written"          // of the own node; not unlocked yet, unless by the same store
	stepCommitted = "occ: after commit"
	stepAbort     = "occ: before release"
	stepReleased  = "occ: after release" // of an attempt without effect
	stepFinish    = "occ: before finish"
	// Of recovery.
	stepRecover  = "occ: view taken into use"
	stepRestored = "occ: before a promoted shard is recovered"
	stepDecide   = "occ: before a decision"
	stepStage    = "occ: before a stage of a decision"
	stepFill     = "occ: before records are copied"
)

// steps that engines mark for the simulator.
func (s *Strategy) steps() protocol.Steps {
	all := []string{stepExecute, stepFound, stepLine, stepExecuted, stepLock, stepLocked, stepValidate,
		stepValidated, stepCommit, stepValue, stepWritten, stepCommitted, stepAbort, stepReleased,
		stepFinish}
	if s.uses(OneSided, proto.PhaseExecute, proto.PhaseLock, proto.PhaseValidate) {
		all = append(all, stepLookup)
	}
	if s.uses(OneSided, proto.PhaseLock) {
		all = append(all, stepEnsure)
	}
	steps := protocol.Steps{All: all, Logged: []string{stepLog, stepLogged, stepTruncate},
		Recovering: []string{stepRecover, stepRestored, stepDecide, stepStage, stepFill},
		Critical:   []string{stepExecuted, stepLocked, stepValidated, stepCommit, stepWritten},
		Fine:       []string{stepFound, stepLine, stepValue, stepWritten, stepValidate, stepExecuted},
		Held: []string{stepExecuted, stepLocked, stepValidate, stepValidated, stepCommit, stepWritten,
			stepAbort, stepFinish}}
	if s.Regions {
		steps.Inner = []string{htm.StepListed, htm.StepLocked, htm.StepCommitted, htm.StepStored,
			htm.StepPublished}
		steps.All = append(append(steps.All, steps.Inner...), htm.StepValidated)
		steps.Fine = append(steps.Fine, htm.StepLocked, htm.StepPublished)
	}
	return steps
}
