package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/verbs"
)

// causeTimeout is how long a side that saw its queue pair fail waits for the other side's words.
const causeTimeout = 500 * time.Millisecond

// cause finds out what is behind an error: an interrupt of this side; what the other side said
// or that it is gone, which says more than what its end did to our queue pair; or the error.
func cause(ctx context.Context, st *Station, conn *exchange.Conn, err error) error {
	if c := ctx.Err(); c != nil {
		return c
	}
	err = st.ctx.Explain(err)
	var failed *verbs.Error
	stopped := errors.Is(err, errStopped)
	if !stopped && !errors.As(err, &failed) {
		return err
	}
	_, said := conn.Take(ctx, causeTimeout)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case stopped && said == nil:
		return fmt.Errorf("%w: unexpected", exchange.ErrBadFrame)
	case said == nil, errors.Is(said, exchange.ErrTimeout):
		return st.blocked(conn, err)
	case stopped, errors.Is(said, exchange.ErrPeerFailed):
		return said
	}
	return fmt.Errorf("%w; %w", said, err)
}

// blocked names the firewall if the other side, which talks, did not answer on the wire: nothing of
// this side was in the way, or Explain would have said so.
func (st *Station) blocked(conn *exchange.Conn, err error) error {
	var e *verbs.Error
	_, tcp := conn.RemoteAddr().(*net.TCPAddr)
	if !tcp || st.port.Link != verbs.LinkEthernet || !errors.As(err, &e) ||
		e.Status != verbs.WCRetryExcErr || e.Raw == verbs.WCLocQPOpErr {
		return err
	}
	return fmt.Errorf("%w; the peer answers over TCP (%s) and not over RDMA: let UDP port 4791 "+
		"(RoCE v2) through the firewalls between both, in both directions", err, conn.RemoteAddr())
}

// maxReason keeps a reason within a frame, escapes included.
const maxReason = 600

// reportFailure lets the other side know why this one ends, unless it is gone or said so itself, and
// returns err.
func reportFailure(ctx context.Context, conn *exchange.Conn, err error) error {
	if errors.Is(err, exchange.ErrPeerGone) || errors.Is(err, exchange.ErrPeerFailed) {
		return err
	}
	reason := err.Error()
	if ctx.Err() != nil {
		reason = "it was interrupted"
	}
	reason = reason[:min(len(reason), maxReason)]
	_ = conn.Send(exchange.KindFail, exchange.Fail{Reason: reason}) // best effort
	return err
}
