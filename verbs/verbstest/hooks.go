package verbstest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"drtmd/verbs"
)

// hookCases: what some providers offer beyond the verbs. Where one lacks it, the case checks
// that the layer says so.
func hookCases() []Case {
	return []Case{
		{Name: "hooks/line words follow remote operations", Body: lineWords},
		{Name: "hooks/a waiter for a line sees it change", Body: awaitLine},
		{Name: "hooks/a waiter for a line that stays times out", Alone: true, Body: awaitNothing},
		{Name: "hooks/a pre-access hook sees every access and denies", Body: preAccessDenies},
		{Name: "hooks/a pre-access hook stalls for a while", Body: preAccessStalls},
		{Name: "hooks/a pre-access hook stalls beyond the retries", Body: preAccessStallsOn},
		{Name: "hooks/an extension runs at the target", Body: extension},
		{Name: "hooks/an extension that fails says so", Body: extensionFails},
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
	expect("an FAA", x.farDo(verbs.OpFAA, 392), 6)
	x.postRecv(1, 512, 64)
	x.far.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.far.sge(0, 64)})
	x.far.sent(1)
	p.wait(x.rcq, 1)
	expect("a received message", verbs.WCSuccess, 8)
}

func awaitLine(p *Proc) {
	x := p.pair(spec{}, spec{})
	if p.lacks(p.Context().Attr().Caps.AwaitLine, "await a line", func() error {
		_, err := p.AwaitLine(x.mr, 0, 0, p.Deadline())
		return err
	}) {
		return
	}
	for i := range p.Scaled(50) {
		seen := x.lineWord(3)
		x.far.poke(0, wordBytes(uint64(i+1)))
		x.far.ask(request{Do: "send", WRs: []verbs.WR{{ID: 1, Op: verbs.OpWrite,
			Flags: verbs.FlagSignaled, RemoteAddr: x.mr.Addr() + 192, RKey: x.mr.RKey(),
			NumSGE: 1, SGE: x.far.sge(0, 8)}}})
		now, err := p.AwaitLine(x.mr, 3, seen, p.Deadline())
		p.Must("await the line", err)
		if now == seen {
			p.Fatalf("the word is still %#x", seen)
		}
		x.far.sent(1)
		p.equal("the line", x.bytes(192, 8), wordBytes(uint64(i+1)))
	}
}

func awaitNothing(p *Proc) {
	x := p.newSide(spec{})
	if p.lacks(p.Context().Attr().Caps.AwaitLine, "await a line", func() error {
		_, err := p.AwaitLine(x.mr, 0, 0, p.Deadline())
		return err
	}) {
		return
	}
	before, seen := p.Now(), x.lineWord(1)
	now, err := p.AwaitLine(x.mr, 1, seen, before+20*time.Millisecond)
	p.MustBe("await a line that stays", err, os.ErrDeadlineExceeded)
	if took := p.Now() - before; now != seen || took < 20*time.Millisecond {
		p.Fatalf("after %s it gave %#x, the word was %#x", took, now, seen)
	}
	now, err = p.AwaitLine(x.mr, 1, seen+2, p.Deadline())
	if err != nil || now != seen {
		p.Fatalf("a word that differs at once: %#x, %v", now, err)
	}
}

// judge is a pre-access hook that notes what it saw.
type judge struct {
	mu      sync.Mutex
	verdict func(verbs.AccessRequest) verbs.Verdict
	seen    []verbs.AccessRequest
}

func (j *judge) hook(r verbs.AccessRequest) verbs.Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, r)
	return j.verdict(r)
}

func (j *judge) take() []verbs.AccessRequest {
	j.mu.Lock()
	defer j.mu.Unlock()
	seen := j.seen
	j.seen = nil
	return seen
}

// judged installs a hook on the near MR, or checks the refusal and gives nil.
func (x *pair) judged(verdict func(verbs.AccessRequest) verbs.Verdict) *judge {
	j := &judge{verdict: verdict}
	if x.p.lacks(x.p.Context().Attr().Caps.PreAccess, "set a pre-access hook",
		func() error { return x.mr.SetPreAccess(j.hook) }) {
		return nil
	}
	x.p.Must("set a pre-access hook", x.mr.SetPreAccess(j.hook))
	return j
}

