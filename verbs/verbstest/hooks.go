package verbstest

import (
	"fmt"
	"sync/atomic"

	"drtmd/verbs"
)

// hookCases: what some providers offer beyond the verbs. Where one lacks it, the case checks
// that the layer says so.
func hookCases() []Case {
	return []Case{
		{Name: "hooks/line words follow remote operations", Body: lineWords},
		{Name: "hooks/a CQ and a channel call on arrival", Body: arrivals},
		{Name: "hooks/line owners are lent to as many as were asked for", Body: lineOwners},
		{Name: "hooks/kept memory is opened again", Alone: true, Body: kept},
		{Name: "hooks/kept memory outlives a killed process", Apart: true, Body: keptOutlives},
	}
}

// lacks checks the refusal of a provider without a capability, and says whether it lacks it.
func (p *Proc) lacks(has bool, what string, try func() error) bool {
	if has {
		return false
	}
	p.MustBe(what, try(), verbs.ErrUnsupported)
	return true
}

// farWrite has the peer WRITE n bytes to the near MR at offset, and gives the status.
func (x *pair) farWrite(offset, n int) verbs.WCStatus {
	x.far.post(verbs.WR{ID: 1, Op: verbs.OpWrite, Flags: verbs.FlagSignaled,
		RemoteAddr: x.mr.Addr() + uint64(offset), RKey: x.mr.RKey(), NumSGE: 1,
		SGE: x.far.sge(0, n)})
	return x.far.sent(1)[0].Status
}

// farDo is the same for an operation of 8 bytes.
func (x *pair) farDo(op verbs.Opcode, offset int) verbs.WCStatus {
	x.far.post(verbs.WR{ID: 1, Op: op, Flags: verbs.FlagSignaled, CompareAdd: 0, Swap: 1,
		RemoteAddr: x.mr.Addr() + uint64(offset), RKey: x.mr.RKey(), NumSGE: 1,
		SGE: x.far.sge(0, 8)})
	return x.far.sent(1)[0].Status
}

func (x *side) lineWord(i int) uint64 { return atomic.LoadUint64(&x.mr.Lines()[i]) }

func lineWords(p *Proc) {
	x := p.pair(spec{MRBytes: 1000}, spec{})
	if !p.Context().Attr().Caps.LineWords {
		if x.mr.Lines() != nil {
			p.Fatalf("line words without the capability")
		}
		return
	}
	if n := len(x.mr.Lines()); n != 16 {
		p.Fatalf("1000 bytes have %d line words, want 16", n)
	}
	words := make([]uint64, 16)
	look := func() {
		for i := range words {
			words[i] = x.lineWord(i)
		}
	}
	changed := func() (lines []int) {
		for i := range words {
			if x.lineWord(i) != words[i] {
				lines = append(lines, i)
			}
		}
		look()
		return lines
	}
	look()
	expect := func(what string, status verbs.WCStatus, want ...int) {
		if status != verbs.WCSuccess {
			p.Fatalf("%s: %s", what, status)
		}
		if got := changed(); fmt.Sprint(got) != fmt.Sprint(want) {
			p.Fatalf("%s changed the words of lines %v, want %v", what, got, want)
		}
	}
	expect("a WRITE over a line's end", x.farWrite(120, 16), 1, 2)
	expect("a WRITE of the last bytes", x.farWrite(990, 10), 15)
	expect("a READ", x.farDo(verbs.OpRead, 128))
	expect("a CAS that swaps", x.farDo(verbs.OpCAS, 320), 5)
	expect("a CAS that finds another value", x.farDo(verbs.OpCAS, 320))
	expect("an FAA", x.farDo(verbs.OpFAA, 392), 6)
	x.postRecv(1, 512, 64)
	x.far.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.far.sge(0, 64)})
	x.far.sent(1)
	p.wait(x.rcq, 1)
	expect("a received message", verbs.WCSuccess, 8)
}
