package drtm

import (
	"fmt"

	"drtmd/proto/onesided"
)

// Mutation is a deliberate bug, for tests that show that the checker or an invariant finds it. Each
// leaves out one step that the safety of the protocol rests on, at a point of points.go or at one of
// package onesided; docs/SIM.md tells how to add one.
type Mutation uint8

// Mutations. 0 is the protocol as it should be.
const (
	// START and what it finds (remote.go, package onesided).
	NoLockTaken Mutation = iota + 1
	NoLockSeen
	NoLeaseSeen
	NoExpiryOfHint
	UnsureForgotten
	NoJoinedEnd
	LastEnd
	NoReadError
	NoIncarnationCheck
	NoStateBehindCAS
	NoValidInStart
	KeepStale
	// Leases and tickets (state.go).
	NoDeltaInValid
	NoDeltaInExpired
	NoRounding
	SoftTimeInValid
	SameTicket
	// LocalTX (local.go).
	NoStateCheck
	NoStateCheckRead
	NoLeaseCheckLocal
	NoKeyCheckLocal
	NoSecondLookLocal
	AbsenceOutsideRegion
	AbsenceWithoutEntry
	// COMMIT (transaction.go, package onesided).
	NoConfirm
	ConfirmBeforeLock
	NoConfirmRemote
	NoRollbackCheck
	NoReadOnlyRollbackCheck
	UnlockBeforeWriteBack
	UnlockByWrite
	AbortKeepsLocks
	NoDebt
	NoDebtUpdate
	DebtUnlooked
	NoSpent
	// Read-only transactions (readonly.go).
	NoSecondRound
	NoVersionInRounds
	NoLockInRounds
	NoKeyInRounds
	NoLockInFirstRound
	NoKeyCheckRounds
	NoSecondLookRounds
	AbsenceOutsideRounds
	AbsenceWithoutLease
	NoConfirmRounds
	// The fallback handler (fallback.go).
	NoConfirmFallback
	NoOrder
	// Commit without line words (hca.go).
	HCANoLock
	HCALockUnjudged
	HCAUnsureForgotten
	HCANoValidate
	HCANoVersionInValidate
	HCANoLockInValidate
	HCANoKeyInValidate
	HCANoDebt
	// Entries that are given back (spare.go).
	ReclaimLeased
	ReclaimLocked
	ReclaimUnlocked
	ReclaimUnjudged
	ReclaimNoDebt
	NoGrace
	// Peek (package onesided).
	PeekNoSecondLook
	PeekNoLock
	PeekNoKeyCheck
	mutationEnd
)

// mutation describes one.
type mutation struct {
	name, doc string
	// equivalent says why no check can find it.
	equivalent string
	skip       onesided.Skip // the step of package onesided that is left out
}

