package occ

import (
	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/ring"
)

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
	absenceUndated
	rangesUnchecked
	rollbackUnvalidated
	forgottenNode
	// The host (memory.go, host.go).
	unlockFirst
	sameVersion
	valueFirst
	newerVersion
	answersSwapped
	lockTwice
	// Ring messages (rings.go, and package ring).
	overwritesUnread
	takenEarly
	anyReply
	// READs (verbs.go).
	staleAddress
	oldAddress
	copyUnproved
	readOnce
	linesIgnored
	// Seals (seal.go).
	sealUnread
	sealKept
	// Locks by NICs (verbs.go, back.go, and package onesided).
	lockUnjudged
	readBeforeLock
	staleLock
	unlockByWrite
	unsureForgotten
	cpuUnlocks
	// Regions (region.go, commit.go).
	localUnchecked
	outsideRegion
	readLocksBack
	// Logs (backup.go, apply.go, commit.go).
	commitFirst
	roomUnreserved
	commitBeside
	logUnawaited
	ackIgnored
	truncateEarly
	localUnlogged
	ownBackupForgotten
	anyOrder
	tombsUnkept
	gapAcknowledged
	roomKept
	// Undo logs, and reads at backups (undo.go, memory.go, tx.go).
	noUndo
	undoCommitted
	readableNotLowered
	readableEarly
	readableIgnored
	lockIgnored
	validateAtBackup
	backupUnvalidated
	ownBackupLate
	// Locks on all records, and records of updates at primaries (tx.go, backup.go).
	readsUnlocked
	readsAnyVersion
	readLocksLeft
	primaryUnlogged
	// Locks in LOG (onetrip.go).
	refusalIgnored
	backupAnyVersion
	lockUnrecorded
	endWithoutValue
	endUnconfirmed
	toldAborted
	// What is owed (commit.go).
	noDebt
	noDebtUpdate
	noNewWord
	// Recovery (view.go, recover.go; package node has the fence).
	lateFence
	oldEpoch
	serveEarly
	serveLeaseless
	abortComplete
	commitPartial
	newReplicaOld
	unlockUnseen
	forgottenRemade
	mutationEnd
)

