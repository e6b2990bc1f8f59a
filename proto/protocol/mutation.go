package protocol

import (
	"fmt"

	"drtmd/proto"
)

// Bug is a Mutation as the packages that have it describe it.
type Bug interface {
	String() string
	Doc() string
	Equivalent() string
}

// Mutations describes a protocol's own deliberate bugs.
func Mutations[B Bug](bugs []B) []Mutation { return MutationsOf("", bugs) }

// MutationsOf describes those of a layer below the protocols; "" is none.
func MutationsOf[B Bug](layer string, bugs []B) (list []Mutation) {
	for _, m := range bugs {
		list = append(list, Mutation{Name: m.String(), Doc: m.Doc(), Of: layer,
			Equivalent: m.Equivalent()})
	}
	return list
}

// FindBug is the one of a name; "" and "none" are the zero value, which is no bug. For another name the
// error lists those there are.
func FindBug[B Bug](bugs []B, name string) (bug B, err error) {
	if name == "" || name == "none" {
		return bug, nil
	}
	for _, m := range bugs {
		if m.String() == name {
			return m, nil
		}
	}
	return bug, fmt.Errorf("unknown mutation %q: the known ones are %s", name, proto.Names(bugs))
}

// Engine is what a New gave, as a proto.Engine: nil, and not one that holds a nil pointer, after an
// error.
func Engine[E proto.Engine](e E, err error) (proto.Engine, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}
