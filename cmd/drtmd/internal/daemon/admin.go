package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/admin"
)

// adminOff is the address that stands for no admin port.
const adminOff = "off"

// openAdmin serves the admin port.
func (d *Daemon) openAdmin(undo *cleanup, wg *sync.WaitGroup, end context.CancelCauseFunc) error {
	address := d.cfg.Admin.Listen
	if address == adminOff {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("admin port: %w; set admin.listen to another address, or to off", err)
	}
	d.board.SetAdmin(l.Addr().String())
	s := admin.NewServer(admin.Options{Source: d, Log: d.log.Named("admin"), Build: d.o.Build,
		PprofEverywhere: d.cfg.Admin.Pprof, Hosts: []string{d.cfg.Node.Hostname()}})
	undo.add(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	})
	wg.Go(func() {
		if err := s.Serve(l); err != nil {
			d.log.Error("admin port", zap.Error(err))
			end(fmt.Errorf("admin port: %w", err))
		}
	})
	return nil
}
