package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/proto/option"
	"drtmd/verbs"
)

// errPower is why a node stops that is told that the power is about to fail.
var errPower = errors.New("the power is about to fail: the node stops at once, and saves the tables that it keeps")

// PowerFails has the node stop at once: a run under way is lost, and the kept tables are saved. It may be called twice.
func (d *Daemon) PowerFails() { d.powerOnce.Do(func() { close(d.powerFails) }) }

// untilPowerFails is ctx, which ends as well when the power is about to fail.
func (d *Daemon) untilPowerFails(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-d.powerFails:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// saveTables copies the kept tables to the state folder. The memory itself stays: the copy is for a host that is started
// again.
func (d *Daemon) saveTables() error {
	p, ok := d.device.provider.(verbs.KeptCopier)
	if !ok {
		return nil
	}
	d.saving.Store(true)
	defer d.saving.Store(false)
	// A step that was let in when the plane was being closed may have opened another one. No step is let in any more.
	closed := d.planes.ClosePlane()
	begin := time.Now()
	saved, err := d.data.Save(p, begin.UTC())
	if err != nil {
		return errors.Join(closed, fmt.Errorf("the tables that this node keeps were not saved in %s: %w", d.stateDir, err))
	}
	if saved != nil {
		d.log.Info("saved the tables that this node keeps", zap.Stringer("size", option.Bytes(saved.Bytes())),
			zap.Duration("took", time.Since(begin)))
	}
	return closed
}

// keptIn is where the provider keeps memory.
func (d *Daemon) keptIn() string {
	t := &d.cfg.Transport
	folder := t.KeepDir
	if t.Provider == transport.Default {
		folder = cmp.Or(t.RunDir, transport.RunDir("default"))
	}
	if whole, err := filepath.Abs(folder); err == nil {
		folder = whole
	}
	return t.Provider + " " + folder
}

// restoreTables puts back what was saved and is gone. It tells of memory of tables that this node has no record of.
func (d *Daemon) restoreTables() error {
	p, ok := d.device.provider.(verbs.KeptCopier)
	if !ok {
		return nil
	}
	if err := d.data.CheckPlace(d.keptIn()); err != nil {
		return err
	}
	forgotten, err := d.data.Forgotten(p, d.cfg.Kept())
	if err != nil {
		return err
	}
	for _, name := range forgotten {
		d.board.Event(status.Warn, fmt.Sprintf("kept memory %s is of tables that this node has no record of (%s): if no "+
			"other node of this host has the same node.name, put the record back, or remove the memory", name, data.File))
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
