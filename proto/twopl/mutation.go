package twopl

import (
	"fmt"

	"drtmd/proto/onesided"
)

// Mutation is a deliberate bug, for tests that show that the checker or an invariant finds it. Each
// leaves out one step that the safety of the protocol rests on; docs/SIM.md tells how to add one.
type Mutation uint8

// Mutations. 0 is the protocol as it should be.
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
	// Peek (package onesided).
	PeekNoLock
	PeekNoSecondLook
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

// oneMoment is why the order of things that a CPU does is not found.
const oneMoment = "in a simulation the CPU does all of it at one moment; "

var mutations = [mutationEnd]mutation{
	{name: "none", doc: "the protocol as it should be"},

	LockUnjudged: {name: "lock-unjudged", doc: "a CAS is taken for successful, whatever it has found"},
	ReadFirst:    {skip: onesided.ReadBehind, name: "read-first", doc: "a record is read, then locked"},
	UnsureForgotten: {skip: onesided.OwnerOfUnsure, name: "unsure-forgotten",
		doc: "a CAS that failed with its queue pair is taken for not made"},
	OwnWordHeld: {name: "own-word-held",
		doc: "a record that is locked by way of another's old place counts as locked"},
	NoKeyCheck: {skip: onesided.KeyCheck, name: "no-key-check", doc: "an entry that was locked is taken for the key's, whatever it says"},
	StaleKept:  {name: "stale-kept", doc: "an entry that is not the key's stays locked"},
	KeepStale: {skip: onesided.DropStale, name: "keep-stale", doc: "a place that went out of date stays in the location cache",
		equivalent: "it only costs attempts: each of them finds that the place is another key's"},
	ReadLocksBack: {name: "read-locks-back",
		doc: "records that are read are unlocked before the transaction ends"},
	AbsentLocksBack: {name: "absent-locks-back",
		doc: "records that are absent are unlocked before the transaction ends"},

	SameWord:    {name: "same-word", doc: "all transactions of a node have the same lock word"},
	LivesRepeat: {name: "lives-repeat", doc: "a machine that restarts has the lock words of its former life"},
	NoNewWord:   {name: "no-new-word", doc: "a transaction that owes a lock passes its lock word on"},

	UnlockFirst:   {skip: onesided.WriteFirst, name: "unlock-first", doc: "records are unlocked, then written back"},
	UnlockByWrite: {skip: onesided.UnlockByCAS, name: "unlock-by-write", doc: "locks are given back by a WRITE of the header as it was read"},
	NoVersion:     {skip: onesided.NewVersion, name: "no-version", doc: "a write does not raise the record's version"},
	PostOn: {skip: onesided.PostInOrder, name: "post-on",
		doc: "a record is unlocked by whatever queue pair there is, though its write could not be posted",
		equivalent: "nothing comes between a record's requests unless a send queue is full, which has " +
			"room for all of a transaction"},
	SettleUnconfirmed: {skip: onesided.Confirmation, name: "settle-unconfirmed",
		doc: "a write-back is taken for made, whatever became of it"},
	UnknownCommitted: {name: "unknown-committed",
		doc: "a transaction is called committed though a write-back failed",
		equivalent: "the record stays locked until the update that is owed was made, so that nobody " +
			"misses it"},
	AbortWrites:     {name: "abort-writes", doc: "an abort writes back what the program has done so far"},
	AbortKeepsLocks: {name: "abort-keeps-locks", doc: "an abort does not give its locks back"},

	NoDebt:       {skip: onesided.Debt, name: "no-debt", doc: "a lock that could not be given back is forgotten"},
	NoDebtUpdate: {skip: onesided.DebtUpdate, name: "no-debt-update", doc: "a lock that could not be given back is owed without its update"},
	DebtUnlooked: {skip: onesided.DebtLook, name: "debt-unlooked", doc: "a debt is paid without a look whether the lock is there still"},

	HalfUnlocked: {name: "half-unlocked", doc: "a record is unlocked though its write-back failed"},
	SpareAnywhere: {name: "spare-anywhere",
		doc:        "without line words, an unlocked entry is given back without its lock",
		equivalent: oneMoment + "no device can lock the entry between the look at its state and the end"},
	NoStructure: {skip: onesided.StructureLock, name: "no-structure",
		doc:        "without line words, workers change buckets at the same time",
		equivalent: oneMoment + "TestWorkersWithoutLineWordsShareATable of package store finds it"},

	CPUAnywhere: {name: "cpu-anywhere",
		doc: "the CPU locks records of devices whose atomics do not exclude it"},
	CPUNoKeyCheck: {name: "cpu-no-key-check", doc: "the CPU locks an entry whatever key it is of",
		equivalent: "the copy is looked at as well, as one of a device is, and the lock given back"},
	CPULockUnjudged: {name: "cpu-lock-unjudged",
		doc: "the CPU locks a record whoever holds it"},
	CPUAsked: {name: "cpu-asked",
		doc: "the CPU gives back a lock of which the device has not answered whether it was taken",
		equivalent: "no line stays locked in a simulation of this protocol, so that no device is asked for " +
			"a local record"},
	CPUNoLine: {name: "cpu-no-line", doc: "the CPU changes a line without its lock",
		equivalent: oneMoment + "no device touches the line meanwhile; the conformance suite and the stress " +
			"tests of shm find it"},
	CPUHeaderFirst: {name: "cpu-header-first",
		doc:        "the CPU writes a record's first line back before the others",
		equivalent: oneMoment + "who reads without a lock sees all lines of before or of after"},

	PeekNoLock:       {skip: onesided.PeekLock, name: "peek-no-lock", doc: "a peek does not look at the lock"},
	PeekNoSecondLook: {skip: onesided.PeekTwice, name: "peek-no-second-look", doc: "a record that is peeked at is read once"},
	PeekNoKeyCheck:   {skip: onesided.PeekKey, name: "peek-no-key-check", doc: "a peek takes whatever entry it finds for the key's"},
}

func (m Mutation) String() string {
	if m < mutationEnd {
		return mutations[m].name
	}
	return fmt.Sprintf("mutation(%d)", uint8(m))
}

// Doc is one line on what is wrong.
func (m Mutation) Doc() string { return mutations[m].doc }

// Equivalent says why no check can find it; "" is one that checks must find.
func (m Mutation) Equivalent() string { return mutations[m].equivalent }

// Mutations are all there are.
func Mutations() (all []Mutation) {
	for m := Mutation(1); m < mutationEnd; m++ {
		all = append(all, m)
	}
	return all
}

// lacks reports whether a step is left out.
func (e *Engine) lacks(m Mutation) bool { return e.mutation == m }
