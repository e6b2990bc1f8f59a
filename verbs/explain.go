package verbs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// unreached are the signs that nothing reached the peer, or nothing came back.
var unreached = []error{WCRetryExcErr, WCLocQPOpErr, syscall.ENETUNREACH, syscall.EHOSTUNREACH,
	syscall.ETIMEDOUT, syscall.EINVAL}

// Explain looks on this side for the cause of an error of one of the context's queue pairs, a port
// that is not active, and makes that the hint of the error, which is the caller's alone. Any other
// error, and nil, it gives back as it is. It asks the device: it is for an error that ends something.
func (c *Context) Explain(err error) error {
	var e *Error
	if !errors.As(err, &e) || !slices.ContainsFunc(unreached, e.Is) {
		return err
	}
	if hint := c.portProblem(); hint != "" {
		e.Hint = hint
	}
	return err
}

// portProblem says which port is not active, "" if all are.
func (c *Context) portProblem() string {
	for port := 1; port <= c.attr.Ports; port++ {
		if p, err := c.drv.QueryPort(port); err == nil && p.State != PortActive {
			return p.Problem(c.attr.Name)
		}
	}
	return ""
}

// Problem says that a port of a device is not active, and what to do; "" if it is.
func (p *PortAttr) Problem(device string) string {
	if p.State == PortActive {
		return ""
	}
	behind := "the network interface behind it"
	for _, e := range p.GIDs {
		if e.NetDev != "" {
			behind = "the network interface " + e.NetDev + " behind it"
			break
		}
	}
	return fmt.Sprintf("port %d of %s is %s: bring up %s", p.Port, device, p.State, behind)
}
