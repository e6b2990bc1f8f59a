// Package mutation describes deliberate bugs. Tests inject them, to show that the checks of a protocol
// find them.
//
// A package with mutations numbers them with a type of its own and describes them in a Table. The zero
// value of the type is no mutation: the code is correct.
package mutation

import (
	"fmt"
	"slices"
	"strings"
)

// Mutation describes a deliberate bug: it leaves out one step on which safety rests.
type Mutation struct {
	Name string
	Doc  string // one line
	// Of is the layer below the protocols whose step is left out; "": the step is the protocol's own.
	Of string
	// Equivalent is the reason why no check can find the mutation; "": checks must find it.
	Equivalent string
}

func (m Mutation) String() string { return m.Name }

// Table describes the mutations of one package, by number. Entry 0 is "none", the correct code.
type Table[M ~uint8] []Mutation

// Name is the name of a mutation, or its number if the table does not have it.
func (t Table[M]) Name(m M) string {
	if int(m) < len(t) {
		return t[m].Name
	}
	return fmt.Sprintf("mutation(%d)", uint8(m))
}

// List returns the descriptions, without "none". layer becomes their Of.
func (t Table[M]) List(layer string) []Mutation {
	list := slices.Clone(t[1:])
	for i := range list {
		list[i].Of = layer
	}
	return list
}

// All returns the numbers, without 0.
func (t Table[M]) All() (all []M) {
	for i := 1; i < len(t); i++ {
		all = append(all, M(i))
	}
	return all
}

// Find returns the mutation with a name. The names "" and "none" stand for 0. The error lists the known
// names.
func (t Table[M]) Find(name string) (M, error) {
	if name == "" || name == "none" {
		return 0, nil
	}
	var known []string
	for _, m := range t.All() {
		if t[m].Name == name {
			return m, nil
		}
		known = append(known, t[m].Name)
	}
	return 0, fmt.Errorf("unknown mutation %q; known: %s", name, strings.Join(known, ", "))
}
