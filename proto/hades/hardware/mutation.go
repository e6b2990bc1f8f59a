package hardware

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks find it. The zero value is none.
type Mutation uint8

// Mutations.
const (
	ReadBeforeInsert Mutation = iota + 1
	RemoteReadsNotProbed
	LocalNotProbed
	WritesNotProbed
	NoLockAtReader
	FullLinesUnlocked
	LateSquashHonoured
	SquashIgnored
	AckBeforeProbe
	ProbeAfterLock
	TagsClearedEarly
	SpeculativeVisible
	UnlockBeforeUpdate
	AnothersBitsCleared
	WrongHash
	LocalLockMissing
	LocalReadsUnlocked
	RemoteNotProbed
	ValidatedBeforeAcks
	WritesNotValidated
	VersionNotAdvanced
	ValidatedInPrivateCache
	AckBeforePersist
	AckMissing
	ValidationForgotten
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "correct hardware"},
	ReadBeforeInsert: {Name: "read-data-before-filter-insert",
		Doc: "lines for another node are read, then inserted into the transaction's filter"},
	RemoteReadsNotProbed: {Name: "remote-read-filter-not-probed-at-local-commit",
		Doc: "a commit does not compare its local lines with the read filters of remote transactions"},
	LocalNotProbed: {Name: "local-filters-not-probed-at-remote",
		Doc: "an Intend-to-commit is not compared with the filters of local transactions"},
	WritesNotProbed: {Name: "write-write-not-probed",
		Doc: "commits are not compared with the write filters of remote transactions"},
	NoLockAtReader: {Name: "directory-lock-skipped-at-read-only-node",
		Doc: "a node of which a transaction has only read does not lock its directory"},
	FullLinesUnlocked: {Name: "full-lines-missing-in-lock",
		Doc: "lines that are written as a whole do not join the filter that locks"},
	LateSquashHonoured: {Name: "squash-honoured-after-validation",
		Doc: "a transaction that has committed is squashed",
		Equivalent: "a Squash for it precedes the last Ack: after the lock at a node, a commit that meets its filters " +
			"is not granted there"},
	SquashIgnored: {Name: "squash-ignored-before-the-last-ack",
		Doc: "a transaction that waits for Acks ignores a Squash"},
	AckBeforeProbe: {Name: "ack-before-probe",
		Doc: "an Intend-to-commit is acknowledged, then compared with the filters"},
	ProbeAfterLock: {Name: "probe-after-lock",
		Doc: "other messages come between the lock of an Intend-to-commit and its comparison"},
	TagsClearedEarly: {Name: "tags-cleared-before-acks",
		Doc: "local lines are everyone's before all Acks are there"},
	SpeculativeVisible: {Name: "speculative-line-visible-to-remote-read",
		Doc: "another node reads what a local transaction has written and not committed"},
	UnlockBeforeUpdate: {Name: "unlock-before-updates-pushed",
		Doc: "a Validation unlocks the directory, then updates memory"},
	AnothersBitsCleared: {Name: "another-filters-bits-cleared",
		Doc: "the end of a remote transaction clears the filters of the next one, too"},
	WrongHash: {Name: "wrong-hash-at-one-side",
		Doc: "lines are inserted into read filters of the NIC by another hash than that of the comparison"},
	LocalLockMissing: {Name: "local-lock-missing",
		Doc: "HADES-H: a commit does not lock the directory of its own node"},
	LocalReadsUnlocked: {Name: "local-filters-without-reads",
		Doc: "HADES-H: what a commit has only read of its own node is not locked",
		Equivalent: "the validation reads the versions again and is squashed by an update on its way; the lock only spares " +
			"it that"},
	RemoteNotProbed: {Name: "remote-filters-not-probed-at-local-commit",
		Doc: "HADES-H: a commit does not compare its local records with the filters of remote transactions"},
	ValidatedBeforeAcks: {Name: "local-validation-before-acks",
		Doc: "HADES-H: local records are validated when the commit begins, not after the Acks"},
	WritesNotValidated: {Name: "write-set-not-validated",
		Doc: "HADES-H: local records that are written are not validated"},
	VersionNotAdvanced: {Name: "header-not-advanced-by-remote-write",
		Doc: "HADES-H: a transaction of another node leaves the version of a record that it writes"},
	ValidatedInPrivateCache: {Name: "local-validation-in-private-cache",
		Doc: "HADES-H: validation reads a version without asking the Locking Buffers"},
	AckBeforePersist: {Name: "ack-before-persist",
		Doc: "a replica says that it keeps a record, and does not"},
	AckMissing: {Name: "commit-with-one-ack-missing",
		Doc: "a transaction with replicas has them persist when all Acks but one are there"},
	ValidationForgotten: {Name: "validation-lost-and-forgotten",
		Doc: "when the members change, nobody makes good a Validation that was lost with a node"},
}

// In reports whether nodes of HADES, or of HADES-H, have the step that is left out.
func (m Mutation) In(hybrid bool) bool {
	switch m {
	case TagsClearedEarly, LocalNotProbed, SpeculativeVisible:
		return !hybrid
	case LocalLockMissing, LocalReadsUnlocked, ValidatedBeforeAcks, WritesNotValidated, VersionNotAdvanced,
		ValidatedInPrivateCache:
		return hybrid
	}
	return true
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

func (n *Node) lacks(m Mutation) bool { return n.cfg.Mutation == m }
