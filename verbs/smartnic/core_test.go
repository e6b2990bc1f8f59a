package smartnic_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lineword"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

// TestMessagesOfAPassShareAPacket (Xenic §4.3.2): what goes to one core of one node travels together, up to the MTU; with
// batching off each message is a packet. Either way they arrive in order.
func TestMessagesOfAPassShareAPacket(t *testing.T) {
	for _, x := range []struct {
		batching       smartnic.Batching
		bytes, packets int
	}{{0, 4, 1}, {smartnic.Bursts, 4, 20}, {smartnic.Separate, 4, 20}, {0, 200, 4}, {0, 2000, 20}} {
		t.Run(fmt.Sprintf("%v,bytes=%d", x.batching, x.bytes), func(t *testing.T) {
			r := newRig(t, rigConfig{nodes: 3, cores: 2, batching: x.batching})
			var got []uint32
			r.machines[1].cores[1].Handle(ask, func(m *smartnic.Message) {
				if m.From != 0 || m.Sender != 0 || m.Kind != ask || len(m.Payload) != x.bytes {
					t.Errorf("%+v", m)
				}
				got = append(got, binary.LittleEndian.Uint32(m.Payload))
			})
			var errs []error
			r.machines[0].on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
				for i := range uint32(20) {
					b := make([]byte, x.bytes)
					binary.LittleEndian.PutUint32(b, i)
					c.Send(1, 1, ask, b)
				}
				return nil
			}, &errs)
			r.run()
			s := r.machines[0].cores[0].Stats
			if len(got) != 20 || !slices.IsSorted(got) || int(s.Sent) != x.packets || s.MessagesOut != 20 {
				t.Errorf("%v, %+v", got, s)
			}
		})
	}
}

// TestAProgramAwaitsDMAAndSendsToAThird: a request is answered to another node than its sender, by a fiber that has read
// the host's memory; meanwhile the core takes other requests.
func TestAProgramAwaitsDMAAndSendsToAThird(t *testing.T) {
	r := newRig(t, rigConfig{nodes: 3, cores: 1})
	const requests = 40
	server := r.machines[1]
	for i := range requests {
		server.memory.Bytes()[i*64] = byte(i + 1)
	}
	server.cores[0].Handle(ask, func(m *smartnic.Message) {
		at := int(m.Payload[0])
		server.cores[0].Worker().Go("serve", nil, func(f *fiber.Fiber) error {
			var x smartnic.Transfer
			b := make([]byte, 64)
			server.cores[0].StartRead(&x, server.memory.RKey(), at*64, b)
			if err := x.Await(f); err != nil {
				return err
			}
			server.cores[0].Send(2, 0, answer, []byte{byte(at), b[0]})
			return nil
		})
	})
	answers := 0
	var last sim.Time
	r.machines[2].cores[0].Handle(answer, func(m *smartnic.Message) {
		if m.From != 1 || m.Payload[1] != m.Payload[0]+1 {
			t.Errorf("%+v", m)
		}
		answers++
		last = r.world.Now()
	})
	var errs []error
	r.machines[0].on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
		for i := range requests {
			c.Send(1, 0, ask, []byte{byte(i)})
		}
		return nil
	}, &errs)
	r.run()
	s := server.cores[0].Stats
	if answers != requests || s.Transfers != requests || s.Vectors > 6 || last > 20*sim.Microsecond {
		t.Errorf("%d answers until %v, %+v", answers, last, s)
	}
}

