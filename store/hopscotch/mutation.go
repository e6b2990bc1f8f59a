package hopscotch

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks of a protocol find it: each leaves
// out one step that the safety of a table rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	NoCounter Mutation = iota + 1
	KeepState
	TakeLocked
	MoveLocked
	MoveSealed
	ReclaimLive
	ReclaimAnyState
	AbsenceOutside
	NoSpent
	mutationEnd
)

// heldTest names the test that finds what no protocol does.
const heldTest = "TestWhatSomebodyHoldsIsLeftAlone finds it"

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "tables as they should be"},
	NoCounter: {Name: "hopscotch-no-counter",
		Doc: "the table forgets the incarnation of a record that is given back, so that versions repeat"},
	KeepState: {Name: "hopscotch-keep-state", Doc: "a new record has the state that its slot had",
		Equivalent: "a free slot that is locked is passed over, and a lease in it is over before long"},
	TakeLocked: {Name: "hopscotch-take-locked", Doc: "a free slot is taken though somebody has locked it",
		Equivalent: "CPUs lock, and look at the key before they do anything else; " + heldTest},
	MoveLocked: {Name: "hopscotch-move-locked", Doc: "a record is moved though somebody has locked it"},
	MoveSealed: {Name: "hopscotch-move-sealed",
		Doc: "a record that is moved leaves its seal behind, as if it were there still, and unlocked",
		Equivalent: "a record moves to make room for one that is locked then, and the lock takes the seal off; " +
			"TestAMovedRecordTakesItsSealAlong finds it"},
	ReclaimLive: {Name: "hopscotch-reclaim-live", Doc: "a record is given back though its key has a value",
		Equivalent: "who gives a record back has it locked, and made it absent; " + heldTest},
	ReclaimAnyState: {Name: "hopscotch-reclaim-any-state",
		Doc:        "a record is given back whoever has locked or leased it",
		Equivalent: "who gives a record back has it locked; " + heldTest},
	AbsenceOutside: {Name: "hopscotch-absence-outside",
		Doc:        "an absence that a region has found is not in its read set",
		Equivalent: "no protocol goes on in a region that has found an absence; TestAnAbsenceIsProtected finds it"},
	NoSpent: {Name: "hopscotch-no-spent", Doc: "a record is made though the table's incarnations are used up",
		Equivalent: "no run makes 2^31 insertions; a test of package hopscotch does as if"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (t *Table) lacks(m Mutation) bool { return t.config.Mutation == m }
