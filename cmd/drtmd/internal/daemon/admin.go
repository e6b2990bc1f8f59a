package daemon

import (
	"context"
	"sync"
)

// openAdmin serves the admin port.
func (d *Daemon) openAdmin(_ *cleanup, _ *sync.WaitGroup, _ context.CancelCauseFunc) error {
	return nil
}
