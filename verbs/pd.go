package verbs

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// PD is a protection domain (ibv_pd): MRs, QPs and AHs of one domain work together.
type PD struct {
	ctx    *Context
	drv    DriverPD
	once   closeOnce
	closed atomic.Bool
}

// closeOnce runs a close once and lets later calls return nil.
type closeOnce struct {
	mu   sync.Mutex
	done bool
}

// do runs f unless it ran before with success.
func (o *closeOnce) do(f func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return nil
	}
	err := f()
	var e *Error
	if busy := asError(err, &e) && e.Errno == syscall.EBUSY; !busy {
		o.done = true
	}
	return err
}

// AllocPD makes a protection domain (ibv_alloc_pd).
func (c *Context) AllocPD() (*PD, error) {
	const op = "ibv_alloc_pd"
	if err := c.enter(op); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	d, err := c.drv.AllocPD()
	if err != nil {
		return nil, c.wrap(op, err)
	}
	pd := &PD{ctx: c, drv: d}
	if err := c.adopt(op, pd); err != nil {
		return nil, closeAfter(err, d)
	}
	return pd, nil
}

// enter is Context.enter for something made in the domain.
func (pd *PD) enter(op string) error {
	if err := pd.ctx.enter(op); err != nil {
		return err
	}
	if pd.closed.Load() {
		pd.ctx.life.RUnlock()
		return pd.ctx.fail(op, ErrClosed)
	}
	return nil
}

// Context is the device of the domain.
func (pd *PD) Context() *Context { return pd.ctx }

func (pd *PD) closeRank() int { return rankPD }

// Close destroys the domain (ibv_dealloc_pd). With live MRs, QPs or AHs it fails with EBUSY,
// names them, and may be called again.
func (pd *PD) Close() error {
	return pd.once.do(func() error {
		pd.ctx.life.Lock()
		defer pd.ctx.life.Unlock()
		err := pd.ctx.inUse("ibv_dealloc_pd", func(o object) bool {
			switch o := o.(type) {
			case *MR:
				return o.pd == pd
			case *QP:
				return o.pd == pd
			case *AH:
				return o.pd == pd
			}
			return false
		})
		if err != nil {
			return err
		}
		pd.closed.Store(true)
		pd.ctx.disown(pd)
		return pd.ctx.wrap("ibv_dealloc_pd", pd.drv.Close())
	})
}

// The order in which Context.Close takes objects down.
const (
	rankQP = iota
	rankAH
	rankMR
	rankCQ
	rankChannel
	rankPD
)
