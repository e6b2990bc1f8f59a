package store

import "fmt"

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
	mutationEnd
)

// mutation describes one.
type mutation struct {
	name, doc string
	// equivalent says why no check can find it.
	equivalent string
}

var mutations = [mutationEnd]mutation{
	{name: "none", doc: "tables as they should be"},
	NoCounter: {name: "store-no-counter",
		doc: "the table forgets the incarnation of an entry that is given back, so that versions repeat"},
	NoUnbind: {name: "store-no-unbind", doc: "an entry that is given back says that it is its key's still",
		equivalent: "its key word goes too, and a simulation shows nothing between the stores of an entry " +
			"that is bound anew"},
	KeepKey: {name: "store-keep-key", doc: "an entry that is given back keeps its key until it is another's",
		equivalent: "it takes a torn READ behind a lock by an old address, rarer than 1,000 seeds show; " +
			"TestOldAddressOfAnEntryProvesNothing of package store finds it"},
	KeepState: {name: "store-keep-state", doc: "a new entry has the state that its place had",
		equivalent: "a free place that is locked is passed over, and a lease in it is over before long"},
	TakeLocked:      {name: "store-take-locked", doc: "a free entry is taken though somebody has locked it"},
	ReclaimLive:     {name: "store-reclaim-live", doc: "an entry is given back though its key has a value"},
	ReclaimAnyState: {name: "store-reclaim-any-state", doc: "an entry is given back whoever has locked or leased it"},
	AbsenceOutside:  {name: "store-absence-outside", doc: "an absence that a region has found is not in its read set"},
	SameLink: {name: "store-same-link", doc: "links are not numbered",
		equivalent: "who finds no entry has the host make or find one, and locks or leases that"},
	SlotFirst: {name: "store-slot-first", doc: "a slot names its entry before that is bound to the key",
		equivalent: "the CPU stores all of it at one moment in a simulation; " +
			"TestTornReadsLeadNobodyAstray of package store finds it"},
	LinkFirst: {name: "store-link-first", doc: "a link leads to its bucket before that is filled",
		equivalent: "as store-slot-first"},
	NoTableLock: {name: "store-no-table-lock",
		doc: "without line words, workers change a table at the same time",
		equivalent: "the workers of a simulated node take turns; " +
			"TestWorkersWithoutLineWordsShareATable of package store finds it"},
	NoSpent: {name: "store-no-spent", doc: "an entry is made though the table's incarnations are used up",
		equivalent: "no run makes 2^31 insertions; a test of package store does as if"},
	ExtentsUnread: {name: "store-extents-unread",
		doc:        "a key that is in no extent counts as absent though the table may have got another extent",
		equivalent: "no table of a simulation grows; TestAnAbsenceIsOfAllExtents of package store finds it"},
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
func (t *Table) lacks(m Mutation) bool { return t.config.Mutation == m }
