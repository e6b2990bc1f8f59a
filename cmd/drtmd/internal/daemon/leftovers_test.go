package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"drtmd/cmd/drtmd/internal/service"
)

// TestTheTemporaryFolderOfAKilledLifeIsRemoved by the next one, and no other folder.
func TestTheTemporaryFolderOfAKilledLifeIsRemoved(t *testing.T) {
	temp := filepath.Join(t.TempDir(), "with a blank")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	d := &Daemon{stateDir: t.TempDir()}
	other := filepath.Join(temp, tempPrefix+"of-another")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.openTempDir(); err != nil {
		t.Fatal(err)
	}
	killed := d.tempDir
	if err := os.WriteFile(filepath.Join(killed, "run.hist"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.openTempDir(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); !errors.Is(err, os.ErrNotExist) || d.tempDir == killed {
		t.Errorf("%s of the killed life is still there: %v; now %s", killed, err, d.tempDir)
	}
	// A copy of the state folder is no reason to remove what is in use.
	copied := &Daemon{stateDir: t.TempDir()}
	if err := os.CopyFS(copied.stateDir, os.DirFS(d.stateDir)); err != nil {
		t.Fatal(err)
	}
	if err := copied.openTempDir(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.tempDir); err != nil {
		t.Error(err)
	}
	used := d.tempDir
	// A file that somebody has changed is no reason to remove something else.
	file := filepath.Join(d.stateDir, tempFile)
	folder, err := service.Inode(d.stateDir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d %s", folder, d.stateDir), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.openTempDir(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{other, d.stateDir, d.tempDir, used} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}
