package chop

import "drtmd/internal/mutation"

// Mutation is a deliberate bug of the analysis.
type Mutation uint8

// Mutations. 0 is the correct analysis.
const (
	SkipMerge Mutation = iota + 1
	AbortInSecondPiece
	ReadCommutes
)

func (m Mutation) String() string { return mutations.Name(m) }

var mutations = mutation.Table[Mutation]{
	{Name: "none"},
	{Name: "skip-merge-of-a-cycle", Doc: "the last SC-cycle that is found is not merged"},
	{Name: "user-abort-in-second-piece", Doc: "operations with user aborts stay where they are"},
	{Name: "treat-read-as-commutative", Doc: "a read commutes with additions"},
}

// MutationNamed is the one with a name; "" and "none" are none.
func MutationNamed(name string) (Mutation, error) { return mutations.Find(name) }

// Mutations lists them.
func Mutations() []mutation.Mutation { return mutations.List("") }
