package node

import (
	"fmt"
	"slices"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
)

// How a protocol describes itself, and what its engines are made from, under the names by which
// programs that embed a cluster know them.
type (
	Protocol          = protocol.Protocol
	Mutation          = protocol.Mutation
	Env               = protocol.Env
	Peer              = proto.Peer
	TooManyNodesError = protocol.TooManyNodesError
)

// UnknownError is a name that stands for nothing.
type UnknownError struct {
	What  string // "protocol", "mutation"
	Name  string
	Known string // joined by commas
}

func (e *UnknownError) Error() string {
	if e.Known == "" {
		return fmt.Sprintf("unknown %s %q; there is none", e.What, e.Name)
	}
	return fmt.Sprintf("unknown %s %q; known: %s", e.What, e.Name, e.Known)
}

// FindProtocol finds a protocol by name, or fails with an *UnknownError.
func FindProtocol(name string) (Protocol, error) {
	list := Protocols()
	if i := slices.IndexFunc(list, func(p Protocol) bool { return p.Name == name }); i >= 0 {
		return list[i], nil
	}
	return Protocol{}, &UnknownError{What: "protocol", Name: name, Known: proto.Names(list)}
}

// ProtocolOptions are those of all protocols; an option that several have stands once. The error is a bug of
// one of them.
func ProtocolOptions() ([]option.Shared, error) {
	var owners []option.Owner
	for _, p := range Protocols() {
		owners = append(owners, option.Owner{Name: p.Name, Options: p.Options})
	}
	return option.Union(owners)
}

// DefaultProtocol is the one that runs where none is named: the first of the list.
func DefaultProtocol() Protocol { return Protocols()[0] }
