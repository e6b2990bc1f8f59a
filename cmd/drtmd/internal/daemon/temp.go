package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"drtmd/cmd/drtmd/internal/service"
	"drtmd/internal/durable"
)

const (
	// tempPrefix begins the names of daemons' folders for histories, among the system's temporary ones.
	tempPrefix = "drtmd-node-"
	// tempFile in the state folder names that of this life, after the state folder's inode.
	tempFile = "temporary"
)

// openTempDir makes the folder for histories, after it has removed that of a former life that was
// killed: those can be large. The state folder's lock is held.
func (d *Daemon) openTempDir() error {
	if err := RemoveHistories(d.stateDir); err != nil {
		return err
	}
	mark, err := tempMark(d.stateDir)
	if err != nil {
		return err
	}
	if d.tempDir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return fmt.Errorf("temporary folder for histories: %w; set TMPDIR to a folder that this daemon "+
			"may write to", err)
	}
	return durable.WriteFile(filepath.Join(d.stateDir, tempFile), []byte(mark+d.tempDir), 0o600)
}

// RemoveHistories removes the folder for histories that a daemon which was killed has left, by the daemon's state
// folder. No daemon uses that. Without a state folder there is nothing to do.
func RemoveHistories(stateDir string) error {
	b, err := os.ReadFile(filepath.Join(stateDir, tempFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mark, err := tempMark(stateDir)
	if err != nil {
		return err
	}
	if old, own := strings.CutPrefix(string(b), mark); own && strings.HasPrefix(filepath.Base(old), tempPrefix) {
		return os.RemoveAll(old)
	}
	return nil
}

// tempMark tells a state folder from a copy of it, whose name may be that of a node that lives.
func tempMark(stateDir string) (string, error) {
	folder, err := service.Inode(stateDir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d ", folder), nil
}