// TestDMAsOfAPassShareVectors (Xenic §4.3.1): 15 to a vector; a submission takes 190 ns of the core, a completion 1295 ns
// or 570 ns behind it. With batching off each is a vector.
func TestDMAsOfAPassShareVectors(t *testing.T) {
	for _, x := range []struct {
		name     string
		write    bool
		batching smartnic.Batching
		n        int
		vectors  uint64
		least    time.Duration // the first completion
	}{
		{"one read", false, 0, 1, 1, 1295 * time.Nanosecond},
		{"one write", true, 0, 1, 1, 570 * time.Nanosecond},
		{"a vector", false, smartnic.Bursts, 15, 1, 1295 * time.Nanosecond},
		{"three vectors", true, 0, 31, 3, 570 * time.Nanosecond},
		{"without batching", false, smartnic.Separate, 15, 15, 1295 * time.Nanosecond},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t, rigConfig{nodes: 1, cores: 1, batching: x.batching})
			m := r.machines[0]
			var errs []error
			var took time.Duration
			m.on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
				transfers, buffers := make([]smartnic.Transfer, x.n), make([]byte, x.n*64)
				begin := f.Now()
				for i := range transfers {
					b := buffers[i*64:][:64]
					if x.write {
						b[0] = byte(i + 1)
						c.StartWrite(&transfers[i], m.memory.RKey(), i*64, b)
					} else {
						m.memory.Bytes()[i*64] = byte(i + 1)
						c.StartRead(&transfers[i], m.memory.RKey(), i*64, b)
					}
				}
				for i := range transfers {
					if err := transfers[i].Await(f); err != nil {
						return err
					}
					if i == 0 {
						took = f.Now() - begin
					}
				}
				for i := range transfers {
					if m.memory.Bytes()[i*64] != byte(i+1) || buffers[i*64] != byte(i+1) {
						return fmt.Errorf("element %d: %d in the host, %d in the NIC", i, m.memory.Bytes()[i*64], buffers[i*64])
					}
				}
				return nil
			}, &errs)
			r.run()
			must(t, errors.Join(errs...))
			if s := m.cores[0].Stats; s.Vectors != x.vectors || s.Transfers != uint64(x.n) {
				t.Errorf("%+v", s)
			}
			most := x.least + time.Duration(x.vectors)*190 + 300
			if took < x.least || took > most {
				t.Errorf("the first took %v, not from %v to %v", took, x.least, most)
			}
		})
	}
}

// TestDMAWaitsForLockedLines, and a write raises the line's version: it is an event between the lines of others.
func TestDMAWaitsForLockedLines(t *testing.T) {
	r := newRig(t, rigConfig{nodes: 1, cores: 1})
	m := r.machines[0]
	words := m.memory.Lines()
	was := lineword.Load(&words[1])
	if !lineword.TryLock(&words[1], was, 1) {
		t.Fatal("not locked")
	}
	r.world.At(5*sim.Microsecond, func() { lineword.Unlock(&words[1], was) })
	var errs []error
	var ended time.Duration
	m.on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
		var x smartnic.Transfer
		c.StartWrite(&x, m.memory.RKey(), 0, bytes.Repeat([]byte{7}, 192))
		err := x.Await(f)
		ended = f.Now()
		return err
	}, &errs)
	r.run()
	must(t, errors.Join(errs...))
	if ended < 5*time.Microsecond || m.memory.Bytes()[191] != 7 || lineword.Load(&words[2]) == 0 {
		t.Errorf("ended at %v, line word %v", ended, lineword.Load(&words[2]))
	}
}

// TestDMAOutsideOfMemoryFails.
func TestDMAOutsideOfMemoryFails(t *testing.T) {
	r := newRig(t, rigConfig{nodes: 1, cores: 1})
	m := r.machines[0]
	for _, x := range []struct {
		name string
		rkey uint32
		off  int
	}{{"behind the end", m.memory.RKey(), 1<<16 - 63}, {"before the beginning", m.memory.RKey(), -1},
		{"no region", m.memory.RKey() + 1<<20, 0}} {
		var errs []error
		m.on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
			var t smartnic.Transfer
			c.StartRead(&t, x.rkey, x.off, make([]byte, 64))
			return t.Await(f)
		}, &errs)
		r.run()
		if len(errs) != 1 || !errors.Is(errs[0], smartnic.ErrDMA) {
			t.Errorf("%s: %v", x.name, errs)
		}
	}
}

// TestHostAndNICTalk: a message of the host reaches a core, and the answer the host, over PCIe both ways.
func TestHostAndNICTalk(t *testing.T) {
	r := newRig(t, rigConfig{nodes: 1, cores: 2})
	m := r.machines[0]
	m.cores[1].Handle(ask, func(x *smartnic.Message) {
		if x.From != smartnic.Host || x.Sender != 0 {
			t.Errorf("%+v", x)
		}
		m.cores[1].SendHost(0, answer, append([]byte{1}, x.Payload...))
	})
	var got []byte
	var at sim.Time
	m.port.Handle(answer, func(x *smartnic.Message) {
		got, at = append(got, x.Payload...), r.world.Now()
	})
	m.hosts.Submit("host", func(*fiber.Fiber) error { m.port.Send(1, ask, []byte{42}); return nil }, nil)
	r.run()
	if !bytes.Equal(got, []byte{1, 42}) || at < 1865*sim.Nanosecond || at > 4*sim.Microsecond {
		t.Errorf("%v at %v", got, at)
	}
}