// Layers of this package that a mutation may belong to. An instance relies on those that it has.
const (
	ofSkeleton  = "occ"
	ofMessages  = "occ/messages"   // locks by the CPUs of hosts, and calls
	ofRPC       = "occ/rpc"        // calls by RPC
	ofRings     = "occ/rings"      // calls by ring messages
	ofReads     = "occ/reads"      // EXECUTE and VALIDATE by READ
	ofLooks     = "occ/looks"      // the same of records without a version in each line
	ofLines     = "occ/lines"      // the same of records with one
	ofSeals     = "occ/seals"      // the same of records with a seal, where there are no line words
	ofAtomics   = "occ/atomics"    // locks by NICs
	ofNICWords  = "occ/nic-words"  // the same, where records have replicas
	ofRegions   = "occ/regions"    // the own node's records in regions, all others locked
	ofLogs      = "occ/logs"       // records of updates at backups
	ofUndo      = "occ/undo"       // updates that backups apply at once, and reads there
	ofLocksAll  = "occ/locks-all"  // locks on all records, without validation
	ofPrimary   = "occ/primary"    // records of updates at primaries
	ofLogLocks  = "occ/log-locks"  // locks that come with records of updates
	ofLogBeside = "occ/log-beside" // the same, and COMMITs that come as messages
	ofRecovery  = "occ/recovery"   // what is done when members change
	ofFences    = "occ/fences"     // one-sided writes, which have no epoch
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "the protocol as it should be"},

	noValidate: {Of: ofSkeleton, Name: "no-validate",
		Doc: "what was read is not compared with what is there at the commit"},
	lockUnseen: {Of: ofSkeleton, Name: "validate-ignores-lock",
		Doc: "validation compares versions, whoever has a record locked"},
	anyVersion: {Of: ofSkeleton, Name: "lock-ignores-version",
		Doc: "a record that was read is locked at whatever version it has"},
	absentUnvalidated: {Of: ofSkeleton, Name: "absent-read-unvalidated",
		Doc: "what was not there is not looked for again at the commit"},
	absenceUndated: {Of: ofSkeleton, Name: "absence-undated",
		Doc: "an absence is taken for the one that was read, whatever was inserted and deleted in between"},
	rangesUnchecked: {Of: ofSkeleton, Name: "ranges-unchecked",
		Doc: "the commit does not look at scanned ranges again"},
	rollbackUnvalidated: {Of: ofSkeleton, Name: "rollback-unvalidated",
		Doc: "a transaction that rolls back does not validate what its program saw"},
	unlockFirst: {Of: ofSkeleton, Name: "unlock-before-value", Doc: "a record is unlocked, then written"},
	sameVersion: {Of: ofSkeleton, Name: "version-not-raised", Doc: "a write does not raise the record's version"},

	forgottenNode: {Of: ofMessages, Name: "abort-forgets-one-node",
		Doc: "an attempt without effect leaves its locks at the first other node"},
	valueFirst: {Of: ofMessages, Name: "value-read-before-lock",
		Doc: "EXECUTE copies a value, then locks its record"},
	newerVersion: {Of: ofMessages, Name: "version-newer-than-the-value-returned",
		Doc: "EXECUTE gives the version that a record has after its value was copied"},
	answersSwapped: {Of: ofMessages, Name: "batch-answers-swapped",
		Doc: "of a request for several records, the first two answers are taken for each other's"},
	lockTwice: {Of: ofRPC, Name: "lock-granted-twice-to-retry",
		Doc: "a request that was answered and comes again is executed again"},

	overwritesUnread: {Of: ofRings, Name: "ring-overwrites-unread", Doc: ring.OverwriteUnread.Doc()},
	takenEarly:       {Of: ofRings, Name: "message-taken-before-its-end-mark", Doc: ring.TakenEarly.Doc()},
	anyReply:         {Of: ofRings, Name: "reply-matched-to-wrong-request", Doc: ring.AnyAnswer.Doc()},

	staleAddress: {Of: ofReads, Name: "stale-address-accepted",
		Doc: "EXECUTE takes an entry that was READ for the key's, whatever key it says"},
	oldAddress: {Of: ofReads, Name: "validation-at-old-address",
		Doc: "VALIDATE compares the version at the place where a record was, whatever key is there"},
	copyUnproved: {Of: ofReads, Name: "copy-unproved",
		Doc: "without line words, the version behind a copy is not compared with that before it"},
	readOnce: {Of: ofLooks, Name: "read-once", Doc: "a record of several lines is READ without a second look"},
	linesIgnored: {Of: ofLines, Name: "ignore-line-versions",
		Doc: "a record of several lines is taken for whole, whatever versions its lines have"},

	sealUnread: {Of: ofSeals, Name: "seal-unread",
		Doc: "a copy of a record is taken for whole, whatever its seal says"},
	sealKept: {Of: ofSeals, Name: "lock-keeps-seal",
		Doc: "a record that is locked keeps its seal, as if it were unlocked"},

	lockUnjudged: {Of: ofAtomics, Name: "lock-unjudged", Doc: "a CAS is taken for successful, whatever it has found"},
	readBeforeLock: {Of: ofAtomics, Name: "lock-without-re-read",
		Doc: "a record is READ, then locked"},
	staleLock: {Of: ofAtomics, Name: "stale-lock-accepted",
		Doc: "an entry that was locked is taken for the key's, whatever key it says"},
	unlockByWrite: {Of: ofAtomics, Name: "unlock-by-write",
		Doc: "locks are given back by a WRITE of the header as it was read"},
	unsureForgotten: {Of: ofAtomics, Name: "unsure-forgotten",
		Doc: "a CAS that failed with its queue pair is taken for not made"},
	cpuUnlocks: {Of: ofNICWords, Name: "cpu-unlocks-recovered",
		Doc: "recovery unlocks records by the CPU that NICs ask for, without line words"},

	localUnchecked: {Of: ofRegions, Name: "local-state-unchecked",
		Doc: "the region of a commit does not look at locks and versions"},
	outsideRegion: {Of: ofRegions, Name: "local-commit-outside-the-region",
		Doc: "the own node's records are compared, then written, without a region"},
	readLocksBack: {Of: ofRegions, Name: "early-release-of-read-locks",
		Doc: "records that are read are unlocked before the commit"},

	commitFirst: {Of: ofLogs, Name: "commit-before-logs", Doc: "COMMIT comes before LOG"},
	commitBeside: {Of: ofLogBeside, Name: "commit-overtakes-log",
		Doc: "COMMIT is sent while LOG is under way; the client is told after both"},
	roomUnreserved: {Of: ofLogs, Name: "log-space-not-reserved",
		Doc: "records are appended to logs whether these have room or not"},
	logUnawaited: {Of: ofLogs, Name: "log-completion-not-awaited",
		Doc: "the client is told that a transaction is committed when LOG was sent"},
	ackIgnored: {Of: ofLogs, Name: "one-log-ack-missing",
		Doc: "LOG counts as complete whatever became of the record for one of the holders"},
	truncateEarly: {Of: ofLogs, Name: "truncate-too-early",
		Doc: "a record is decided when LOG is complete, before the primaries have confirmed COMMIT"},
	localUnlogged: {Of: ofLogs, Name: "backup-log-skipped-for-local-writes",
		Doc: "records of the own node's shard are not logged"},
	ownBackupForgotten: {Of: ofLogs, Name: "own-backup-forgotten",
		Doc: "the coordinator does not apply the update to its own backups"},
	anyOrder: {Of: ofLogs, Name: "backup-applies-out-of-order",
		Doc: "a backup applies an update whatever version it has"},
	tombsUnkept: {Of: ofLogs, Name: "tombstone-not-kept",
		Doc: "a backup forgets a deleted record at once, though an older update may come"},
	gapAcknowledged: {Of: ofLogs, Name: "log-gap-acknowledged",
		Doc: "a record counts though one before it is not there: its host acknowledges it, and nobody waits for that one"},
	roomKept: {Of: ofLogs, Name: "log-room-kept",
		Doc: "a transaction that cannot reserve room in all logs does not give back what it has reserved"},

	noUndo: {Of: ofUndo, Name: "replicate-without-undo-log",
		Doc: "a backup does not keep what an update replaces: an abort puts nothing back"},
	undoCommitted: {Of: ofUndo, Name: "undo-of-committed",
		Doc: "recovery puts back what a transaction has replaced that it commits"},
	readableNotLowered: {Of: ofUndo, Name: "readable-not-lowered",
		Doc: "a backup applies an update and leaves the record readable"},
	readableEarly: {Of: ofUndo, Name: "readable-raised-early",
		Doc: "a backup takes its coordinator's next message for a commit, and raises the flag"},
	readableIgnored: {Of: ofUndo, Name: "getone-ignores-readable",
		Doc: "a record is read at a backup whether it is readable or not"},
	lockIgnored: {Of: ofUndo, Name: "getone-ignores-lock",
		Doc: "a transaction of one read takes a record that is locked at its primary"},
	validateAtBackup: {Of: ofUndo, Name: "validate-at-backup",
		Doc: "what was read at a backup is compared with that backup at the commit"},
	backupUnvalidated: {Of: ofUndo, Name: "backup-older-than-validated-version-accepted",
		Doc: "what was read at a backup is not compared with the primary"},
	ownBackupLate: {Of: ofUndo, Name: "told-before-own-backup",
		Doc: "the coordinator tells the client before its own backups have the update"},

	readsUnlocked: {Of: ofLocksAll, Name: "read-set-not-locked",
		Doc: "what a transaction only reads is neither locked nor validated"},
	readsAnyVersion: {Of: ofLocksAll, Name: "read-locked-without-version-check",
		Doc: "what a transaction only reads is locked at whatever version it has"},
	readLocksLeft: {Of: ofLocksAll, Name: "abort-forgets-read-locks",
		Doc: "an attempt without effect leaves its locks on what it has only read"},
	primaryUnlogged: {Of: ofPrimary, Name: "primary-left-out-of-replicate",
		Doc: "LOG does not give the update to the primaries, and COMMIT only unlocks"},

	refusalIgnored: {Of: ofLogLocks, Name: "one-backup-lock-not-awaited",
		Doc: "a transaction commits though a backup could not lock what it needs"},
	backupAnyVersion: {Of: ofLogLocks, Name: "backup-lock-ignores-version",
		Doc: "a replica locks a record that was read at whatever version it has"},
	lockUnrecorded: {Of: ofLogLocks, Name: "log-record-missing-at-lock",
		Doc: "a backup locks without keeping the record: recovery hears nothing of it"},
	endWithoutValue: {Of: ofLogLocks, Name: "unlock-without-value-at-backup",
		Doc: "a backup unlocks what a committed transaction has written with the value from before"},
	endUnconfirmed: {Of: ofLogLocks, Name: "truncate-before-all-unlock-acks",
		Doc: "the record of an aborted transaction is decided though a replica has not confirmed the abort"},
	toldAborted: {Of: ofLogLocks, Name: "abort-after-told",
		Doc: "a transaction that all replicas have locked for is aborted when the view changes"},

	noDebt: {Of: ofSkeleton, Name: "no-debt", Doc: "a lock that could not be given back is forgotten"},
	noDebtUpdate: {Of: ofSkeleton, Name: "no-debt-update",
		Doc: "a lock that could not be given back is owed without its update"},
	noNewWord: {Of: ofSkeleton, Name: "no-new-word", Doc: "a transaction that owes a lock passes its lock word on"},

	lateFence: {Of: ofFences, Name: "promote-before-fence",
		Doc: "backups are promoted before the queue pairs to who is gone are in error"},
	oldEpoch: {Of: ofRecovery, Name: "old-epoch-accepted",
		Doc: "requests of an older epoch are served, and transactions go on over a change of the view"},
	serveEarly: {Of: ofRecovery, Name: "serve-before-lock-recovery",
		Doc: "a promoted backup serves before it has locked what is undecided"},
	serveLeaseless: {Of: ofRecovery, Name: "serve-without-lease",
		Doc: "a node tells clients what it has read after its lease has ended"},
	abortComplete: {Of: ofRecovery, Name: "decide-abort-with-complete-log",
		Doc: "a transaction is aborted though every shard has its record"},
	commitPartial: {Of: ofRecovery, Name: "decide-commit-with-partial-log",
		Doc: "a transaction is committed though only one shard has its record"},
	newReplicaOld: {Of: ofRecovery, Name: "new-replica-takes-old-records",
		Doc: "a replica that is being filled gets the updates of records from before it was one"},
	unlockUnseen: {Of: ofRecovery, Name: "unlock-says-nothing",
		Doc: "a primary that has given a transaction's lock back does not tell, when it is asked, that it had the update"},
	forgottenRemade: {Of: ofRecovery, Name: "forgotten-update-made-again",
		Doc: "a primary writes a record again that was deleted and forgotten since, and whose key has the same lock again"},
}

