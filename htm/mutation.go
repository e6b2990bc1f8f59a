package htm

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks of a protocol find it: each leaves
// out one step that the safety of a commit rests on. The zero value is none. What Confirm says is the
// protocol's: its mutations leave that out.
type Mutation uint8

// Mutations.
const (
	NoLock Mutation = iota + 1
	LockUnseen
	NoOrder
	NoValidation
	ValidateFirst
	ConfirmLast
	NoOpacity
	ReadLocked
	UnlockFirst
	NoVersion
	KeepLines
	PostInside
	Unlisted
	ListLate
	CommitLate
	NoImages
	IdleEarly
	NeverIdle
	RecordsUnlocked
	RecordsUnvalidated
	RecordsValidateFirst
	RecordsUnlockFirst
	RecordsKeepLocks
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "correct regions"},
	NoLock:     {Name: "htm-no-lock", Doc: "a commit stores lines without their locks"},
	LockUnseen: {Name: "htm-lock-unseen", Doc: "a commit locks a line even if it has changed since it was read"},
	NoOrder: {Name: "htm-no-order", Doc: "a commit locks lines in the order of their first write",
		Equivalent: "a locked line ends the commit, so a deadlock only costs attempts"},
	NoValidation: {Name: "htm-no-validation", Doc: "a commit does not validate lines that it only read"},
	ValidateFirst: {Name: "htm-validate-first",
		Doc: "a commit validates the lines that it read, then locks those that it writes"},
	ConfirmLast: {Name: "htm-confirm-last", Doc: "a commit validates the lines that it read, then confirms",
		Equivalent: "leases that are valid later were valid at the comparison, with the same lines locked"},
	NoOpacity: {Name: "htm-no-opacity", Doc: "a new line is not compared with the lines that were read before",
		Equivalent: "whatever a program has found, its view is validated at its end; only code that follows " +
			"what it reads in a region needs more, and package store checks each offset"},
	ReadLocked:  {Name: "htm-read-locked", Doc: "a line that a commit has locked is read"},
	UnlockFirst: {Name: "htm-unlock-first", Doc: "a commit unlocks each line, then stores it"},
	NoVersion:   {Name: "htm-no-version", Doc: "a commit does not raise the versions of its lines"},
	KeepLines:   {Name: "htm-keep-lines", Doc: "an aborted commit keeps its lines locked"},
	PostInside: {Name: "htm-post-inside", Doc: "a region in which a verb was posted commits",
		Equivalent: "package fiber refuses to post inside of a region, and no protocol here tries to"},
	Unlisted:   {Name: "htm-unlisted", Doc: "lines are locked that the journal does not list"},
	ListLate:   {Name: "htm-list-late", Doc: "the journal lists lines after they were locked"},
	CommitLate: {Name: "htm-commit-late", Doc: "lines are stored before the journal says that the commit took place"},
	NoImages:   {Name: "htm-no-images", Doc: "the journal says that the commit took place, but lacks the lines"},
	IdleEarly:  {Name: "htm-idle-early", Doc: "the journal says that the commit is over before lines are stored"},
	NeverIdle: {Name: "htm-never-idle", Doc: "the journal does not say that the commit is over",
		Equivalent: "recovery leaves lines alone that are not locked, and the next commit says that it is " +
			"locking before it locks one"},
	RecordsUnlocked: {Name: "htm-records-unlocked",
		Doc: "without line words, a commit continues though its records could not be locked"},
	RecordsUnvalidated: {Name: "htm-records-unvalidated",
		Doc: "without line words, a commit takes place even if its Validate fails"},
	RecordsValidateFirst: {Name: "htm-records-validate-first",
		Doc: "without line words, a commit validates the records that it read, then locks those that it writes"},
	RecordsUnlockFirst: {Name: "htm-records-unlock-first",
		Doc: "without line words, a commit unlocks its records, then stores them"},
	RecordsKeepLocks: {Name: "htm-records-keep-locks",
		Doc:        "without line words, an aborted commit keeps its records locked",
		Equivalent: "the abort that follows gives back every lock that the transaction still has"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (r *Region) lacks(m Mutation) bool { return r.cfg.Mutation == m }