// TestCoresSlowDownTogether (Xenic Table 1): alone 2.04 times a host core's time, all of them 3.26 times.
func TestCoresSlowDownTogether(t *testing.T) {
	for _, x := range []struct{ cores, want int }{{1, 2040}, {24, 3260}} {
		r := newRig(t, rigConfig{nodes: 1, cores: x.cores})
		m := r.machines[0]
		var errs []error
		spent := make([]time.Duration, x.cores)
		for i := range x.cores {
			m.on(i, func(f *fiber.Fiber, c *smartnic.Core) error {
				c.Work(f, 100_000) // all have run when the next begins
				begin := f.Now()
				c.Work(f, 1_000_000)
				spent[i] = f.Now() - begin
				return nil
			}, &errs)
		}
		r.run()
		must(t, errors.Join(errs...))
		if last := spent[x.cores-1]; last != time.Duration(x.want) {
			t.Errorf("%d cores: 1 us of work takes %v", x.cores, last)
		}
	}
}

// TestMemoryOfTheNICIsBounded, and a cost model without cores has none.
func TestMemoryOfTheNICIsBounded(t *testing.T) {
	cost, err := sim.Preset("liquidio3")
	must(t, err)
	cost.Cores.Memory = 1 << 20
	world, err := sim.New(sim.Config{Cost: cost})
	must(t, err)
	n, err := world.AddNode(sim.NodeConfig{})
	must(t, err)
	b, err := n.AttachBoard()
	must(t, err)
	if x, err := b.Alloc(1 << 19); err != nil || len(x) != 1<<19 {
		t.Error(err)
	}
	if _, err := b.Alloc(1<<19 + 1); !errors.Is(err, sim.ErrNICMemory) {
		t.Error(err)
	}
	if _, err := n.AttachBoard(); !errors.Is(err, sim.ErrAttached) {
		t.Error(err)
	}
	plain, err := sim.New(sim.Config{})
	must(t, err)
	p, err := plain.AddNode(sim.NodeConfig{})
	must(t, err)
	if _, err := p.AttachBoard(); !errors.Is(err, sim.ErrNoCores) {
		t.Error(err)
	}
}

// TestACrashTakesWhatIsUnderWay: neither the completion of a DMA nor packets and messages of the old life come in the
// next one, whose programs begin anew.
func TestACrashTakesWhatIsUnderWay(t *testing.T) {
	for _, at := range []sim.Time{200 * sim.Nanosecond, 900 * sim.Nanosecond, 1500 * sim.Nanosecond, 3 * sim.Microsecond} {
		r := newRig(t, rigConfig{nodes: 2, cores: 1})
		a, b := r.machines[0], r.machines[1]
		late := 0
		var errs []error
		begin := func() {
			b.cores[0].Handle(ask, func(m *smartnic.Message) {
				if late == 0 && m.Payload[0] == 0 && b.node.Incarnation() > 0 {
					t.Error("a packet of the old life")
				}
				late++
			})
			b.on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
				life := b.node.Incarnation()
				var x smartnic.Transfer
				c.StartRead(&x, b.memory.RKey(), 0, make([]byte, 640))
				err := x.Await(f)
				if b.node.Incarnation() != life {
					t.Error("a completion of the old life")
				}
				return err
			}, &errs)
		}
		begin()
		a.on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
			c.Send(1, 0, ask, []byte{0})
			return nil
		}, &errs)
		r.world.At(at, func() {
			b.node.Crash(false)
			b.die()
		})
		r.world.At(at+sim.Microsecond, func() {
			b.node.Restart()
			r.boot(b, rigConfig{cores: 1})
			late = 0
			begin()
		})
		r.world.At(at+20*sim.Microsecond, func() {
			a.on(0, func(f *fiber.Fiber, c *smartnic.Core) error { c.Send(1, 0, ask, []byte{1}); return nil }, &errs)
		})
		r.run()
		if late != 1 {
			t.Errorf("crash at %v: %d messages in the next life", at, late)
		}
	}
}

// TestAPausedNICGoesOnLater: nothing is lost while its cores stand still, and its host works on.
func TestAPausedNICGoesOnLater(t *testing.T) {
	r := newRig(t, rigConfig{nodes: 2, cores: 1})
	got := 0
	r.machines[1].cores[0].Handle(ask, func(m *smartnic.Message) {
		if got++; r.world.Now() < 100*sim.Microsecond {
			t.Errorf("a paused core takes a message at %v", r.world.Now())
		}
	})
	host := false
	r.machines[1].hosts.Submit("host", func(f *fiber.Fiber) error {
		host = f.Now() < 50*time.Microsecond
		return nil
	}, nil)
	r.machines[1].board.Pause(100 * sim.Microsecond)
	var errs []error
	r.machines[0].on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
		for range 10 {
			c.Send(1, 0, ask, []byte{0})
			if err := f.Sleep(time.Microsecond); err != nil {
				return err
			}
		}
		return nil
	}, &errs)
	r.run()
	must(t, errors.Join(errs...))
	if got != 10 || !host {
		t.Errorf("%d messages, the host runs: %v", got, host)
	}
}

