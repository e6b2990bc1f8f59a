package htm

import "fmt"

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

// mutation describes one.
type mutation struct {
	name, doc string
	// equivalent says why no check can find it.
	equivalent string
}

var mutations = [mutationEnd]mutation{
	{name: "none", doc: "regions as they should be"},
	NoLock:     {name: "htm-no-lock", doc: "a commit stores lines without their locks"},
	LockUnseen: {name: "htm-lock-unseen", doc: "a commit locks a line whatever has become of it since it was seen"},
	NoOrder: {name: "htm-no-order", doc: "a commit locks lines in the order of their first write",
		equivalent: "a line that is taken ends the commit, so that a circle costs attempts only"},
	NoValidation: {name: "htm-no-validation", doc: "a commit does not compare what it has only read"},
	ValidateFirst: {name: "htm-validate-first",
		doc: "a commit compares what it has read, then locks what it has written"},
	ConfirmLast: {name: "htm-confirm-last", doc: "a commit compares what it has read, then confirms",
		equivalent: "leases that are valid later were valid at the comparison, with the same lines locked"},
	NoOpacity: {name: "htm-no-opacity", doc: "a new line is not compared with the lines that were read before",
		equivalent: "whatever a program has found, its view is validated at its end; only code that follows " +
			"what it reads in a region needs more, and package store checks each offset"},
	ReadLocked:  {name: "htm-read-locked", doc: "a line that a commit holds is read as it stands"},
	UnlockFirst: {name: "htm-unlock-first", doc: "a commit unlocks each line, then stores it"},
	NoVersion:   {name: "htm-no-version", doc: "a commit does not raise the versions of its lines"},
	KeepLines:   {name: "htm-keep-lines", doc: "a commit that does not take place keeps the lines that it has locked"},
	PostInside: {name: "htm-post-inside", doc: "a region in which a verb was posted commits",
		equivalent: "package fiber refuses to post inside of a region, and no protocol here tries to"},
	Unlisted:   {name: "htm-unlisted", doc: "lines are locked that the journal does not list"},
	ListLate:   {name: "htm-list-late", doc: "the journal lists lines after they were locked"},
	CommitLate: {name: "htm-commit-late", doc: "lines are stored before the journal says that the commit took place"},
	NoImages:   {name: "htm-no-images", doc: "the journal says that the commit took place and does not have the lines"},
	IdleEarly:  {name: "htm-idle-early", doc: "the journal says that the commit is over before lines are stored"},
	NeverIdle: {name: "htm-never-idle", doc: "the journal does not say that the commit is over",
		equivalent: "recovery leaves lines alone that are not locked, and the next commit says that it is " +
			"locking before it locks one"},
	RecordsUnlocked: {name: "htm-records-unlocked",
		doc: "without line words, a commit goes on though its records could not be locked"},
	RecordsUnvalidated: {name: "htm-records-unvalidated",
		doc: "without line words, a commit takes place whatever its Validate says"},
	RecordsValidateFirst: {name: "htm-records-validate-first",
		doc: "without line words, a commit validates what it has read, then locks what it has written"},
	RecordsUnlockFirst: {name: "htm-records-unlock-first",
		doc: "without line words, a commit unlocks its records, then stores them"},
	RecordsKeepLocks: {name: "htm-records-keep-locks",
		doc:        "without line words, a commit that does not take place keeps its records locked",
		equivalent: "the abort that follows gives back every lock that the transaction still has"},
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
func (r *Region) lacks(m Mutation) bool { return r.cfg.Mutation == m }
