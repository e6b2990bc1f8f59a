package occ

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checker or an invariant finds it. Each
// leaves out one step that the safety of the protocol rests on; docs/SIM.md tells how to add one.
type Mutation uint8

// Mutations. 0 is the protocol as it should be.
const (
	// The phases (tx.go, commit.go).
	noValidate Mutation = iota + 1
	lockUnseen
	anyVersion
	absentUnvalidated
	rollbackUnvalidated
	forgottenNode
	// The host (memory.go, host.go).
	unlockFirst
	sameVersion
	valueFirst
	newerVersion
	lockTwice
	// What is owed (commit.go).
	noDebt
	noDebtUpdate
	noNewWord
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "the protocol as it should be"},

	noValidate: {Name: "no-validate", Doc: "what was read is not compared with what is there at the commit"},
	lockUnseen: {Name: "validate-ignores-lock", Doc: "validation compares versions, whoever has a record locked"},
	anyVersion: {Name: "lock-ignores-version", Doc: "a record that was read is locked at whatever version it has"},
	absentUnvalidated: {Name: "absent-read-unvalidated",
		Doc: "what was not there is not looked for again at the commit"},
	rollbackUnvalidated: {Name: "rollback-unvalidated",
		Doc: "a transaction that rolls back does not validate what its program saw"},
	forgottenNode: {Name: "abort-forgets-one-node",
		Doc: "an attempt without effect leaves its locks at the first other node"},

	unlockFirst: {Name: "unlock-before-value", Doc: "a record is unlocked, then written"},
	sameVersion: {Name: "version-not-raised", Doc: "a write does not raise the record's version"},
	valueFirst:  {Name: "value-read-before-lock", Doc: "EXECUTE copies a value, then locks its record"},
	newerVersion: {Name: "version-newer-than-the-value-returned",
		Doc: "EXECUTE gives the version that a record has after its value was copied"},
	lockTwice: {Name: "lock-granted-twice-to-retry",
		Doc: "a request that was answered and comes again is executed again"},

	noDebt:       {Name: "no-debt", Doc: "a lock that could not be given back is forgotten"},
	noDebtUpdate: {Name: "no-debt-update", Doc: "a lock that could not be given back is owed without its update"},
	noNewWord:    {Name: "no-new-word", Doc: "a transaction that owes a lock passes its lock word on"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (e *Engine) lacks(m Mutation) bool { return e.mutation == m }