// TestPacketsStayInOrderUnderFaults, and come once.
func TestPacketsStayInOrderUnderFaults(t *testing.T) {
	for name, schedule := range map[string]string{
		"nothing": "",
		"late":    "at 0ns delay-rc from=* to=n1 by=30us times=7",
		"cut":     "at 5us cut from=n0 to=n1 both=yes for=50us\nat 90us cut from=n2 to=* both=yes for=30us",
		"slow":    "at 10us slow-nic node=n1 factor=9000 for=50us",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigConfig{nodes: 3, cores: 1})
			s, err := sim.ParseSchedule(schedule)
			must(t, err)
			must(t, r.world.Install(s))
			next := map[int]uint32{}
			r.machines[1].cores[0].Handle(note, func(m *smartnic.Message) {
				if n := binary.LittleEndian.Uint32(m.Payload); n != next[m.From] {
					t.Errorf("from %d came %d, want %d", m.From, n, next[m.From])
				}
				next[m.From]++
			})
			var errs []error
			for _, from := range []int{0, 2} {
				r.machines[from].on(0, func(f *fiber.Fiber, c *smartnic.Core) error {
					for i := range uint32(100) {
						c.Send(1, 0, note, binary.LittleEndian.AppendUint32(nil, i))
						if err := f.Sleep(time.Microsecond); err != nil {
							return err
						}
					}
					return nil
				}, &errs)
			}
			r.run()
			must(t, errors.Join(errs...))
			if next[0] != 100 || next[2] != 100 {
				t.Errorf("%v", next)
			}
		})
	}
}

// TestNothingAllocatesOnceBuffersHaveGrown: messages, DMAs and host packets go round many times.
func TestNothingAllocatesOnceBuffersHaveGrown(t *testing.T) {
	if invariant.Enabled {
		t.Skip("counts allocations of the plain build")
	}
	r := newRig(t, rigConfig{nodes: 2, cores: 1})
	a, b := r.machines[0], r.machines[1]
	left := 0
	var x smartnic.Transfer
	buffer := make([]byte, 128)
	a.cores[0].Handle(answer, func(m *smartnic.Message) {
		if left--; left > 0 {
			if x.Done() {
				a.cores[0].StartRead(&x, a.memory.RKey(), 64, buffer)
			}
			a.cores[0].Send(1, 0, ask, buffer)
			a.cores[0].SendHost(0, note, buffer)
		}
	})
	a.port.Handle(note, func(*smartnic.Message) {})
	b.cores[0].Handle(ask, func(m *smartnic.Message) { b.cores[0].Send(m.From, int(m.Sender), answer, m.Payload) })
	round := func() {
		left = 2000
		a.hosts.Submit("begin", func(*fiber.Fiber) error { a.cores[0].Send(1, 0, ask, buffer); a.cores[0].Worker().Wake(); return nil }, nil)
		r.run()
	}
	round()
	if n := testing.AllocsPerRun(3, round); n > 20 {
		t.Errorf("%.0f allocations for 2000 messages each way", n)
	}
}

// TestRunsAreTheSame: two worlds with the same seed have the same trace.
func TestRunsAreTheSame(t *testing.T) {
	var hashes []uint64
	for range 2 {
		r := newRig(t, rigConfig{nodes: 3, cores: 4})
		for _, m := range r.machines {
			for _, c := range m.cores {
				c.Handle(ask, func(x *smartnic.Message) {
					if hops := x.Payload[0]; hops > 0 {
						c.Send((m.node.Index()+1)%3, int(hops)%4, ask, []byte{hops - 1})
					}
				})
			}
		}
		var errs []error
		for i, m := range r.machines {
			m.on(i, func(f *fiber.Fiber, c *smartnic.Core) error {
				c.Send((i+1)%3, 0, ask, []byte{200})
				return nil
			}, &errs)
		}
		r.run()
		hashes = append(hashes, r.world.Hash())
	}
	if hashes[0] != hashes[1] {
		t.Errorf("traces %#x", hashes)
	}
}
