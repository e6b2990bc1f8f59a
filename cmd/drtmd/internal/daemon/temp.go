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
// killed: those can be large, and nobody else does. The state folder's lock is held.
func (d *Daemon) openTempDir() error {
	file := filepath.Join(d.stateDir, tempFile)
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	folder, err := service.Inode(d.stateDir)
	if err != nil {
		return err
	}
	// In a copy of a state folder the name is that of a node that may live.
	mark := fmt.Sprintf("%d ", folder)
	old, own := strings.CutPrefix(string(b), mark)
	if own && strings.HasPrefix(filepath.Base(old), tempPrefix) {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	if d.tempDir, err = os.MkdirTemp("", tempPrefix); err != nil {
		return fmt.Errorf("temporary folder for histories: %w; set TMPDIR to a folder that this daemon "+
			"may write to", err)
	}
	return durable.WriteFile(file, []byte(mark+d.tempDir), 0o600)
}