var mutations = [mutationEnd]mutation{
	0: {name: "none", doc: "the protocol as it should be"},

	NoLockTaken: {name: "no-lock-taken", doc: "START takes a CAS for successful, whatever it has found"},
	NoLockSeen:  {name: "no-lock-seen", doc: "START takes over a record that another has locked"},
	NoLeaseSeen: {name: "no-lease-seen", doc: "START locks a record on which a lease runs"},
	NoExpiryOfHint: {name: "no-expiry-of-hint",
		doc: "START expects the state that was seen last though a lease in it may run"},
	UnsureForgotten: {skip: onesided.OwnerOfUnsure, name: "unsure-forgotten", doc: "a CAS that failed with its queue pair is taken for not made"},
	NoJoinedEnd:     {name: "no-joined-end", doc: "a lease that was joined is used until the end that START wanted"},
	LastEnd:         {name: "last-end", doc: "the common end of the leases is that of the last one, not the earliest"},
	NoReadError: {skip: onesided.ReadDone, name: "no-read-error", doc: "the READ behind the CAS is taken for made, whatever became of it",
		equivalent: "what the buffer held before has another state word, or the same lease, under which " +
			"nothing was written"},
	NoIncarnationCheck: {skip: onesided.KeyCheck, name: "no-incarnation-check",
		doc: "a location is trusted whatever key and version its entry has"},
	NoStateBehindCAS: {skip: onesided.StateCheck, name: "no-state-behind-cas", doc: "the state that the READ behind the CAS shows is not looked at"},
	NoValidInStart: {name: "no-valid-in-start", doc: "START does not look whether its leases are valid still",
		equivalent: "the commit and the rollback confirm them again"},
	KeepStale: {skip: onesided.DropStale, name: "keep-stale", doc: "a place that went out of date stays in the location cache",
		equivalent: "it only costs attempts: each of them finds that the place is another key's"},

	NoDeltaInValid:   {name: "no-delta-in-valid", doc: "VALID takes the clocks for exact"},
	NoDeltaInExpired: {name: "no-delta-in-expired", doc: "EXPIRED takes the clocks for exact"},
	NoRounding:       {name: "no-rounding", doc: "a lease is used to its end before it was rounded down"},
	SoftTimeInValid:  {name: "softtime-in-valid", doc: "VALID reads softtime, not the clock"},
	SameTicket:       {name: "same-ticket", doc: "all locks of a machine have the same state word, in all its lives"},

	NoStateCheck:      {name: "no-state-check", doc: "LOCAL_WRITE does not look at the state of the record"},
	NoStateCheckRead:  {name: "no-state-check-read", doc: "LOCAL_READ does not look at the record's lock"},
	NoLeaseCheckLocal: {name: "no-lease-check-local", doc: "LOCAL_WRITE does not look at the record's lease"},
	NoKeyCheckLocal:   {name: "no-key-check-local", doc: "LOCAL_READ takes whatever entry it finds for the key's"},
	NoSecondLookLocal: {name: "no-second-look-local",
		doc: "without line words, a copy in a region is not compared with a second look",
		equivalent: "commit and rollback validate the version again: only what the program sees in an " +
			"attempt that is going to abort differs"},
	AbsenceOutsideRegion: {name: "absence-outside-region",
		doc: "the absence of a record is found out outside of the region"},
	AbsenceWithoutEntry: {name: "absence-without-entry",
		doc: "without line words, an absence is believed without an entry that says so"},

	NoConfirm:         {name: "no-confirm", doc: "leases are not confirmed"},
	ConfirmBeforeLock: {name: "confirm-before-lock", doc: "leases are confirmed before the region's lines are locked, as printed"},
	NoConfirmRemote: {name: "no-confirm-remote", doc: "a transaction without local records does not confirm its leases",
		equivalent: "START has looked with everything locked or leased: that is a point at which the " +
			"transaction can take place"},
	NoRollbackCheck: {name: "no-rollback-check", doc: "a rollback does not look whether what it saw is valid"},
	NoReadOnlyRollbackCheck: {name: "no-read-only-rollback-check",
		doc: "the same for the rollback of a read-only transaction"},
	UnlockBeforeWriteBack: {skip: onesided.WriteFirst, name: "unlock-before-write-back", doc: "remote records are unlocked, then written"},
	UnlockByWrite:         {skip: onesided.UnlockByCAS, name: "unlock-by-write", doc: "locks are given back by a WRITE of the header as it was read"},
	AbortKeepsLocks:       {name: "abort-keeps-locks", doc: "an abort does not give its locks back"},
	NoDebt:                {skip: onesided.Debt, name: "no-debt", doc: "a lock that could not be given back is forgotten"},
	NoDebtUpdate:          {skip: onesided.DebtUpdate, name: "no-debt-update", doc: "a lock that could not be given back is owed without its update"},
	DebtUnlooked:          {skip: onesided.DebtLook, name: "debt-unlooked", doc: "a debt is paid without a look whether the lock is there still"},
	NoSpent: {skip: onesided.SpentCheck, name: "no-spent", doc: "a key whose incarnations are used up is inserted again",
		equivalent: "no run makes 2^31 insertions of a key; a test of package store does as if"},

	NoSecondRound:     {name: "no-second-round", doc: "a read-only transaction reads its local records once"},
	NoVersionInRounds: {name: "no-version-in-rounds", doc: "the second round does not look at the version"},
	NoLockInRounds:    {name: "no-lock-in-rounds", doc: "the second round does not look at the lock"},
	NoKeyInRounds: {name: "no-key-in-rounds", doc: "the second round does not look at the key",
		equivalent: "an entry that was given to another key has a version that it never had before"},
	NoLockInFirstRound: {name: "no-lock-in-first-round", doc: "the first round does not look at the lock"},
	NoKeyCheckRounds:   {name: "no-key-check-rounds", doc: "the first round takes whatever entry it finds for the key's"},
	NoSecondLookRounds: {skip: onesided.CopyTwice, name: "no-second-look-rounds",
		doc: "a copy of several lines is not compared with a second look at the first"},
	AbsenceOutsideRounds: {name: "absence-outside-rounds",
		doc: "the absence of a record is not confirmed after the second round"},
	AbsenceWithoutLease: {name: "absence-without-lease",
		doc: "without line words, the rounds believe an absence without a lease on an entry"},
	NoConfirmRounds: {name: "no-confirm-rounds", doc: "leases are not confirmed after the second round"},

	NoConfirmFallback: {name: "no-confirm-fallback", doc: "the fallback handler does not confirm its leases",
		equivalent: "it has looked when all was locked or leased: a point at which it can take place"},
	NoOrder: {name: "no-order", doc: "the fallback handler takes its locks in the order of the declaration",
		equivalent: "it waits for each lock for a bounded time, so that a circle costs attempts only"},

	HCANoLock: {name: "hca-no-lock", doc: "without line words, records are written without their lock"},
	HCALockUnjudged: {name: "hca-lock-unjudged",
		doc: "without line words, a commit takes its CAS for successful, whatever it has found"},
	HCAUnsureForgotten: {name: "hca-unsure-forgotten",
		doc: "without line words, a commit takes a CAS that failed for not made"},
	HCANoValidate: {name: "hca-no-validate", doc: "without line words, reads are not validated"},
	HCANoVersionInValidate: {name: "hca-no-version-in-validate",
		doc: "without line words, validation does not look at versions"},
	HCANoLockInValidate: {name: "hca-no-lock-in-validate",
		doc: "without line words, validation does not look at locks"},
	HCANoKeyInValidate: {name: "hca-no-key-in-validate",
		doc:        "without line words, validation does not look at keys",
		equivalent: "an entry that was given to another key has a version that it never had before"},
	HCANoDebt: {name: "hca-no-debt",
		doc: "without line words, a lock that a commit could not give back is forgotten"},

	ReclaimLeased:   {name: "reclaim-leased", doc: "an entry is given back though a lease on it runs"},
	ReclaimLocked:   {name: "reclaim-locked", doc: "an entry is given back though it is locked"},
	ReclaimUnlocked: {name: "reclaim-unlocked", doc: "without line words, an entry is given back without its lock"},
	ReclaimUnjudged: {name: "reclaim-unjudged",
		doc: "without line words, an entry is given back whatever the CAS that locks it has found"},
	ReclaimNoDebt: {name: "reclaim-no-debt", doc: "the lock of an entry that is given back is not owed"},
	NoGrace: {name: "no-grace", doc: "an entry can be given back as soon as it was made",
		equivalent: "whoever asked for it sees by its key and state that it is another's by now"},

	PeekNoSecondLook: {skip: onesided.PeekTwice, name: "peek-no-second-look", doc: "a record that is peeked at elsewhere is read once"},
	PeekNoLock:       {skip: onesided.PeekLock, name: "peek-no-lock", doc: "a peek does not look at the lock"},
	PeekNoKeyCheck:   {skip: onesided.PeekKey, name: "peek-no-key-check", doc: "a peek takes whatever entry it finds for the key's"},
}

func (m Mutation) String() string {
	if m < mutationEnd {
		return mutations[m].name
	}
	return fmt.Sprintf("mutation(%d)", uint8(m))
}

// Doc is one line on what is wrong.
func (m Mutation) Doc() string {
	if m < mutationEnd {
		return mutations[m].doc
	}
	return "unknown"
}

// Equivalent says why no check can find it; "" is one that checks must find.
func (m Mutation) Equivalent() string {
	if m < mutationEnd {
		return mutations[m].equivalent
	}
	return ""
}

// Mutations are all there are.
func Mutations() []Mutation {
	var all []Mutation
	for m := Mutation(1); m < mutationEnd; m++ {
		all = append(all, m)
	}
	return all
}
