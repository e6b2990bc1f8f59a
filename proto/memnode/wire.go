package memnode

import (
	"errors"
	"fmt"

	"drtmd/verbs"
)

// Version is that of the set-up service.
const Version = 1

// ClientID is the number of a client, from 1. 0 in a Request asks for any that is free.
type ClientID uint16

// MaxClient is the largest.
const MaxClient = 1<<16 - 1

// Request is what a client says of itself.
type Request struct {
	Version   int
	Client    ClientID
	Endpoints []verbs.Endpoint // of its queue pairs, in INIT
}

// Reply is what the memory node gives it.
type Reply struct {
	Client    ClientID
	Clients   int              // how many numbers there are
	Endpoints []verbs.Endpoint // the other ends, in the order of the request
	Memory    verbs.RemoteMR
}

// Reasons of a refusal.
var (
	// ErrVersion: the two sides speak different versions of the service.
	ErrVersion = errors.New("another version of the set-up service")
	// ErrInUse: a session of a client that lives has the number.
	ErrInUse = errors.New("client number in use")
	// ErrFull: no client number, or no queue pair, is free.
	ErrFull = errors.New("memory node full")
	// ErrRequest: the request makes no sense.
	ErrRequest = errors.New("wrong request")
)

// check refuses what no client may ask for.
func (r *Request) check(cfg *Config) error {
	switch {
	case r.Version != Version:
		return fmt.Errorf("%w: the client speaks %d, the memory node %d: run the same release on both sides",
			ErrVersion, r.Version, Version)
	case int(r.Client) > cfg.Clients:
		return fmt.Errorf("%w: client number %d: the memory node takes 1..%d", ErrRequest, r.Client, cfg.Clients)
	case len(r.Endpoints) == 0 || len(r.Endpoints) > cfg.QueuePairs:
		return fmt.Errorf("%w: %d queue pairs: the memory node takes 1..%d of a client", ErrRequest,
			len(r.Endpoints), cfg.QueuePairs)
	}
	return nil
}
