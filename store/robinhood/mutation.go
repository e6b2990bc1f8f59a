package robinhood

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks find it: each leaves out one step that the safety
// of a table rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	NoCounter Mutation = iota + 1
	KeepState
	TakeLocked
	MoveLocked
	ReclaimLive
	ReclaimAnyState
	AbsenceOutside
	NoSpent
	SwapFromFront
	SwapOutside
	ShiftUncounted
	DisplacementKept
	LoweredEarly
	NoSecondRead
	BlockSkipped
	AbsenceUnproved
	KeyUnmatched
	TornTaken
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "tables as they should be"},
	NoCounter: {Name: "robinhood-no-counter",
		Doc: "the table forgets the incarnation of a record that is given back, so that versions repeat"},
	KeepState:   {Name: "robinhood-keep-state", Doc: "a new record has the state that its slot had"},
	TakeLocked:  {Name: "robinhood-take-locked", Doc: "a free slot is taken though somebody has locked it"},
	MoveLocked:  {Name: "robinhood-move-locked", Doc: "a record is moved though somebody has locked it"},
	ReclaimLive: {Name: "robinhood-reclaim-live", Doc: "a record is given back though its key has a value"},
	ReclaimAnyState: {Name: "robinhood-reclaim-any-state",
		Doc: "a record is given back whoever has locked or leased it"},
	AbsenceOutside: {Name: "robinhood-absence-outside",
		Doc: "an absence that a region has found is not in its read set"},
	NoSpent: {Name: "robinhood-no-spent", Doc: "a record is made though the table's incarnations are used up"},
	SwapFromFront: {Name: "robinhood-swap-from-the-front",
		Doc: "an insertion clears the slot of a record before the record has its new one"},
	SwapOutside: {Name: "robinhood-swap-without-region", Doc: "an insertion moves records outside of the region"},
	ShiftUncounted: {Name: "robinhood-shift-uncounted",
		Doc: "records move towards their homes, or from a chain to a slot, and the segment word does not count it"},
	DisplacementKept: {Name: "robinhood-displacement-not-raised",
		Doc: "a record moves away from its home and its segment's displacement is not raised"},
	LoweredEarly: {Name: "robinhood-displacement-lowered-early",
		Doc: "a record leaves its slot, and its segment's displacement (d_i) falls though another record stands as far from home"},
	NoSecondRead: {Name: "robinhood-no-second-read",
		Doc:        "a look-up does not read the slots behind the displacement that it knows",
		Equivalent: "the segment word tells it so, a trip later; TestALookUpTakesThePapersTrips finds it"},
	BlockSkipped:    {Name: "robinhood-overflow-page-skipped", Doc: "a look-up does not read the overflow chain"},
	AbsenceUnproved: {Name: "robinhood-absence-unproved", Doc: "a look-up does not compare the segment word"},
	KeyUnmatched: {Name: "robinhood-large-value-freed-under-dma",
		Doc: "a look-up takes the record to which a slot led for the key's"},
	TornTaken: {Name: "robinhood-torn-record", Doc: "a look-up takes a record that is not of one version"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (t *Table) lacks(m Mutation) bool { return t.config.Mutation == m }
