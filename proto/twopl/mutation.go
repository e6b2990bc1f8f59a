package twopl

import (
	"drtmd/internal/mutation"
	"drtmd/proto/onesided"
)

// Mutation is a deliberate bug, for tests that show that the checker or an invariant finds it. Each
// leaves out one step that the safety of the protocol rests on; docs/SIM.md tells how to add one.
type Mutation uint8

// Mutations. 0 is the correct protocol.
const (
	// Locking (acquire.go and package onesided).
	LockUnjudged Mutation = iota + 1
	ReadFirst
	UnsureForgotten
	OwnWordHeld
	NoKeyCheck
	StaleKept
	KeepStale
	ReadLocksBack
	AbsentLocksBack
	// Lock words (lock.go).
	SameWord
	LivesRepeat
	NoNewWord
	// Write-back and release (commit.go and package onesided).
	UnlockFirst
	UnlockByWrite
	NoVersion
	PostOn
	SettleUnconfirmed
	UnknownCommitted
	AbortWrites
	AbortKeepsLocks
	// Debts (package onesided).
	NoDebt
	NoDebtUpdate
	DebtUnlooked
	// Entries that are given back (commit.go).
	HalfUnlocked
	SpareAnywhere
	NoStructure
	// Locks by the CPU (cpu.go).
	CPUAnywhere
	CPUNoKeyCheck
	CPULockUnjudged
	CPUAsked
	CPUNoLine
	CPUHeaderFirst
	// Scans (package onesided).
	RangesUnchecked
	RangesUnstamped
	// Peek (package onesided).
	PeekNoLock
	PeekNoSecondLook
	PeekNoKeyCheck
	mutationEnd
)

