package records

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks of a protocol find it: each leaves out one step
// that the safety of a table rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	NoCounter Mutation = iota + 1
	KeepKey
	TakeLocked
	ReclaimLive
	ReclaimAnyState
	UnlockedStripe
	NoSpent
	mutationEnd
)

// heldTest names the test that finds what no protocol does.
const heldTest = "TestWhatSomebodyHoldsIsLeftAlone finds it"

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "tables as they should be"},
	NoCounter: {Name: "records-no-counter",
		Doc: "the table forgets the incarnation of a record that is given back, so that versions repeat"},
	KeepKey: {Name: "records-keep-key", Doc: "a record that was given back keeps its key",
		Equivalent: "its version says that it is bound to none; who locks it looks at both"},
	TakeLocked: {Name: "records-take-locked", Doc: "a free place is taken though somebody has locked it",
		Equivalent: "CPUs lock, and look at the key before they do anything else; " + heldTest},
	ReclaimLive: {Name: "records-reclaim-live", Doc: "a record is given back though its key has a value",
		Equivalent: "who gives a record back has it locked, and made it absent; " + heldTest},
	ReclaimAnyState: {Name: "records-reclaim-any-state", Doc: "a record is given back whoever has locked it",
		Equivalent: "who gives a record back has it locked; " + heldTest},
	UnlockedStripe: {Name: "records-unlocked-stripe",
		Doc:        "a record is made while another worker makes or gives back one of the same key",
		Equivalent: "a simulated node makes a record at once; TestARecordIsMadeOnce finds it"},
	NoSpent: {Name: "records-no-spent", Doc: "a record is made though the table's incarnations are used up",
		Equivalent: "no run makes 2^31 insertions; TestSpentIncarnationsAreRefused does as if"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (t *Table) lacks(m Mutation) bool { return t.config.Mutation == m }
