package drtm

import (
	"fmt"

	"drtmd/proto"
)

// Mutation is a deliberate bug, for tests that show that the checker or an invariant finds it.
type Mutation uint8

// Mutations. 0 is the protocol as it should be.
const (
	ConfirmBeforeLock Mutation = iota + 1
	NoConfirm
	SoftTimeInValid
	NoStateCheck
	NoIncarnationCheck
	UnlockBeforeWriteBack
	mutationEnd
)

// mutations are names and descriptions.
var mutations = [mutationEnd][2]string{
	{"none", "the protocol as it should be"},
	{"confirm-before-lock", "leases are confirmed before the region's lines are locked, as printed"},
	{"no-confirm", "leases are not confirmed"},
	{"softtime-in-valid", "VALID reads softtime, not the clock"},
	{"no-state-check", "LOCAL_WRITE does not look at the state of the record"},
	{"no-incarnation-check", "a location is trusted whatever key and version its entry has"},
	{"unlock-before-write-back", "remote records are unlocked, then written"},
}

func (m Mutation) String() string {
	if m < mutationEnd {
		return mutations[m][0]
	}
	return fmt.Sprintf("mutation(%d)", uint8(m))
}

// Doc is one line on what is wrong.
func (m Mutation) Doc() string {
	if m < mutationEnd {
		return mutations[m][1]
	}
	return "unknown"
}

// Equivalent says why no check can find it; "" is one that checks must find.
func (m Mutation) Equivalent() string { return "" }

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
	for m, n := range mutations {
		if n[0] == name {
			return Mutation(m), nil
		}
	}
	return 0, fmt.Errorf("unknown mutation %q: the known ones are %s", name,
		proto.Names(Mutations()))
}