// oneMoment is why the order of things that a CPU does is not found.
const oneMoment = "in a simulation the CPU does all of it at one moment; "

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "the correct protocol"},

	LockUnjudged: {Name: "lock-unjudged", Doc: "every CAS is treated as successful"},
	ReadFirst:    {Name: "read-first", Doc: "a record is read, then locked"},
	UnsureForgotten: {Name: "unsure-forgotten",
		Doc: "a CAS that failed with its queue pair is treated as not executed"},
	OwnWordHeld: {Name: "own-word-held",
		Doc: "a lock taken through an out-of-date location of another record counts for this record"},
	NoKeyCheck: {Name: "no-key-check", Doc: "a locked entry is used without a check that it belongs to the key"},
	StaleKept:  {Name: "stale-kept", Doc: "an entry that is not the key's stays locked"},
	KeepStale: {Name: "keep-stale", Doc: "an out-of-date location stays in the location cache",
		Equivalent: "it only costs attempts: each finds that the location belongs to another key"},
	ReadLocksBack: {Name: "read-locks-back",
		Doc: "records that are read are unlocked before the transaction ends"},
	AbsentLocksBack: {Name: "absent-locks-back",
		Doc: "records that are absent are unlocked before the transaction ends"},

	SameWord:    {Name: "same-word", Doc: "all transactions of a node have the same lock word"},
	LivesRepeat: {Name: "lives-repeat", Doc: "a machine that restarts has the lock words of its former life"},
	NoNewWord:   {Name: "no-new-word", Doc: "a transaction that owes a lock passes its lock word on"},

	UnlockFirst:   {Name: "unlock-first", Doc: "records are unlocked, then written back"},
	UnlockByWrite: {Name: "unlock-by-write", Doc: "locks are given back by a WRITE of the header as it was read"},
	NoVersion:     {Name: "no-version", Doc: "a write does not raise the record's version"},
	PostOn: {Name: "post-on",
		Doc: "a record is unlocked by whatever queue pair there is, though its write could not be posted",
		Equivalent: "nothing comes between a record's requests unless a send queue is full, which has " +
			"room for all of a transaction"},
	SettleUnconfirmed: {Name: "settle-unconfirmed",
		Doc: "a write-back is treated as successful, even if it failed"},
	UnknownCommitted: {Name: "unknown-committed",
		Doc: "a transaction is reported as committed though a write-back failed",
		Equivalent: "the record stays locked until the update that is owed was made, so that nobody " +
			"misses it"},
	AbortWrites:     {Name: "abort-writes", Doc: "an abort writes back the program's writes so far"},
	AbortKeepsLocks: {Name: "abort-keeps-locks", Doc: "an abort does not give its locks back"},

	NoDebt:       {Name: "no-debt", Doc: "a lock that could not be given back is forgotten"},
	NoDebtUpdate: {Name: "no-debt-update", Doc: "a lock that could not be given back is owed without its update"},
	DebtUnlooked: {Name: "debt-unlooked", Doc: "a debt is paid without a check that the lock is still there"},

	HalfUnlocked: {Name: "half-unlocked", Doc: "a record is unlocked though its write-back failed"},
	SpareAnywhere: {Name: "spare-anywhere",
		Doc:        "without line words, an unlocked entry is given back without its lock",
		Equivalent: oneMoment + "no device can lock the entry between the look at its state and the end"},
	NoStructure: {Name: "no-structure",
		Doc:        "without line words, workers change buckets at the same time",
		Equivalent: oneMoment + "TestWorkersWithoutLineWordsShareATable of package store finds it"},

	CPUAnywhere: {Name: "cpu-anywhere",
		Doc: "the CPU locks records of devices whose atomics do not exclude it"},
	CPUNoKeyCheck: {Name: "cpu-no-key-check", Doc: "the CPU locks an entry without a check of its key",
		Equivalent: "the copy is checked as well, as for a device, and the lock given back"},
	CPULockUnjudged: {Name: "cpu-lock-unjudged",
		Doc: "the CPU locks a record that another holds"},
	CPUAsked: {Name: "cpu-asked",
		Doc: "the CPU gives back a lock of which the device has not answered whether it was taken",
		Equivalent: "no line stays locked in a simulation of this protocol, so that no device is asked for " +
			"a local record"},
	CPUNoLine: {Name: "cpu-no-line", Doc: "the CPU changes a line without its lock",
		Equivalent: oneMoment + "no device touches the line meanwhile; the conformance suite and the stress " +
			"tests of shm find it"},
	CPUHeaderFirst: {Name: "cpu-header-first",
		Doc:        "the CPU writes a record's first line back before the others",
		Equivalent: oneMoment + "who reads without a lock sees all lines of before or of after"},

	RangesUnchecked: {Name: "ranges-unchecked", Doc: "the commit does not look at scanned ranges again"},
	RangesUnstamped: {Name: "ranges-unstamped",
		Doc: "a commit that has scanned several ranges does not see that records have come and gone in them",
		Equivalent: "it takes looks at two ranges with two transactions between them, rarer than 1,000 seeds show; " +
			"TestACommitSeesWhatHasChangedInItsRanges finds it"},

	PeekNoLock:       {Name: "peek-no-lock", Doc: "a peek does not check the lock"},
	PeekNoSecondLook: {Name: "peek-no-second-look", Doc: "a record that is peeked at is read once"},
	PeekNoKeyCheck:   {Name: "peek-no-key-check", Doc: "a peek does not check that the entry belongs to the key"},
}

// skips are the mutations that leave out a step of package onesided.
var skips = [mutationEnd]onesided.Skip{
	ReadFirst:         onesided.ReadBehind,
	UnsureForgotten:   onesided.OwnerOfUnsure,
	NoKeyCheck:        onesided.KeyCheck,
	KeepStale:         onesided.DropStale,
	UnlockFirst:       onesided.WriteFirst,
	UnlockByWrite:     onesided.UnlockByCAS,
	NoVersion:         onesided.NewVersion,
	PostOn:            onesided.PostInOrder,
	SettleUnconfirmed: onesided.Confirmation,
	NoDebt:            onesided.Debt,
	NoDebtUpdate:      onesided.DebtUpdate,
	DebtUnlooked:      onesided.DebtLook,
	NoStructure:       onesided.StructureLock,
	RangesUnchecked:   onesided.RangeCheck,
	RangesUnstamped:   onesided.RangeStamp,
	PeekNoLock:        onesided.PeekLock,
	PeekNoSecondLook:  onesided.PeekTwice,
	PeekNoKeyCheck:    onesided.PeekKey,
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (e *Engine) lacks(m Mutation) bool { return e.mutation == m }