func preAccessDenies(p *Proc) {
	x := p.pair(spec{}, spec{})
	j := x.judged(func(r verbs.AccessRequest) verbs.Verdict {
		if r.Offset >= 1024 {
			return verbs.Deny
		}
		return verbs.Allow
	})
	if j == nil {
		return
	}
	from := verbs.AccessRequest{Initiator: x.far.endpoint.GID, QPN: x.far.endpoint.QPN}
	expect := func(what string, status verbs.WCStatus, kind verbs.AccessKind, offset, n int) {
		if status != verbs.WCSuccess {
			p.Fatalf("%s: %s", what, status)
		}
		from.Kind, from.Offset, from.Length = kind, offset, n
		if seen := j.take(); len(seen) != 1 || seen[0] != from {
			p.Fatalf("%s: the hook saw %+v, want %+v", what, seen, from)
		}
	}
	expect("WRITE", x.farWrite(100, 300), verbs.AccessKindWrite, 100, 300)
	expect("READ", x.farDo(verbs.OpRead, 64), verbs.AccessKindRead, 64, 8)
	expect("FAA", x.farDo(verbs.OpFAA, 72), verbs.AccessKindAtomic, 72, 8)
	expect("CAS", x.farDo(verbs.OpCAS, 80), verbs.AccessKindAtomic, 80, 8)
	rest := append([]byte(nil), x.bytes(1024, 8)...)
	if s := x.farWrite(1024, 8); s != verbs.WCRemAccessErr {
		p.Fatalf("a denied WRITE: %s", s)
	}
	p.equal("memory after a denied WRITE", x.bytes(1024, 8), rest)
	p.Must("remove the hook", x.mr.SetPreAccess(nil))
	x.reconnect()
	j.take()
	if s := x.farWrite(1024, 8); s != verbs.WCSuccess || len(j.take()) != 0 {
		p.Fatalf("a WRITE after the hook was removed: %s", s)
	}
}

func preAccessStalls(p *Proc) {
	x := p.pair(spec{}, spec{})
	left := 3
	j := x.judged(func(verbs.AccessRequest) verbs.Verdict {
		left--
		if left >= 0 {
			return verbs.Stall
		}
		return verbs.Allow
	})
	if j == nil {
		return
	}
	if s := x.farWrite(0, 8); s != verbs.WCSuccess {
		p.Fatalf("a WRITE that was stalled: %s", s)
	}
	if n := len(j.take()); n != 4 {
		p.Fatalf("the hook was asked %d times, want 4", n)
	}
}

func preAccessStallsOn(p *Proc) {
	x := p.pair(spec{}, spec{Connect: quick})
	j := x.judged(func(verbs.AccessRequest) verbs.Verdict { return verbs.Stall })
	if j == nil {
		return
	}
	before := p.Now()
	if s := x.farWrite(0, 8); s != verbs.WCRetryExcErr {
		p.Fatalf("a WRITE that is stalled on: %s", s)
	}
	p.inRetryTime(before)
	p.Must("remove the hook", x.mr.SetPreAccess(nil))
	x.reconnect()
}

// extensionWR asks for an extension with n bytes of request and room for an answer of 100.
func (x *pair) extensionWR(number uint32, n int) verbs.WR {
	wr := verbs.WR{ID: 6, Op: verbs.OpExtension, Flags: verbs.FlagSignaled, Imm: number,
		NumSGE: 2, SGE: x.far.sge(0, n)}
	wr.SGE[1] = x.far.sge(1000, 100)[0]
	return wr
}

// lacksExtension checks the refusals of a provider without extensions.
func (x *pair) lacksExtension() bool {
	has := x.p.Context().Attr().Caps.Extension
	return x.p.lacks(has, "handle an extension", func() error {
		return x.p.Context().HandleExtension(1, func([]byte, []byte) (int, error) { return 0, nil })
	}) && x.p.lacks(has, "post an extension", func() error {
		_, err := x.qp.PostSend([]verbs.WR{{Op: verbs.OpExtension, NumSGE: 2}})
		return err
	})
}

