package verbs

import "time"

// AccessKind is what a remote operation does to memory.
type AccessKind uint8

const (
	AccessKindRead AccessKind = iota + 1
	AccessKindWrite
	AccessKindAtomic
)

func (k AccessKind) String() string {
	return enumName([]string{"?", "read", "write", "atomic"}, int(k), "access kind")
}

// Verdict of a pre-access hook.
type Verdict uint8

const (
	Allow Verdict = iota + 1
	Deny          // the operation fails with REM_ACCESS_ERR
	Stall         // the initiator tries again, within its retry bound, then RETRY_EXC_ERR
)

func (v Verdict) String() string {
	return enumName([]string{"?", "allow", "deny", "stall"}, int(v), "verdict")
}

// AccessRequest is a remote operation that is about to touch an MR.
type AccessRequest struct {
	Kind      AccessKind
	Offset    int // bytes into the MR
	Length    int // bytes
	Initiator GID
	QPN       uint32 // the initiator's
}

// PreAccess judges remote accesses to an MR at the target before they happen. It is called for
// each operation, from several goroutines at once, must be quick, and must not post.
type PreAccess func(AccessRequest) Verdict

// Executor runs an extension operation at the target: it reads req, writes at most len(resp)
// bytes of answer and says how many. An error fails the request with REM_OP_ERR; a number that
// has no executor fails it with REM_INV_REQ_ERR. req and resp
// are valid during the call only. Several calls may run at once.
type Executor func(req, resp []byte) (int, error)

// SetPreAccess installs h in front of every later remote READ, WRITE and atomic on the region;
// nil removes it. ErrUnsupported without Caps.PreAccess.
func (mr *MR) SetPreAccess(h PreAccess) error {
	d, ok := mr.drv.(DriverHooks)
	if !ok || !mr.ctx.attr.Caps.PreAccess {
		return mr.ctx.fail("set pre-access hook", ErrUnsupported)
	}
	return mr.ctx.wrap("set pre-access hook", d.SetPreAccess(h))
}

// AwaitLine waits until the line word of 64-byte line number line differs from seen and is
// unlocked, and returns it. Remote operations and HTM commits change line words; plain CPU
// stores do not. After the timeout it returns the word with os.ErrDeadlineExceeded.
// ErrUnsupported without Caps.AwaitLine.
func (mr *MR) AwaitLine(line int, seen uint64, timeout time.Duration) (uint64, error) {
	d, ok := mr.drv.(DriverHooks)
	if !ok || !mr.ctx.attr.Caps.AwaitLine {
		return 0, mr.ctx.fail("await line", ErrUnsupported)
	}
	w, err := d.AwaitLine(line, seen, timeout)
	return w, mr.ctx.wrap("await line", err)
}

// OnLineChange is AwaitLine for providers where nothing can block (sim): f is called once, in the
// event loop, when the word of the line differs from seen and is unlocked. ErrUnsupported
// elsewhere.
func (mr *MR) OnLineChange(line int, seen uint64, f func()) (cancel func(), err error) {
	d, ok := mr.drv.(DriverLineNotifier)
	if !ok {
		return nil, mr.ctx.fail("notify on line change", ErrUnsupported)
	}
	return d.OnLineChange(line, seen, f), nil
}

// HandleExtension installs the executor of extension operations of a number, for requests that
// arrive at any QP of this context; nil removes it. ErrUnsupported without Caps.Extension.
func (c *Context) HandleExtension(number uint32, e Executor) error {
	d, ok := c.drv.(DriverExtension)
	if !ok || !c.attr.Caps.Extension {
		return c.fail("handle extension", ErrUnsupported)
	}
	return c.wrap("handle extension", d.HandleExtension(number, e))
}
