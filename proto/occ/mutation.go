package occ

import "fmt"

// mutation is a deliberate bug, for tests that show that the checker or an invariant finds it. Each
// leaves out one step that the safety of the protocol rests on; docs/SIM.md tells how to add one.
type mutation uint8

// Mutations. 0 is the protocol as it should be.
const (
	// The phases (tx.go, commit.go).
	noValidate mutation = iota + 1
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

// description of a mutation.
type description struct{ name, doc, equivalent string }

var mutations = [mutationEnd]description{
	{name: "none", doc: "the protocol as it should be"},

	noValidate: {name: "no-validate", doc: "what was read is not compared with what is there at the commit"},
	lockUnseen: {name: "validate-ignores-lock", doc: "validation compares versions, whoever has a record locked"},
	anyVersion: {name: "lock-ignores-version", doc: "a record that was read is locked at whatever version it has"},
	absentUnvalidated: {name: "absent-read-unvalidated",
		doc: "what was not there is not looked for again at the commit"},
	rollbackUnvalidated: {name: "rollback-unvalidated",
		doc: "a transaction that rolls back does not validate what its program saw"},
	forgottenNode: {name: "abort-forgets-one-node",
		doc: "an attempt without effect leaves its locks at the first other node"},

	unlockFirst: {name: "unlock-before-value", doc: "a record is unlocked, then written"},
	sameVersion: {name: "version-not-raised", doc: "a write does not raise the record's version"},
	valueFirst:  {name: "value-read-before-lock", doc: "EXECUTE copies a value, then locks its record"},
	newerVersion: {name: "version-newer-than-the-value-returned",
		doc: "EXECUTE gives the version that a record has after its value was copied"},
	lockTwice: {name: "lock-granted-twice-to-retry",
		doc: "a request that was answered and comes again is executed again"},

	noDebt:       {name: "no-debt", doc: "a lock that could not be given back is forgotten"},
	noDebtUpdate: {name: "no-debt-update", doc: "a lock that could not be given back is owed without its update"},
	noNewWord:    {name: "no-new-word", doc: "a transaction that owes a lock passes its lock word on"},
}

func (m mutation) String() string {
	if m < mutationEnd {
		return mutations[m].name
	}
	return fmt.Sprintf("mutation(%d)", uint8(m))
}

// Doc is one line on what is wrong.
func (m mutation) Doc() string { return mutations[m].doc }

// Equivalent says why no check can find it; "" is one that checks must find.
func (m mutation) Equivalent() string { return mutations[m].equivalent }

// allMutations are all there are.
func allMutations() (all []mutation) {
	for m := mutation(1); m < mutationEnd; m++ {
		all = append(all, m)
	}
	return all
}

// lacks reports whether a step is left out.
func (e *Engine) lacks(m mutation) bool { return e.mutation == m }
