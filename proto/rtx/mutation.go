package rtx

import "drtmd/internal/mutation"

// bug is a deliberate one.
type bug uint8

const (
	bugNone bug = iota
	bugLockBeforeLog
	bugReleaseFirst
	bugUpdateByWrite
	bugReleaseByWrite
	bugDoneFirst
	bugChecksumIgnored
	bugLeaseRepeats
	bugPointerVersion
	bugReuseEarly
	bugInitCommits
	bugKeepOwnLocks
	bugSingleNoBlock
	bugValidateNoLock
	bugRepairLease
	bugValidateNothing
	bugSlotForgotten
	bugAttachNoLog
	bugAbortAlone
	bugSlotNotFixed
	bugRenewalLost
	bugNodesUnordered
	bugEarlyKept
	bugEarlyUnlogged
	bugEarlyUnvalidated
	bugHintTrusted
	bugCopyTrusted
)

var bugs = mutation.Table[bug]{
	{Name: "none", Doc: "correct"},
	bugLockBeforeLog:   {Name: "lock-before-log-confirmed", Doc: "objects are locked before the log is known to be written"},
	bugReleaseFirst:    {Name: "release-before-update", Doc: "locks are released before the pointers are swung"},
	bugUpdateByWrite:   {Name: "update-by-write", Doc: "a commit swings pointers by WRITE, not by CAS"},
	bugReleaseByWrite:  {Name: "release-by-write", Doc: "a commit releases locks by WRITE, not by CAS"},
	bugDoneFirst:       {Name: "done-before-release", Doc: "the log is DONE before the locks are released"},
	bugChecksumIgnored: {Name: "checksum-ignored", Doc: "a repair takes whatever log the owner has for the lock's"},
	bugLeaseRepeats:    {Name: "lease-not-monotonic", Doc: "leases are in units of 128 us and repeat"},
	bugPointerVersion:  {Name: "pointer-version-dropped", Doc: "data pointers have no version"},
	bugReuseEarly:      {Name: "buffer-reused-before-done", Doc: "a block is free again before the log is DONE"},
	bugInitCommits:     {Name: "repair-of-init-commits", Doc: "a repair commits a log in INIT"},
	bugKeepOwnLocks:    {Name: "repair-without-abort-of-self", Doc: "who repairs keeps its own locks"},
	bugSingleNoBlock: {Name: "opt1-repair-releases-without-new-buffer",
		Doc: "an update without log is repaired by releasing its lock alone: the pointer can still be swung"},
	bugAbortAlone: {Name: "opt1-abort-releases-alone",
		Doc:        "an aborted update without log releases its lock alone, while a repairer may renew the pointer",
		Equivalent: "a commit with a log follows a pointer that is renewed under its lock, and one without a log aborts"},
	bugNodesUnordered: {Name: "order-across-nodes-assumed",
		Doc: "phases share a doorbell, though they are on several memory nodes"},
	bugEarlyKept: {Name: "leaf-lock-kept-on-abort", Doc: "an attempt that aborts keeps its early locks"},
	bugEarlyUnlogged: {Name: "early-lock-not-in-log",
		Doc: "a commit with a log leaves early locks as they are: who repairs the log does not find them"},
	bugEarlyUnvalidated: {Name: "early-lock-without-validation",
		Doc: "an update of one object that was locked early does not validate what else was read"},
	bugCopyTrusted: {Name: "copy-trusted", Doc: "a copy of an object's block is taken for the value, whatever the metadata says"},
	bugHintTrusted: {Name: "hint-trusted", Doc: "a block that a hint names is taken for the value, whatever the metadata says"},
	bugRenewalLost: {Name: "renewed-pointer-not-swung",
		Doc: "a commit does not swing a pointer that a late repair of an earlier update has renewed"},
	bugSlotNotFixed: {Name: "return-without-slots",
		Doc: "a client that returns takes its slots as they are: a block that was installed is used again"},
	bugValidateNoLock:  {Name: "validate-ignores-lock", Doc: "validation accepts locked objects"},
	bugRepairLease:     {Name: "repair-lease-ignored", Doc: "a repair does not wait for another one: work is done twice"},
	bugValidateNothing: {Name: "no-validation", Doc: "what was only read is not validated"},
	bugSlotForgotten:   {Name: "slot-not-repaired", Doc: "a repair leaves the dead owner's slot as it is"},
	bugAttachNoLog:     {Name: "return-without-repair", Doc: "a client that returns ignores the log of its former life"},
}

// Mutations lists the deliberate bugs.
func Mutations() []mutation.Mutation { return bugs.List("rtx") }
