package nics

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks find it: each leaves out one step that the protocol
// rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	ValidateSkipped Mutation = iota + 1
	ValidateIgnoresLock
	LockAfterRead
	LogUnawaited
	LogUnordered
	CommittedEarly
	ApplyOlder
	AnswerExecutor
	LocalUnlocked
	LogsOfOneShard
	UnlockBeforeLog
	LocalWriteUnlocked
	LocalVersionsUnchecked
	LocalReadsUnvalidated
	ServeEarly
	ForgetEarly
	OldEpoch
	AbortComplete
	ServeLeaseless
	LockIgnoresVersion
	RangesUnvalidated
	ClaimsIgnored
	ReadsPastLog
	TakenAgain
	AbsenceUnlocked
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "the protocol as it should be"},
	ValidateSkipped:     {Name: "xenic-validate-skipped", Doc: "what was read and is not locked is not validated (step 4)"},
	ValidateIgnoresLock: {Name: "xenic-validate-ignores-lock", Doc: "validation does not look at locks"},
	LockAfterRead:       {Name: "xenic-lock-after-read", Doc: "EXECUTE locks what is written behind the reads (step 2)"},
	LogUnawaited:        {Name: "xenic-log-answered-before-dma", Doc: "LOG is answered before the record is in the host's memory (step 5)"},
	LogUnordered: {Name: "xenic-log-answered-out-of-order",
		Doc: "LOG is answered when its record is in the host's memory, though one before it is not: the log cannot be read"},
	CommittedEarly: {Name: "xenic-committed-before-last-log", Doc: "the host is told before all backups have answered (step 6)"},
	ApplyOlder:     {Name: "xenic-apply-older", Doc: "the host applies an update that is older than the record (step 7)"},
	AnswerExecutor: {Name: "xenic-backup-answers-executor", Doc: "a backup answers the sender of LOG, not the coordinator (§4.2.3)"},
	LogsOfOneShard: {Name: "xenic-logs-of-one-shard-only",
		Doc: "a multi-hop call sends LOG to the backups of the executing shard only"},
	UnlockBeforeLog: {Name: "xenic-unlock-before-dma", Doc: "COMMIT unlocks before its record is in the host's log and the index has it (step 6)"},
	LocalWriteUnlocked: {Name: "xenic-local-write-without-nic-lock",
		Doc: "a local transaction locks what it writes behind LOG only (§4.2.4)"},
	LocalVersionsUnchecked: {Name: "xenic-local-write-locked-without-version-check",
		Doc: "a local transaction locks what it writes whatever has become of it since its host has read it"},
	LocalReadsUnvalidated: {Name: "xenic-local-read-validated-at-its-own-copy",
		Doc: "the NIC does not compare what a local transaction has read: its host's table misses what is in logs"},
	ReadsPastLog: {Name: "xenic-host-reads-past-the-log",
		Doc: "a host alone validates a local transaction that only reads, on its tables: they miss what is in its logs (§4.2.4)"},
	TakenAgain: {Name: "xenic-executes-again-on-duplicate",
		Doc: "a NIC that a worker plays takes a packet again that comes twice, and executes what is in it again"},
	ServeEarly: {Name: "xenic-serve-before-locks-rebuilt",
		Doc: "a new primary serves before it has locked what undecided transactions write (§4.2.1)"},
	ForgetEarly: {Name: "xenic-log-acknowledged-too-early",
		Doc: "a backup applies a LOG and acknowledges it to its log before the transaction is decided (step 7)"},
	OldEpoch:      {Name: "xenic-old-epoch-packet", Doc: "a NIC takes messages of transactions that were begun in an older view"},
	AbortComplete: {Name: "xenic-abort-complete", Doc: "survivors abort a transaction of which every shard has a record"},
	ServeLeaseless: {Name: "xenic-serve-without-lease",
		Doc: "a node tells clients what it has read in its memory after its lease has ended"},
	LockIgnoresVersion: {Name: "xenic-lock-ignores-version",
		Doc: "with separate requests, LOCK does not compare the version that was read (§5.7)"},
	RangesUnvalidated: {Name: "xenic-range-unvalidated", Doc: "VALIDATE does not look at the ranges that were scanned"},
	ClaimsIgnored: {Name: "xenic-range-ignores-locks",
		Doc: "VALIDATE of a range does not see that another transaction has locked a key to insert it"},
	AbsenceUnlocked: {Name: "xenic-absence-ignores-lock",
		Doc: "a record that the order of its table does not have is absent, though another transaction has locked it to insert it"},
	LocalUnlocked: {Name: "xenic-local-key-unvalidated", Doc: "a multi-hop call does not lock the records of the own shard that it reads"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }
