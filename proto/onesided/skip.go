package onesided

// Skip is a safety step that an engine leaves out, a deliberate bug; 0 is none.
type Skip uint8

// The steps.
const (
	// OwnerOfUnsure: a lock whose CAS failed on the way is given back like one that is held.
	OwnerOfUnsure Skip = iota + 1
	// ReadBehind: the READ comes behind the CAS.
	ReadBehind
	// ReadDone: the READ behind the CAS has succeeded.
	ReadDone
	// KeyCheck: the entry that was locked says whose it is.
	KeyCheck
	// StateCheck: its state word is as the CAS has left it.
	StateCheck
	// DropStale: a place that went out of date is dropped from the location cache.
	DropStale
	// WriteFirst: an update is written before its record is unlocked.
	WriteFirst
	// UnlockByCAS: only the holder's lock is given back.
	UnlockByCAS
	// NewVersion: an update raises the version.
	NewVersion
	// PostInOrder: nothing is posted behind a request that could not be.
	PostInOrder
	// Confirmation: a write-back counts when its requests have succeeded.
	Confirmation
	// Debt: a lock that cannot be given back is owed.
	Debt
	// DebtUpdate: its update is, too.
	DebtUpdate
	// DebtLook: a debt is paid if the lock is there still.
	DebtLook
	// DebtOwner: and if it is the lock that is owed.
	DebtOwner
	// NearSwap: the CPU takes a lock by one compare-and-swap.
	NearSwap
	// NearRound: it takes all locks of a record whose state word it has.
	NearRound
	// SpentCheck: a key whose incarnations are used up is not inserted again.
	SpentCheck
	// StructureLock: without line words, workers change buckets one after the other.
	StructureLock
	// CopyTwice: a copy of several lines in the own machine is compared with a second look at the first.
	CopyTwice
	// PeekLock: a peek looks at the lock.
	PeekLock
	// PeekTwice: and at the header a second time.
	PeekTwice
	// PeekKey: and at the key.
	PeekKey
	// RangeCheck: the commit looks at scanned ranges again.
	RangeCheck
	// RangeStamp: and at the counters of their tables, where there are several.
	RangeStamp
	// FoundCheck: records that a scan has found and nothing protects are looked at again.
	FoundCheck
)
