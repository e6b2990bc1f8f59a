package bench

import (
	"context"
	"errors"
	"net"

	"drtmd/cmd/drtmd/internal/exchange"
)

// Self is Run and Serve within one process: between two contexts of the device, which are the
// caller's to open and close.
func Self(ctx context.Context, initiator, responder *Station, o Options,
	pr Progress) ([]Result, error) {
	a, b := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			conn, err := exchange.Accept(ctx, b, responder.Hello())
			if err != nil {
				return err
			}
			return errors.Join(Serve(ctx, responder, conn, nil), conn.Close())
		}()
	}()
	conn, err := exchange.Dial(ctx, a, initiator.Hello())
	if err != nil {
		return nil, errors.Join(err, <-served)
	}
	rows, err := Run(ctx, initiator, conn, o, pr)
	err = errors.Join(err, conn.Close())
	if other := <-served; other != nil && (err == nil || errors.Is(err, exchange.ErrPeerFailed)) {
		err = other // the cause in its own type
	}
	return rows, err
}
