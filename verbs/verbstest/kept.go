package verbstest

import (
	"errors"

	"drtmd/verbs"
)

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
	p.equal("kept memory", mr.Bytes(), testData(8192, 3))
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
	want := testData(8192, byte(p.Now()))
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
