package node

import (
	"fmt"
	"slices"

	"drtmd/proto"
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

// FindProtocol finds a protocol by name, also among a program's own, or fails with an *UnknownError.
func FindProtocol(name string, own ...Protocol) (Protocol, error) {
	list := Protocols(own...)
	if i := slices.IndexFunc(list, func(p Protocol) bool { return p.Name == name }); i >= 0 {
		return list[i], nil
	}
	return Protocol{}, &UnknownError{What: "protocol", Name: name, Known: proto.Names(list)}
}

// DefaultProtocol is the one that runs where none is named: the first of the list.
func DefaultProtocol() Protocol { return Protocols()[0] }