// skips are the mutations that leave out a step of package onesided.
var skips = [mutationEnd]onesided.Skip{
	unlockFirst:     onesided.WriteFirst,
	sameVersion:     onesided.NewVersion,
	unlockByWrite:   onesided.UnlockByCAS,
	unsureForgotten: onesided.OwnerOfUnsure,
	noDebt:          onesided.Debt,
	noDebtUpdate:    onesided.DebtUpdate,
	rangesUnchecked: onesided.RangeCheck,
}

// ringBugs are the mutations that leave out a step of package ring.
var ringBugs = [mutationEnd]ring.Mutation{
	overwritesUnread: ring.OverwriteUnread,
	takenEarly:       ring.TakenEarly,
	anyReply:         ring.AnyAnswer,
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// mutations are those of the layers that an instance relies on.
func (i Instance) mutations() (list []mutation.Mutation) {
	s := &i.Strategy
	reads := s.uses(OneSided, proto.PhaseExecute, proto.PhaseValidate)
	lines := i.Needs.Layout == layout.KindLineVersions
	relies := map[string]bool{ofSkeleton: true,
		ofMessages:  !s.uses(OneSided, proto.PhaseLock),
		ofRPC:       s.uses(RPC, proto.PhaseLock),
		ofRings:     s.uses(Ring, proto.PhaseLock),
		ofReads:     reads,
		ofLooks:     reads && !lines,
		ofLines:     reads && lines,
		ofSeals:     s.seals(),
		ofAtomics:   s.uses(OneSided, proto.PhaseLock),
		ofNICWords:  s.uses(OneSided, proto.PhaseLock),
		ofRegions:   s.Regions,
		ofLogs:      true,
		ofUndo:      s.Undo,
		ofLocksAll:  s.LocksAll,
		ofPrimary:   s.LogsPrimary,
		ofLogLocks:  s.LocksInLog,
		ofLogBeside: !s.uses(OneSided, proto.PhaseCommit),
		ofFences:    s.uses(OneSided, proto.PhaseLog, proto.PhaseCommit),
		ofRecovery:  true}
	for _, m := range mutations[1:] {
		if relies[m.Of] {
			list = append(list, m)
		}
	}
	return list
}

// lacks reports whether a step is left out.
func (e *Engine) lacks(m Mutation) bool { return e.mutation == m }
