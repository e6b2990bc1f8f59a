package memnode

import (
	"fmt"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Way is how a client reaches a memory node.
type Way struct {
	Client  ClientID
	Clients int // how many numbers the memory node has
	Memory  verbs.RemoteMR
	Conns   []*fiber.Conn // one for each worker, in the order of Join
}

// Ask carries a request to the set-up service of a memory node and brings its reply.
type Ask func(Request) (Reply, error)

// Join opens a session with a memory node, with one queue pair on each of the workers. Call it before the
// workers run, or on their thread. After an error the workers are of no use any more: close them.
func Join(ask Ask, client ClientID, workers []*fiber.Worker, a verbs.ConnectAttr) (*Way, error) {
	w := &Way{}
	r := Request{Version: Version, Client: client}
	for _, worker := range workers {
		c, err := worker.NewConn(0)
		if err != nil {
			return nil, err
		}
		w.Conns = append(w.Conns, c)
		r.Endpoints = append(r.Endpoints, c.Endpoint())
	}
	reply, err := ask(r)
	if err != nil {
		return nil, err
	}
	if len(reply.Endpoints) != len(w.Conns) || reply.Client == 0 || int(reply.Client) > reply.Clients ||
		client != 0 && reply.Client != client {
		return nil, fmt.Errorf("the memory node answers client %d with client %d of %d and %d queue pairs of %d",
			client, reply.Client, reply.Clients, len(reply.Endpoints), len(w.Conns))
	}
	for i, c := range w.Conns {
		if err := c.Connect(reply.Endpoints[i], a); err != nil {
			return nil, err
		}
	}
	w.Client, w.Clients, w.Memory = reply.Client, reply.Clients, reply.Memory
	return w, nil
}
