package drtm

import (
	"fmt"

	"drtmd/proto"
)

// Mutation is a deliberate bug, for tests that show that the checker or an invariant finds it.
type Mutation uint8

// Mutations. 0 is the protocol as it should be.
const (
	ConfirmBeforeLock     Mutation = iota + 1 // leases are confirmed before XEND, as Figure 9 prints
	NoConfirm                                 // leases are not confirmed at all
	SoftTimeInValid                           // VALID reads softtime
	NoStateCheck                              // LOCAL_WRITE does not look at the state
	NoIncarnationCheck                        // a location is trusted without looking at the entry
	UnlockBeforeWriteBack                     // the remote lock is released, then the value written
	mutationEnd
)

var mutationNames = [mutationEnd]string{"none", "confirm-before-lock", "no-confirm",
	"softtime-in-valid", "no-state-check", "no-incarnation-check", "unlock-before-write-back"}

func (m Mutation) String() string {
	if m < mutationEnd {
		return mutationNames[m]
	}
	return fmt.Sprintf("mutation(%d)", uint8(m))
}

// Mutations are all there are.
func Mutations() []Mutation {
	var all []Mutation
	for m := ConfirmBeforeLock; m < mutationEnd; m++ {
		all = append(all, m)
	}
	return all
}

// ParseMutation finds a mutation by its name; "" and "none" are no mutation.
func ParseMutation(name string) (Mutation, error) {
	if name == "" {
		return 0, nil
	}
	for m, n := range mutationNames {
		if n == name {
			return Mutation(m), nil
		}
	}
	return 0, fmt.Errorf("unknown mutation %q: the known ones are %s", name,
		proto.Names(Mutations()))
}
