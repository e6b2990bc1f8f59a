package daemon

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/option"
	"drtmd/verbs"
)

// saveTimeout bounds the copying of kept memory to the state folder.
const saveTimeout = 10 * time.Minute

// errPower is why a node stops that is told that the power is about to fail.
var errPower = errors.New("the power is about to fail: the node stops at once, and saves the tables that it keeps")

// PowerFails has the node stop at once: a run under way is lost, and the kept tables are saved. It may be called twice.
func (d *Daemon) PowerFails() { d.powerOnce.Do(func() { close(d.powerFails) }) }

// saveTime is what the end of the node may take for that.
func (d *Daemon) saveTime() time.Duration {
	if h := d.data.Held(); h != nil && h.Used() {
		return saveTimeout
	}
	return 0
}

// saveTables copies the kept tables to the state folder. The memory itself stays: the copy is for a host that is started
// again.
func (d *Daemon) saveTables() error {
	p, ok := d.device.provider.(verbs.KeptCopier)
	if !ok {
		return nil
	}
	begin := time.Now()
	saved, err := d.data.Save(p, begin.UTC())
	if err != nil {
		return fmt.Errorf("the tables that this node keeps were not saved in %s: %w", d.stateDir, err)
	}
	if saved != nil {
		d.log.Info("saved the tables that this node keeps", zap.Stringer("size", option.Bytes(saved.Bytes())),
			zap.Duration("took", time.Since(begin)))
	}
	return nil
}

// restoreTables puts back what was saved and is gone.
func (d *Daemon) restoreTables() error {
	p, ok := d.device.provider.(verbs.KeptCopier)
	if !ok {
		return nil
	}
	restored, err := d.data.Restore(p)
	if err != nil {
		return fmt.Errorf("the tables that this node keeps: %w; put the files back, or, to give the tables up, remove %s "+
			"from the state folders of all nodes", err, data.File)
	}
	if restored != nil {
		d.board.Event(status.Info, fmt.Sprintf("restored the tables that this node keeps: %v, saved at %s",
			option.Bytes(restored.Bytes()), restored.At.Format(time.RFC3339)))
	}
	return nil
}
