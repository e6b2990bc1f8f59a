package rpc

import (
	"fmt"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// TestPortsOutlastAnInterfaceThatIsDown: what is sent while the interface is down fails with the queue
// pair, as on Soft-RoCE. Sessions and addresses stay, and every call is answered after it, once.
func TestPortsOutlastAnInterfaceThatIsDown(t *testing.T) {
	ms := sim.Of(time.Millisecond)
	for _, c := range []struct {
		name   string
		faults string
	}{
		{"the client's", "at 300us down node=n0 for=20ms"},
		// While it works at an answer.
		{"the server's", "at 100us down node=n1 for=20ms"},
		// With datagrams sent without a signal behind which nothing comes.
		{"nobody's: the device breaks the queue pairs", "at 250us break-qps node=n0\n" +
			"at 40ms break-qps node=n1\nat 41ms break-qps node=n0"},
		{"both, three times", "at 300us down node=n0 for=5ms\nat 310us down node=n1 for=9ms\n" +
			"at 40ms down node=n1 for=1ms\nat 60ms down node=n0 for=20ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults, err := sim.ParseSchedule(c.faults)
			if err != nil {
				t.Fatal(err)
			}
			cfg := Config{PeerTimeout: 10 * time.Second, Tries: 1000}
			x := newSimCluster(t, 1, faults, cfg, cfg)
			served := 0
			x.ports[1].HandleFiber(typeEcho, func(f *fiber.Fiber, req, resp []byte) (int, error) {
				served++
				if err := f.Sleep(200 * time.Microsecond); err != nil {
					return 0, err
				}
				return echo(req, resp)
			})
			const calls = 200
			address := x.ports[1].Address()
			x.run(func(f *fiber.Fiber) error {
				s, err := x.ports[0].Connect(f, address, 0)
				if err != nil {
					return err
				}
				var resp [64]byte
				for i := range calls {
					n, err := s.Call(f, typeEcho, []byte{byte(i)}, resp[:], 0)
					if err != nil {
						return err
					}
					if n != 1 || resp[0] != byte(i)+1 { // as echo answers
						t.Errorf("call %d was answered with %x", i, resp[:n])
					}
					if err := f.Sleep(500 * time.Microsecond); err != nil {
						return err
					}
				}
				return nil
			})
			if served != calls {
				t.Errorf("%d calls were served, of %d", served, calls)
			}
			lost := x.ports[0].Stats.Lost + x.ports[1].Stats.Lost
			if lost == 0 || x.world.Now() < 100*ms {
				t.Errorf("%d failures of queue pairs until %v: the outage struck nothing", lost, x.world.Now())
			}
			if x.ports[1].Address() != address || x.ports[0].Err() != nil || x.ports[1].Err() != nil {
				t.Errorf("ports end with %v, %v", x.ports[0].Err(), x.ports[1].Err())
			}
		})
	}
}

// TestPortsOutlastAnOutageOfAnyLength has a client try to connect all the time while its interface is
// down for ten minutes, with tries to heal that fail since not all was polled yet: the port goes on, at a
// bounded rate, and works at once when the interface does.
func TestPortsOutlastAnOutageOfAnyLength(t *testing.T) {
	const outage = 10 * time.Minute
	faults, err := sim.ParseSchedule("at 1ms down node=n0 for=600s")
	if err != nil {
		t.Fatal(err)
	}
	x := newSimCluster(t, 1, faults, Config{}, Config{})
	p, tried, early := x.ports[0], 0, 0
	x.ports[1].Handle(typeEcho, echo)
	x.run(func(f *fiber.Fiber) error {
		if err := f.Sleep(2 * time.Millisecond); err != nil {
			return err
		}
		for {
			s, err := p.Connect(f, x.ports[1].Address(), f.Now()+time.Second)
			if err == nil {
				_, err = s.Call(f, typeEcho, []byte{1}, make([]byte, 8), 0)
				return err
			}
			if f.Now() > outage+2*time.Second {
				return fmt.Errorf("a second after the outage: %w", err)
			}
			tried++
			if p.down != nil {
				p.heal()
				p.lose(verbs.WCLocQPOpErr, err) // its receives are flushed, and polled after this try
				p.heal()
				if p.down != nil {
					early++
				}
			}
			if err := f.Sleep(10 * time.Millisecond); err != nil {
				return err
			}
		}
	})
	most := uint64(outage/defaultHealMost) * 2
	if tried < 100 || early == 0 || p.Stats.Lost < 500 || p.Stats.Lost > most {
		t.Errorf("%d tries to connect, %d to heal too early, and %d to heal: want hundreds, and at most %d",
			tried, early, p.Stats.Lost, most)
	}
	if err := p.Err(); err != nil {
		t.Errorf("the port ends with %v", err)
	}
}
