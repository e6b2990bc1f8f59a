package verbstest

import (
	"errors"
	"syscall"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// lineOwners claims them all, holds a line as one of them, and has the peer's WRITE wait for it.
func lineOwners(p *Proc) {
	const owners = 3
	x := p.pair(spec{}, spec{})
	if p.lacks(p.Context().Attr().Caps.LineWords, "MR with line owners", func() error {
		_, err := x.pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{LineOwners: owners})
		return err
	}) {
		_, err := x.mr.ClaimLineOwner()
		p.MustBe("claim a line owner", err, verbs.ErrUnsupported)
		return
	}
	if _, err := x.mr.ClaimLineOwner(); !errors.Is(err, syscall.ENOSPC) {
		p.Fatalf("claim of an MR without room for it: %v", err)
	}
	mr, err := x.pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{LineOwners: owners})
	p.Must("MR with line owners", err)
	taken := map[uint16]*verbs.LineOwner{}
	for range owners {
		o, err := mr.ClaimLineOwner()
		p.Must("claim", err)
		if o.Slot == 0 || taken[o.Slot] != nil {
			p.Fatalf("slot %d is none, or was given twice", o.Slot)
		}
		j := lineword.MakeJournal(o.Journal)
		if s, _ := j.State(); s != lineword.JournalIdle || j.Lines() < lineword.JournalLines {
			p.Fatalf("a journal of %d lines that is %s", j.Lines(), s)
		}
		taken[o.Slot] = o
	}
	if _, err := mr.ClaimLineOwner(); !errors.Is(err, syscall.ENOSPC) {
		p.Fatalf("claim of one owner too many: %v", err)
	}
	for slot, o := range taken {
		p.Must("release", o.Release())
		p.Must("release again", o.Release())
		o, err := mr.ClaimLineOwner()
		p.Must("claim after a release", err)
		if o.Slot != slot {
			p.Fatalf("slot %d after the release of %d", o.Slot, slot)
		}
		lineHeld(p, x, mr, o)
	}
	p.Must("close", mr.Close())
}

// lineHeld has the peer write to a line that a live owner holds.
func lineHeld(p *Proc, x *pair, mr *verbs.MR, o *verbs.LineOwner) {
	word := &mr.Lines()[1]
	if !lineword.TryLock(word, lineword.Load(word), o.Slot) {
		p.Fatalf("the line is at %s", lineword.Load(word))
	}
	o.Rescue(1) // its owner lives: it stays locked
	before := lineword.Load(word)
	if !before.Locked() || before.Owner() != o.Slot {
		p.Fatalf("the line is at %s, not locked by %d", before, o.Slot)
	}
	x.far.post(verbs.WR{ID: 1, Op: verbs.OpWrite, Flags: verbs.FlagSignaled,
		RemoteAddr: mr.Addr() + verbs.LineBytes, RKey: mr.RKey(), NumSGE: 1,
		SGE: x.far.sge(0, 8)})
	p.Sleep(time.Millisecond)
	if now := lineword.Load(word); now != before {
		p.Fatalf("a WRITE did not wait for the line: %s, then %s", before, now)
	}
	lineword.Unlock(word, before)
	if s := x.far.sent(1)[0].Status; s != verbs.WCSuccess {
		p.Fatalf("the WRITE ended with %s", s)
	}
	if now := lineword.Load(word); now.Locked() || now.Version() != before.Version()+2 {
		p.Fatalf("after commit and WRITE the line is at %s, before at %s", now, before)
	}
}