func extension(p *Proc) {
	x := p.pair(spec{SGE: 2}, spec{SGE: 2})
	if x.lacksExtension() {
		return
	}
	p.Must("handle", p.Context().HandleExtension(9, func(req, resp []byte) (int, error) {
		for i := range req {
			resp[len(req)-1-i] = req[i]
		}
		return len(req), nil
	}))
	x.far.poke(0, made(60, 1))
	for range 3 {
		x.far.post(x.extensionWR(9, 60))
		wc := x.far.sent(1)[0]
		want := verbs.WC{ID: 6, Op: verbs.WCOpcode(verbs.OpExtension), ByteLen: 60,
			QPN: x.far.endpoint.QPN}
		if wc != want {
			p.Fatalf("completion %+v, want %+v", wc, want)
		}
		got, req := x.far.peek(1000, 60), made(60, 1)
		for i := range got {
			if got[i] != req[59-i] {
				p.Fatalf("byte %d of the answer is %#x", i, got[i])
			}
		}
	}
}

func extensionFails(p *Proc) {
	x := p.pair(spec{SGE: 2}, spec{SGE: 2})
	if x.lacksExtension() {
		return
	}
	p.Must("handle", p.Context().HandleExtension(9, func(_, _ []byte) (int, error) {
		return 0, errors.New("no")
	}))
	for number, want := range []verbs.WCStatus{9: verbs.WCRemOpErr, 10: verbs.WCRemInvReqErr} {
		if want == 0 {
			continue
		}
		x.far.post(x.extensionWR(uint32(number), 8))
		x.far.failed(x.far.sent(1)[0], 6, want)
		x.reconnect()
	}
}

func kept(p *Proc) {
	pd := p.newSide(spec{}).pd
	open := func(size int) (*verbs.MR, error) {
		return pd.AllocMR(size, verbs.AccessAll, verbs.MROptions{Keep: "verbstest-again"})
	}
	if p.lacks(p.Context().Attr().Caps.KeptMRs, "keep memory", func() error {
		_, err := open(8192)
		return err
	}) {
		return
	}
	mr, err := open(8192)
	p.Must("keep memory", err)
	pattern(mr.Bytes(), 3)
	var e *verbs.Error
	if again, err := open(8192); err == nil || !errors.As(err, &e) {
		p.Fatalf("open twice: %v, %v", again, err)
	}
	p.Must("close", mr.Close())
	if other, err := open(4096); err == nil || !errors.As(err, &e) {
		p.Fatalf("open with another size: %v, %v", other, err)
	}
	mr, err = open(8192)
	p.Must("open again", err)
	p.equal("kept memory", mr.Bytes(), made(8192, 3))
	p.Must("close", mr.Close())
}

func keptOutlives(p *Proc) {
	x := p.pair(spec{}, spec{})
	keep := verbs.MROptions{Keep: "verbstest-outlives"}
	if p.lacks(p.Context().Attr().Caps.KeptMRs, "keep memory", func() error {
		_, err := x.pd.AllocMR(8192, verbs.AccessAll, keep)
		return err
	}) {
		return
	}
	a := x.far.ask(request{Do: "mr", Length: 8192, Access: verbs.AccessAll, Keep: keep.Keep})
	want := made(8192, byte(p.Now()))
	x.far.ask(request{Do: "poke", MR: a.ID, Data: want[:4096]})
	copy(x.bytes(0, 4096), want[4096:])
	x.succeed(verbs.WR{ID: 1, Op: verbs.OpWrite, RemoteAddr: a.Remote.Addr + 4096,
		RKey: a.Remote.RKey, NumSGE: 1, SGE: x.sge(0, 4096)})
	x.far.peer.signal(Kill)
	mr, err := x.pd.AllocMR(8192, verbs.AccessAll, keep)
	p.Must("open what the killed process kept", err)
	p.equal("kept memory", mr.Bytes(), want)
	p.Must("close", mr.Close())
}
