package drtm

import (
	"drtmd/internal/mutation"
	"drtmd/proto/onesided"
)

// Mutation is a deliberate bug, for tests that show that the checker or an invariant finds it. Each
// leaves out one step that the safety of the protocol rests on, at a point of points.go or at one of
// package onesided; docs/SIM.md tells how to add one.
type Mutation uint8

// Mutations. 0 is the correct protocol.
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
	// Records whose state words are the CPU's (athome.go).
	HCACPUAnywhere
	HCALockByStore
	HCALockByBoth
	// Entries that are given back (spare.go).
	ReclaimLeased
	ReclaimLocked
	ReclaimUnlocked
	ReclaimUnjudged
	ReclaimNoDebt
	NoGrace
	// Chains of pieces (chain.go).
	ReadersDoNotWait
	RestBeforeReads
	ChainUnseen
	LeaveBeforeLast
	// The barrier (barrier.go).
	NoBarrier
	SubscriberUnaware
	BarrierIgnoresPublishers
	BarrierIgnoresSubscribers
	ChainNotBinding
	// Scans (scan.go, package onesided).
	ScanOutsideRegion
	DeleteUnprotected
	RangesUnchecked
	FoundUnchecked
	// Peek (package onesided).
	PeekNoSecondLook
	PeekNoLock
	PeekNoKeyCheck
	// Logs (logging.go).
	LockBeforeLog
	LogOutsideRegion
	LogReclaimedEarly
	FallbackBeforeLog
	HCALocalUnnamed
	HCALogAfterStores
	ReclaimUnnamed
	SlotOfDebtReused
	PartCut
	PartMisplaced
	PartUnloaded
	// Records that are loaded in part (parts.go).
	PartNotCompleted
	PartOfAnotherVersion
	// Logs of chains (chainlog.go).
	ChoppingUnlogged
	PieceRunTwice
	CommittedForgotten
	ServedBeforeChains
	// Recovery (recover.go).
	ChecksumIgnored
	UnlockAnyOwner
	RedoUnversioned
	LocksOfCommittedForgotten
	ReuseBeforeRecovery
	OrphanTaken
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	0: {Name: "none", Doc: "the correct protocol"},

	NoLockTaken: {Name: "no-lock-taken", Doc: "START treats every CAS as successful"},
	NoLockSeen:  {Name: "no-lock-seen", Doc: "START takes over a record that another has locked"},
	NoLeaseSeen: {Name: "no-lease-seen", Doc: "START locks a record on which a lease runs"},
	NoExpiryOfHint: {Name: "no-expiry-of-hint",
		Doc: "START expects the state that was seen last though a lease in it may run"},
	UnsureForgotten: {Name: "unsure-forgotten", Doc: "a CAS that failed with its queue pair is treated as not executed"},
	NoJoinedEnd:     {Name: "no-joined-end", Doc: "a lease that was joined is used until the end that START wanted"},
	LastEnd:         {Name: "last-end", Doc: "the common end of the leases is that of the last one, not the earliest"},
	NoReadError:     {Name: "no-read-error", Doc: "the READ behind the CAS is treated as successful, even if it failed"},
	NoIncarnationCheck: {Name: "no-incarnation-check",
		Doc: "a location is trusted without a check of its entry's key and version"},
	NoStateBehindCAS: {Name: "no-state-behind-cas", Doc: "the state that the READ behind the CAS returns is not checked"},
	NoValidInStart: {Name: "no-valid-in-start", Doc: "START does not check that its leases are still valid",
		Equivalent: "the commit and the rollback confirm them again"},
	KeepStale: {Name: "keep-stale", Doc: "an out-of-date location stays in the location cache",
		Equivalent: "it only costs attempts: each finds that the location belongs to another key"},

	NoDeltaInValid:   {Name: "no-delta-in-valid", Doc: "VALID assumes exact clocks"},
	NoDeltaInExpired: {Name: "no-delta-in-expired", Doc: "EXPIRED assumes exact clocks"},
	NoRounding:       {Name: "no-rounding", Doc: "a lease is used until its end before rounding down"},
	SoftTimeInValid:  {Name: "softtime-in-valid", Doc: "VALID reads softtime, not the clock"},
	SameTicket:       {Name: "same-ticket", Doc: "all locks of a machine have the same state word, in all of its lives"},

	NoStateCheck:      {Name: "no-state-check", Doc: "LOCAL_WRITE does not check the state of the record"},
	NoStateCheckRead:  {Name: "no-state-check-read", Doc: "LOCAL_READ does not check the record's lock"},
	NoLeaseCheckLocal: {Name: "no-lease-check-local", Doc: "LOCAL_WRITE does not check the record's lease"},
	NoKeyCheckLocal:   {Name: "no-key-check-local", Doc: "LOCAL_READ does not check that the entry belongs to the key"},
	NoSecondLookLocal: {Name: "no-second-look-local",
		Doc: "without line words, a copy in a region is not compared with a second look",
		Equivalent: "commit and rollback validate the version again: only what the program sees in an " +
			"attempt that is going to abort differs"},
	AbsenceOutsideRegion: {Name: "absence-outside-region",
		Doc: "the absence of a record is established outside of the region"},
	AbsenceWithoutEntry: {Name: "absence-without-entry",
		Doc: "without line words, an absence is believed without an absent entry"},

	NoConfirm:         {Name: "no-confirm", Doc: "leases are not confirmed"},
	ConfirmBeforeLock: {Name: "confirm-before-lock", Doc: "leases are confirmed before the region's lines are locked, as printed"},
	NoConfirmRemote: {Name: "no-confirm-remote", Doc: "a transaction without local records does not confirm its leases",
		Equivalent: "START has checked with everything locked or leased: that is a point at which the transaction can take place"},
	NoRollbackCheck: {Name: "no-rollback-check", Doc: "a rollback does not validate its reads"},
	NoReadOnlyRollbackCheck: {Name: "no-read-only-rollback-check",
		Doc: "the rollback of a read-only transaction does not validate its reads"},
	UnlockBeforeWriteBack: {Name: "unlock-before-write-back", Doc: "remote records are unlocked, then written"},
	UnlockByWrite:         {Name: "unlock-by-write", Doc: "locks are given back by a WRITE of the header as it was read"},
	AbortKeepsLocks:       {Name: "abort-keeps-locks", Doc: "an abort does not give its locks back"},
	NoDebt:                {Name: "no-debt", Doc: "a lock that could not be given back is forgotten"},
	NoDebtUpdate:          {Name: "no-debt-update", Doc: "a lock that could not be given back is owed without its update"},
	DebtUnlooked:          {Name: "debt-unlooked", Doc: "a debt is paid without a check that the lock is still there"},
	NoSpent: {Name: "no-spent", Doc: "a key whose incarnations are used up is inserted again",
		Equivalent: "no run makes 2^31 insertions of a key; a test of package store does as if"},

	NoSecondRound:     {Name: "no-second-round", Doc: "a read-only transaction reads its local records once"},
	NoVersionInRounds: {Name: "no-version-in-rounds", Doc: "the second round does not compare the version"},
	NoLockInRounds:    {Name: "no-lock-in-rounds", Doc: "the second round does not check the lock"},
	NoKeyInRounds: {Name: "no-key-in-rounds", Doc: "the second round does not compare the key",
		Equivalent: "an entry that was given to another key has a version that it never had before"},
	NoLockInFirstRound: {Name: "no-lock-in-first-round", Doc: "the first round does not check the lock"},
	NoKeyCheckRounds:   {Name: "no-key-check-rounds", Doc: "the first round does not check that the entry belongs to the key"},
	NoSecondLookRounds: {Name: "no-second-look-rounds",
		Doc: "a copy of several lines is not compared with a second look at the first"},
	AbsenceOutsideRounds: {Name: "absence-outside-rounds",
		Doc: "the absence of a record is not confirmed after the second round"},
	AbsenceWithoutLease: {Name: "absence-without-lease",
		Doc: "without line words, the rounds believe an absence without a lease on an entry"},
	NoConfirmRounds: {Name: "no-confirm-rounds", Doc: "leases are not confirmed after the second round"},

	NoConfirmFallback: {Name: "no-confirm-fallback", Doc: "the fallback handler does not confirm its leases",
		Equivalent: "it has checked when everything was locked or leased: a point at which it can take place"},
	NoOrder: {Name: "no-order", Doc: "the fallback handler takes its locks in the order of the declaration",
		Equivalent: "it waits for each lock for a bounded time, so a deadlock only costs attempts"},

	HCANoLock: {Name: "hca-no-lock", Doc: "without line words, records are written without their lock"},
	HCALockUnjudged: {Name: "hca-lock-unjudged",
		Doc: "without line words, a commit treats every CAS as successful"},
	HCAUnsureForgotten: {Name: "hca-unsure-forgotten",
		Doc: "without line words, a commit treats a failed CAS as not executed"},
	HCANoValidate: {Name: "hca-no-validate", Doc: "without line words, reads are not validated"},
	HCANoVersionInValidate: {Name: "hca-no-version-in-validate",
		Doc: "without line words, validation does not compare versions"},
	HCANoLockInValidate: {Name: "hca-no-lock-in-validate",
		Doc: "without line words, validation does not check locks"},
	HCANoKeyInValidate: {Name: "hca-no-key-in-validate",
		Doc:        "without line words, validation does not compare keys",
		Equivalent: "an entry that was given to another key has a version that it never had before"},
	HCANoDebt: {Name: "hca-no-debt",
		Doc: "without line words, a lock that a commit could not give back is forgotten"},

	HCACPUAnywhere: {Name: "hca-cpu-anywhere",
		Doc: "without line words, the CPU locks records that other machines lock by their NICs"},
	HCALockByStore: {Name: "hca-lock-by-store",
		Doc: "without line words, the CPU's lock of a record is a look and a store"},
	HCALockByBoth: {Name: "hca-lock-by-both",
		Doc: "without line words, the fallback handler has the NIC lock records that commits lock by the CPU"},

	ReclaimLeased:   {Name: "reclaim-leased", Doc: "an entry is given back though a lease on it runs"},
	ReclaimLocked:   {Name: "reclaim-locked", Doc: "an entry is given back though it is locked"},
	ReclaimUnlocked: {Name: "reclaim-unlocked", Doc: "without line words, an entry is given back without its lock"},
	ReclaimUnjudged: {Name: "reclaim-unjudged",
		Doc: "without line words, an entry is given back even if the CAS that locks it has failed"},
	ReclaimNoDebt: {Name: "reclaim-no-debt", Doc: "the lock of an entry that is given back is not owed"},
	NoGrace: {Name: "no-grace", Doc: "an entry can be given back as soon as it was made",
		Equivalent: "its key and state show a transaction that it now belongs to another key"},

	ReadersDoNotWait: {Name: "read-only-does-not-wait-for-pieces",
		Doc: "a read-only transaction does not look whether a chain is under way"},
	RestBeforeReads: {Name: "rest-before-reads",
		Doc: "a read-only transaction waits for chains before its first round, as printed, and not before the second"},
	ChainUnseen:     {Name: "chain-unseen", Doc: "a chain is counted when its first piece has committed, not before"},
	ChainNotBinding: {Name: "chain-not-binding", Doc: "a chain may be given up after a piece that changes something"},
	LeaveBeforeLast: {Name: "chain-left-before-last-piece", Doc: "a chain counts as done before its last piece"},

	NoBarrier: {Name: "no-barrier-at-publish", Doc: "a deferred piece runs as soon as those before it have committed"},
	SubscriberUnaware: {Name: "subscriber-does-not-apply",
		Doc: "a subscriber begins though results of the epoch before are not applied yet"},
	BarrierIgnoresPublishers: {Name: "barrier-ignores-publishers",
		Doc: "results are published while a publisher of the epoch is in the middle of its other pieces"},
	BarrierIgnoresSubscribers: {Name: "barrier-ignores-subscribers",
		Doc: "results are published while a subscriber of the epoch runs"},

	ScanOutsideRegion: {Name: "scan-outside-region", Doc: "the keys of a range are found outside of the region"},
	DeleteUnprotected: {Name: "delete-without-phantom-protection",
		Doc: "a scan passes over deleted records that are still in the tree, and does not protect them"},
	RangesUnchecked: {Name: "ranges-unchecked", Doc: "where no region protects scanned ranges, they are not looked at again"},

	FoundUnchecked: {Name: "found-unchecked",
		Doc: "records that a scan has read without leases are not looked at again"},

	PeekNoSecondLook: {Name: "peek-no-second-look", Doc: "a record that is peeked at elsewhere is read once"},
	PeekNoLock:       {Name: "peek-no-lock", Doc: "a peek does not check the lock"},
	PeekNoKeyCheck:   {Name: "peek-no-key-check", Doc: "a peek does not check that the entry belongs to the key"},

	LockBeforeLog:     {Name: "lock-before-lock-ahead-log", Doc: "START locks remote records before it logs them"},
	LogOutsideRegion:  {Name: "write-ahead-log-outside-region", Doc: "updates are logged before the region ends, outside of it"},
	LogReclaimedEarly: {Name: "log-reclaimed-before-write-back", Doc: "the log is given up before the updates are written back"},
	FallbackBeforeLog: {Name: "fallback-updates-before-log",
		Doc: "the fallback handler makes its updates before it logs them"},
	HCALocalUnnamed: {Name: "hca-local-locks-unlogged",
		Doc: "without line words, a commit locks local records that it has not logged"},
	HCALogAfterStores: {Name: "hca-log-after-stores",
		Doc: "without line words, updates are logged after the region has published"},
	ReclaimUnnamed: {Name: "reclaim-lock-unlogged",
		Doc: "without line words, an entry that is given back is locked without a log record"},
	SlotOfDebtReused: {Name: "log-of-debt-reused",
		Doc: "the log of a transaction is given up though a machine that it owes an update is out of reach"},
	PartCut: {Name: "log-part-cut", Doc: "of an update of parts of a value only the first word is logged"},
	PartMisplaced: {Name: "log-part-misplaced",
		Doc: "recovery writes a part of a value to the value's beginning"},
	PartUnloaded: {Name: "log-part-not-loaded",
		Doc: "of a record that was loaded in part, a log has the lines between two written fields without loading them"},

	PartNotCompleted: {Name: "part-not-completed",
		Doc: "of a record that was loaded in part, an access to other lines does not load these"},
	PartOfAnotherVersion: {Name: "part-of-another-version",
		Doc: "a read-only transaction that loads more lines of a record does not compare the version with that of the first ones"},

	ChoppingUnlogged: {Name: "chopping-log-not-written", Doc: "what is left to do behind a piece is not logged"},
	PieceRunTwice: {Name: "piece-run-twice",
		Doc: "recovery does not see by its write-ahead record that a piece has committed"},
	CommittedForgotten: {Name: "committed-pieces-forgotten",
		Doc: "recovery does not take down which pieces it has found committed, for a recovery after it"},
	ServedBeforeChains: {Name: "serve-before-recovery", Doc: "clients begin before what is left of chains was run"},

	ChecksumIgnored: {Name: "checksum-ignored", Doc: "recovery applies a log record that is torn"},
	UnlockAnyOwner:  {Name: "unlock-without-owner-check", Doc: "recovery unlocks a record whoever has it locked"},
	RedoUnversioned: {Name: "write-back-without-version-check",
		Doc: "recovery makes an update of a local record that is newer"},
	LocksOfCommittedForgotten: {Name: "locks-of-committed-forgotten",
		Doc: "recovery of a transaction that took place leaves what it locked and did not change locked"},
	ReuseBeforeRecovery: {Name: "log-reused-before-recovery",
		Doc: "new transactions use the log of a former one before that is recovered"},
	OrphanTaken: {Name: "orphan-unlocked-by-survivor-alone",
		Doc: "START takes over a record that a machine which seems dead has locked"},
}

// skips are the mutations that leave out a step of package onesided.
var skips = [mutationEnd]onesided.Skip{
	UnsureForgotten:       onesided.OwnerOfUnsure,
	NoReadError:           onesided.ReadDone,
	NoIncarnationCheck:    onesided.KeyCheck,
	NoStateBehindCAS:      onesided.StateCheck,
	KeepStale:             onesided.DropStale,
	UnlockBeforeWriteBack: onesided.WriteFirst,
	UnlockByWrite:         onesided.UnlockByCAS,
	NoDebt:                onesided.Debt,
	NoDebtUpdate:          onesided.DebtUpdate,
	DebtUnlooked:          onesided.DebtLook,
	UnlockAnyOwner:        onesided.DebtOwner,
	NoSpent:               onesided.SpentCheck,
	NoSecondLookRounds:    onesided.CopyTwice,
	RangesUnchecked:       onesided.RangeCheck,
	FoundUnchecked:        onesided.FoundCheck,
	HCALockByStore:        onesided.NearSwap,
	HCALockByBoth:         onesided.NearRound,
	PeekNoSecondLook:      onesided.PeekTwice,
	PeekNoLock:            onesided.PeekLock,
	PeekNoKeyCheck:        onesided.PeekKey,
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }
