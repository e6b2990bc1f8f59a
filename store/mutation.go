package store

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks of a protocol find it: each leaves
// out one step that the safety of a table rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	NoCounter Mutation = iota + 1
	NoUnbind
	KeepKey
	KeepState
	TakeLocked
	ReclaimLive
	ReclaimAnyState
	AbsenceOutside
	SameLink
	SlotFirst
	LinkFirst
	NoTableLock
	NoSpent
	ExtentsUnread
	Unnoted
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "correct tables"},
	NoCounter: {Name: "store-no-counter",
		Doc: "the table forgets the incarnation of an entry that is given back, so that versions repeat"},
	NoUnbind: {Name: "store-no-unbind", Doc: "an entry that is given back still says that it is bound to its key",
		Equivalent: "its key word goes too, and a simulation shows nothing between the stores of an entry " +
			"that is bound anew"},
	KeepKey: {Name: "store-keep-key", Doc: "an entry that is given back keeps its key until it is bound to another",
		Equivalent: "it takes a torn READ behind a lock by an old address, rarer than 1,000 seeds show; " +
			"TestOldAddressOfAnEntryProvesNothing of package store finds it"},
	KeepState: {Name: "store-keep-state", Doc: "a new entry keeps the state word of its place",
		Equivalent: "a free place that is locked is passed over, and a lease in it is over before long"},
	TakeLocked:      {Name: "store-take-locked", Doc: "a free entry is used though it is locked"},
	ReclaimLive:     {Name: "store-reclaim-live", Doc: "an entry is given back though its key has a value"},
	ReclaimAnyState: {Name: "store-reclaim-any-state", Doc: "an entry is given back though it is locked or leased"},
	AbsenceOutside:  {Name: "store-absence-outside", Doc: "an absence that a region has found is not in its read set"},
	SameLink: {Name: "store-same-link", Doc: "links are not numbered",
		Equivalent: "a transaction that finds no entry has the host make or find one, and locks or leases that"},
	SlotFirst: {Name: "store-slot-first", Doc: "a slot points to its entry before the entry is bound to the key",
		Equivalent: "the CPU stores all of it at one moment in a simulation; " +
			"TestTornReadsLeadNobodyAstray of package store finds it"},
	LinkFirst: {Name: "store-link-first", Doc: "a link points to its bucket before the bucket is filled",
		Equivalent: "as store-slot-first"},
	NoTableLock: {Name: "store-no-table-lock",
		Doc: "without line words, workers change a table at the same time",
		Equivalent: "the workers of a simulated node take turns; " +
			"TestWorkersWithoutLineWordsShareATable of package store finds it"},
	NoSpent: {Name: "store-no-spent", Doc: "an entry is made though the incarnations of the table are used up",
		Equivalent: "no run makes 2^31 insertions; a test of package store does as if"},
	ExtentsUnread: {Name: "store-extents-unread",
		Doc:        "a key that is in no extent counts as absent though the table may have got another extent",
		Equivalent: "no table of a simulation grows; TestAnAbsenceIsOfAllExtents of package store finds it"},
	Unnoted: {Name: "store-unnoted", Doc: "without line words, a change of a table that is cut off stays as it is",
		Equivalent: "a simulated machine does not stop between two stores of the CPU; " +
			"TestAChangeThatIsCutOffIsPutBack of package store finds it"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (t *Table) lacks(m Mutation) bool { return t.config.Mutation == m }
