package dlht

import "drtmd/internal/mutation"

// Mutation is a deliberate bug, for tests that show that the checks find it: each leaves out one step that
// the safety of a table rests on. The zero value is none.
type Mutation uint8

// Mutations.
const (
	SlotReusedUnderReader Mutation = iota + 1
	ChainReadWithoutRecheck
	InsertWithoutSecondLook
	ResizeLosesInsert
	LostDelete
	BatchAnswersSwapped
	FreedValueRead
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "correct tables"},
	SlotReusedUnderReader: {Name: "slot-reused-under-reader",
		Doc: "Get does not look at the header again after it has read a slot, which may hold another key by then"},
	ChainReadWithoutRecheck: {Name: "chain-read-without-recheck",
		Doc: "a key that no slot had counts as absent though the bin has changed under the search"},
	InsertWithoutSecondLook: {Name: "insert-without-second-look",
		Doc: "Insert takes its slot though the bin has got other records since it looked for the key"},
	ResizeLosesInsert: {Name: "resize-loses-insert", Doc: "a slot is taken in a bin that is being moved"},
	LostDelete: {Name: "lost-delete",
		Doc: "Delete frees the slot that it has seen, whatever has become of the bin since"},
	BatchAnswersSwapped: {Name: "batch-answers-swapped", Doc: "a batch gives two answers to each other's request"},
	FreedValueRead:      {Name: "freed-value-read", Doc: "a block is used again while a reader may still look at it"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }

func (c *core) lacks(m Mutation) bool { return c.config.Mutation == m }
