package rpc

import (
	"fmt"
	"testing"
	"time"

	"drtmd/verbs/fiber"
)

// Thousands of peers share the one queue pair of a port, and what each may have in flight is bounded
// so that no receive is missing, though all call at the same moment.
func TestThousandsOfPeersShareOneQueuePair(t *testing.T) {
	peers := 2000
	if raceEnabled || testing.Short() {
		peers = 200
	}
	cfgs := []Config{{Peers: peers, Window: 1, Slots: 1, MaxMessage: 256}}
	for range peers {
		cfgs = append(cfgs, Config{Peers: 1, Window: 1, Slots: 1, MaxMessage: 256, SendDepth: 4,
			PeerTimeout: 30 * time.Second})
	}
	c := newSimCluster(t, 1, nil, cfgs...)
	server := c.ports[0]
	server.Handle(typeEcho, echo)
	address := server.Address()
	bodies := []func(*fiber.Fiber) error{func(*fiber.Fiber) error { return nil }}
	for i := range peers {
		bodies = append(bodies, func(f *fiber.Fiber) error {
			s, err := c.ports[i+1].Connect(f, address, 0)
			if err != nil {
				return err
			}
			req, resp := pattern(40, i), make([]byte, 40)
			for range 3 {
				n, err := s.Call(f, typeEcho, req, resp, 0)
				if err == nil && string(resp[:n]) != string(plusOne(req)) {
					err = fmt.Errorf("peer %d got another's answer", i)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	c.run(bodies...)
	if n := server.Stats.Requests; n != uint64(3*peers) {
		t.Errorf("%d requests ran, want %d", n, 3*peers)
	}
	if lost := c.world.Stats().Dropped; lost > 0 {
		t.Errorf("%d datagrams found no receive", lost)
	}
}
