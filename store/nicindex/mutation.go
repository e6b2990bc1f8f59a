package nicindex

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks find it: each leaves out one step that the safety
// of the index rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	EvictPinned Mutation = iota + 1
	Unpinned
	StaleTaken
	LockTaken
	VersionKept
	OrderUnstamped
	HintLowered
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "an index as it should be"},
	EvictPinned: {Name: "nicindex-evict-pinned",
		Doc: "an object is evicted though the host has not applied its last commit"},
	Unpinned:    {Name: "nicindex-unpinned", Doc: "a commit does not pin its objects"},
	StaleTaken:  {Name: "nicindex-stale-taken", Doc: "a value that a DMA brings replaces one that was committed meanwhile"},
	LockTaken:   {Name: "nicindex-lock-taken", Doc: "a lock that another transaction has is granted"},
	VersionKept: {Name: "nicindex-version-not-raised", Doc: "a commit changes the value of an object and not its version"},
	OrderUnstamped: {Name: "nicindex-order-unstamped",
		Doc: "keys come and go in an order, and its stamp does not say so: ranges are validated in vain"},
	HintLowered: {Name: "nicindex-hint-lowered-early",
		Doc: "a look-up that began earlier and ends later lowers the displacement (d_i) of a segment again"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

// lacks reports whether a step is left out.
func (x *Index) lacks(m Mutation) bool { return x.config.Mutation == m }
