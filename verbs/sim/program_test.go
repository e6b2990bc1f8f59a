package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"drtmd/verbs/smartnic"
)

var _ smartnic.NIC = (*Program)(nil)

// programs are nodes whose NICs carry programs; each notes what arrives.
type programs struct {
	w    *World
	nics []*Program
	got  [][]string
}

func newPrograms(t *testing.T, n int, preset string) *programs {
	t.Helper()
	cost, err := Preset(preset)
	must(t, err)
	p := &programs{w: worldOf(t, Config{Seed: 1, Cost: cost, EventLimit: 1e6}), got: make([][]string, n)}
	for i := range n {
		node, err := p.w.AddNode(NodeConfig{})
		must(t, err)
		nic, err := node.Attach(func(from int, b []byte) { p.note(i, from, b) })
		must(t, err)
		p.nics = append(p.nics, nic)
	}
	return p
}

func (p *programs) note(at, from int, b []byte) {
	p.got[at] = append(p.got[at], fmt.Sprintf("%d:%d", from, binary.LittleEndian.Uint32(b)))
}

func (p *programs) send(from, to int, number uint32) {
	p.nics[from].Send(to, binary.LittleEndian.AppendUint32(nil, number), 0)
}

// HADES Table III: 2 us from NIC to NIC and back.
func TestMessagesOfProgramsTakeTheRoundTripOfTheModel(t *testing.T) {
	for _, name := range Presets() {
		cost := preset(t, name)
		w := worldOf(t, Config{Cost: cost})
		var nics [2]*Program
		var ends []Time
		for i := range nics {
			n, err := w.AddNode(NodeConfig{})
			must(t, err)
			nics[i], err = n.Attach(func(from int, b []byte) {
				if i == 1 {
					nics[1].Send(from, b, int64(3*Microsecond))
				} else {
					ends = append(ends, w.Now())
				}
			})
			must(t, err)
		}
		nics[0].Send(1, make([]byte, 8), 0)
		must(t, w.Run())
		floor := cost.RoundTrip() + 3*Microsecond
		if len(ends) != 1 || ends[0] < floor || ends[0] > floor+500*Nanosecond {
			t.Errorf("%s: a message, 3 us of work and the answer take %v, the parts %s", name, ends, floor)
		}
	}
}

// Whatever happens to the network and the NICs, messages of living nodes arrive in order and once.
func TestMessagesOfProgramsStayInOrder(t *testing.T) {
	for name, schedule := range map[string]string{
		"nothing": "",
		"late":    "at 0ns delay-rc from=* to=n1 by=30us times=7",
		"cut":     "at 5us cut from=n0 to=n1 both=yes for=50us\nat 90us cut from=n2 to=* both=yes for=30us",
		"groups":  "at 10us partition groups=n0,n1|n2 for=80us",
		"slow":    "at 10us slow-nic node=n1 factor=9000 for=50us",
		"down":    "at 10us down node=n1 for=50us",
		"stopped": "at 10us pause node=n1 for=50us",
	} {
		t.Run(name, func(t *testing.T) {
			p := newPrograms(t, 3, "hades")
			s, err := ParseSchedule(schedule)
			must(t, err)
			must(t, p.w.Install(s))
			const messages = 50
			for k := range uint32(messages) {
				p.w.At(Time(k)*3*Microsecond, func() {
					for from := range 3 {
						for to := range 3 {
							if from != to {
								p.send(from, to, k)
							}
						}
					}
				})
			}
			must(t, p.w.Run())
			for to, got := range p.got {
				for from := range 3 {
					var want, seen []string
					for k := range messages {
						want = append(want, fmt.Sprintf("%d:%d", from, k))
					}
					for _, g := range got {
						if g[0] == byte('0'+from) {
							seen = append(seen, g)
						}
					}
					if from != to && !slices.Equal(seen, want) {
						t.Errorf("from %d to %d: %v", from, to, seen)
					}
				}
			}
		})
	}
}

// A program dies with its node: what was sent to it, and what it waits for, does not reach its successor.
func TestAProgramDiesWithItsNode(t *testing.T) {
	p := newPrograms(t, 2, "hades")
	n := p.w.Nodes()[1]
	if _, err := n.Attach(nil); !errors.Is(err, ErrAttached) {
		t.Errorf("a second program: %v", err)
	}
	called := false
	p.nics[1].AfterPs(int64(10*Microsecond), func() { called = true })
	p.send(0, 1, 1)
	must(t, p.w.RunUntil(5*Microsecond))
	p.send(1, 0, 2) // on its way inside of the NIC that dies
	p.send(0, 1, 3)
	n.Crash(true)
	if _, err := n.Attach(nil); !errors.Is(err, ErrAttached) {
		t.Errorf("a program of a dead node: %v", err)
	}
	n.Restart()
	nic, err := n.Attach(func(from int, b []byte) { p.note(1, from, b) })
	must(t, err)
	p.send(1, 0, 4) // of the dead program
	p.nics[1] = nic
	p.send(1, 0, 5)
	p.send(0, 1, 6)
	must(t, p.w.Run())
	if called || !slices.Equal(p.got[0], []string{"1:5"}) || !slices.Equal(p.got[1], []string{"0:1", "0:6"}) {
		t.Errorf("arrived %v; the dead program was called: %v", p.got, called)
	}
}

func TestProgramsAllocateNothing(t *testing.T) {
	w := worldOf(t, Config{})
	var nics [2]*Program
	var payload [100]byte
	var answer func()
	for i := range nics {
		n, err := w.AddNode(NodeConfig{})
		must(t, err)
		nics[i], err = n.Attach(func(int, []byte) {
			if i == 0 {
				nics[0].AfterPs(500, answer)
			} else {
				nics[1].Send(0, payload[:], 1000)
			}
		})
		must(t, err)
	}
	answer = func() { nics[0].Send(1, payload[:], 0) }
	answer()
	must(t, w.RunUntil(100*Microsecond))
	if n := testing.AllocsPerRun(1000, func() { w.RunOne(Forever) }); n > 0 {
		t.Errorf("%g allocations per event", n)
	}
}
