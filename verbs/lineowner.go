package verbs

// MaxLineOwners bounds MROptions.LineOwners.
const MaxLineOwners = 64

// LineOwner is the right to lock lines of an MR by their line words from the CPU, several at a
// time: what the commit of an emulated hardware transaction needs (package htm). It belongs to
// one worker of the process that has the MR.
//
// If the process dies in the middle of a commit, whoever meets one of its lines finishes the
// commit, if the journal says that it took place, or else undoes it: on shm other initiators and
// whoever opens the kept MR again, on sim the restarted node.
type LineOwner struct {
	Slot    uint16   // the owner in line words
	Journal []uint64 // in the format of lineword.Journal; valid until MR.Close

	mr  *MR
	drv DriverLineOwners
}

// ClaimLineOwner takes one of the line owners that MROptions.LineOwners has made room for.
// ENOSPC if all are taken, ErrUnsupported where there are no line words.
func (mr *MR) ClaimLineOwner() (*LineOwner, error) {
	const op = "claim line owner"
	d, ok := mr.drv.(DriverLineOwners)
	if !ok || !mr.ctx.attr.Caps.LineWords {
		return nil, mr.ctx.fail(op, ErrUnsupported)
	}
	slot, journal, err := d.ClaimLineOwner()
	if err != nil {
		return nil, mr.ctx.wrap(op, err)
	}
	return &LineOwner{Slot: slot, Journal: journal, mr: mr, drv: d}, nil
}

// Release gives the slot back. No line may be locked by it and the journal must be idle. It may
// be called twice, and after MR.Close.
func (o *LineOwner) Release() error {
	slot := o.Slot
	if slot == 0 {
		return nil
	}
	o.Slot, o.Journal = 0, nil
	return o.mr.ctx.wrap("release line owner", o.drv.ReleaseLineOwner(slot))
}

// Rescue looks after a line that stays locked for long: if its owner's process is dead, the line
// is recovered. It costs system calls. The caller holds no line of the MR.
func (o *LineOwner) Rescue(line int) { o.drv.RescueLine(line) }
