package verbs

import (
	"fmt"
	"syscall"
	"unsafe"

	"drtmd/internal/invariant"
)

// LineBytes is the size of a line: the unit of conflict detection and of atomic visibility.
const LineBytes = 64

// MR is registered memory (ibv_mr), allocated by the device. Its first byte is at an address
// divisible by 4096, except in race builds, where it is divisible by 64.
type MR struct {
	ctx    *Context
	pd     *PD
	drv    DriverMR
	access Access
	addr   uint64
	size   int
	once   closeOnce
}

// RemoteMR is what a peer must know to reach an MR. It is meant to be sent to the peer.
type RemoteMR struct {
	Addr   uint64 // of the first byte, in the owner's process
	Length uint64 // bytes
	RKey   uint32
}

// AllocMR allocates size bytes of zeroed memory and registers them (mmap and ibv_reg_mr), or
// opens kept memory again (MROptions.Keep). The memory lives until Close.
func (pd *PD) AllocMR(size int, access Access, o MROptions) (*MR, error) {
	const op = "ibv_reg_mr"
	c := pd.ctx
	switch {
	case size <= 0:
		return nil, c.invalid(op, "", "size %d is not positive", size)
	case uint64(size) > c.attr.MaxMRBytes:
		return nil, c.invalid(op, "", "size %d is over the device's limit of %d bytes", size,
			c.attr.MaxMRBytes)
	case access&^AccessAll != 0:
		return nil, c.invalid(op, "", "access %s", access)
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return nil, c.invalid(op, "add AccessLocalWrite",
			"access %s: remote write and atomic need local write", access)
	case o.LineOwners < 0 || o.LineOwners > MaxLineOwners:
		return nil, c.invalid(op, "", "%d line owners, of %d at most", o.LineOwners,
			MaxLineOwners)
	case o.LineOwners > 0 && !c.attr.Caps.LineWords:
		return nil, c.fail(op, ErrUnsupported)
	case o.Keep != "" && !c.attr.Caps.KeptMRs:
		return nil, &Error{Op: op, Device: c.attr.Name, Err: ErrUnsupported,
			Detail: "memory that outlives its process"}
	}
	if err := pd.enter(op); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	d, err := pd.drv.AllocMR(size, access, o)
	if err != nil {
		return nil, hintReg(c.wrap(op, err), size)
	}
	b := d.Bytes()
	invariant.Assertf(len(b) == size, "driver made an MR of %d bytes, not %d", len(b), size)
	mr := &MR{ctx: c, pd: pd, drv: d, access: access, size: size,
		addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))}
	if err := c.adopt(op, mr); err != nil {
		return nil, closeAfter(err, d)
	}
	return mr, nil
}

// hintReg adds to a failed registration what usually is the cause.
func hintReg(err error, size int) error {
	var e *Error
	if !asError(err, &e) || e.Hint != "" {
		return err
	}
	if e.Errno == syscall.ENOMEM || e.Errno == syscall.EAGAIN {
		e.Hint = fmt.Sprintf("%d bytes may be over the memlock limit: see `ulimit -l`, raise it "+
			"in /etc/security/limits.conf, with LimitMEMLOCK= in a unit, or --ulimit memlock=-1 "+
			"for a container", size)
	}
	return err
}

// Bytes is the memory itself: the caller may read and write it with the CPU until Close.
// Such accesses are not ordered against remote ones beyond what the hardware does.
func (mr *MR) Bytes() []byte { return mr.drv.Bytes() }

// Addr is the address of the first byte.
func (mr *MR) Addr() uint64 { return mr.addr }

// Len is the size in bytes.
func (mr *MR) Len() int { return mr.size }

// LKey is the local key.
func (mr *MR) LKey() uint32 { return mr.drv.LKey() }

// RKey is the remote key.
func (mr *MR) RKey() uint32 { return mr.drv.RKey() }

// Access is what the region allows.
func (mr *MR) Access() Access { return mr.access }

// Remote is the description for a peer.
func (mr *MR) Remote() RemoteMR {
	return RemoteMR{Addr: mr.addr, Length: uint64(mr.size), RKey: mr.RKey()}
}

// SGE names length bytes at offset. It does not check: a request outside the region completes
// with LOC_PROT_ERR.
func (mr *MR) SGE(offset, length int) SGE {
	return SGE{Addr: mr.addr + uint64(offset), Length: uint32(length), LKey: mr.LKey()}
}

// Lines is the table of line words, one per 64-byte line, or nil without Caps.LineWords. Their
// format is that of package verbs/lineword; access them atomically only. Those of memory without remote access rights
// and line owners need not be raised by results that arrive there.
func (mr *MR) Lines() []uint64 { return mr.drv.Lines() }

func (mr *MR) closeRank() int { return rankMR }

// Close deregisters the region and unmaps its memory (ibv_dereg_mr). Operations of peers that
// come later fail with REM_ACCESS_ERR; one that is caught in the middle may end in RETRY_EXC_ERR
// instead. The caller sees to it that no own request that uses the
// memory is outstanding.
func (mr *MR) Close() error {
	return mr.once.do(func() error {
		mr.ctx.disown(mr)
		return mr.ctx.wrap("ibv_dereg_mr", mr.drv.Close())
	})
}
