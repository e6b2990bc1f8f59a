package verbs

import "errors"

// Fence moves every QP of the context to ERR: what is posted is flushed, and no peer reaches the
// context's memory any more, whatever it has in flight. It is for a node that must not go on.
// Safe from any goroutine, twice as well; QPs that are made later are not touched. It goes through
// all QPs and gives the errors of those that could not be moved; the layer refuses their use all
// the same.
func (c *Context) Fence() error {
	if err := c.enter("fence"); err != nil {
		return err
	}
	defer c.life.RUnlock()
	c.mu.Lock()
	qps := c.openLocked(func(o object) bool { _, ok := o.(*QP); return ok })
	c.mu.Unlock()
	var errs []error
	for _, o := range qps {
		qp := o.(*QP)
		if err := qp.ToError(); err != nil && qp.State() != StateClosed {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
