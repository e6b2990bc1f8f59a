package btree

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks find it: each leaves out one step that
// the safety of a table rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	NoCounter Mutation = iota + 1
	KeepState
	TakeLocked
	ReclaimLive
	ReclaimAnyState
	AbsenceOutside
	NextLeafUnprotected
	SplitUnlinked
	Uncounted
	NoSpent
	ExtentsUnread
	FingerKept
	Unnoted
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "correct tables"},
	NoCounter: {Name: "btree-no-counter",
		Doc: "the table forgets the incarnation of an entry that is given back, so that versions repeat"},
	KeepState: {Name: "btree-keep-state", Doc: "a new entry keeps the state word of its place",
		Equivalent: "a free place that is locked is passed over, and a lease in it is over before long"},
	TakeLocked:      {Name: "btree-take-locked", Doc: "a free entry is used though it is locked"},
	ReclaimLive:     {Name: "btree-reclaim-live", Doc: "an entry is given back though its key has a value"},
	ReclaimAnyState: {Name: "btree-reclaim-any-state", Doc: "an entry is given back though it is locked or leased"},
	AbsenceOutside:  {Name: "btree-absence-outside", Doc: "an absence that a region has found is not in its read set"},
	NextLeafUnprotected: {Name: "btree-next-leaf-unprotected",
		Doc: "only the first leaf of a scan is in the read set"},
	SplitUnlinked: {Name: "btree-scan-misses-split",
		Doc: "a leaf that was split does not lead to its new half, so that scans miss that"},
	Uncounted: {Name: "btree-uncounted", Doc: "changes of the tree are not counted where memory has no line words",
		Equivalent: "the CPU changes and reads the tree at one moment in a simulation; a test of package btree finds it"},
	NoSpent: {Name: "btree-no-spent", Doc: "an entry is made though the table's incarnations are used up",
		Equivalent: "no run makes 2^31 insertions; a test of package btree does as if"},
	ExtentsUnread: {Name: "btree-extents-unread",
		Doc:        "a key or a range that is in no extent counts as absent though the table may have got another extent",
		Equivalent: "no ordered table of a cluster grows; a test of package btree finds it"},
	FingerKept: {Name: "btree-finger-kept",
		Doc: "a region that has split a leaf takes the way from before to keys that have moved"},
	Unnoted: {Name: "btree-unnoted", Doc: "without line words, a change of the tree that is cut off stays as it is",
		Equivalent: "a simulated machine does not stop between two stores of the CPU; a test of package btree finds it"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (t *Table) lacks(m Mutation) bool { return t.config.Mutation == m }
