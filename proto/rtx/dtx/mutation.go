package dtx

import "drtmd/internal/mutation"

// bug is a deliberate one.
type bug uint8

const (
	bugNone bug = iota
	bugNoValidation
	bugLockAfterWrite
	bugNotRedone
	bugNotUndone
	bugLogLate
	bugFreshLate
)

var bugs = mutation.Table[bug]{
	{Name: "none", Doc: "correct"},
	bugNoValidation:   {Name: "no-version-validation", Doc: "the validation looks at locks only"},
	bugLockAfterWrite: {Name: "unlock-before-values", Doc: "objects are unlocked before their values are written"},
	bugNotRedone:      {Name: "decided-not-redone", Doc: "a repair unlocks what a dead client had decided to write, and leaves the rest"},
	bugNotUndone:      {Name: "undecided-not-unlocked", Doc: "a repair leaves the locks of a transaction that was not decided"},
	bugFreshLate:      {Name: "new-objects-after-decision", Doc: "objects that are made under the locks are written when the commit is decided already"},
	bugLogLate:        {Name: "log-of-before", Doc: "the log keeps what the transaction before has updated"},
}

// Mutations lists the deliberate bugs.
func Mutations() []mutation.Mutation { return bugs.List("dtx") }
