package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Files of a folder of reports.
const (
	HTMLFile = "report.html"
	JSONFile = "report.json"
)

// PrepareFolder makes the folder that WriteFolder is going to write to, and says why it could not.
// It touches no file that is there.
func PrepareFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder for the report: %w; name one that you may write to", err)
	}
	for _, name := range []string{HTMLFile, JSONFile} {
		i, err := os.Lstat(filepath.Join(dir, name))
		if err == nil && !i.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file, and would be replaced; move it away, or name "+
				"another folder", filepath.Join(dir, name))
		}
	}
	f, err := os.CreateTemp(dir, ".drtmd-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("folder for the report: %w; name one that you may write to", err)
	}
	return nil
}

// WriteFolder writes the page and the JSON of the run. Readers find old files or new ones, never
// parts of them.
func (b *Bench) WriteFolder(dir string) error {
	return errors.Join(Replace(filepath.Join(dir, HTMLFile), b.WriteHTML),
		Replace(filepath.Join(dir, JSONFile), b.WriteJSON))
}

// Replace writes a file under another name first, and gives it its name when it is complete.
func Replace(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	// A report is for others too, unlike what CreateTemp makes.
	err = errors.Join(write(f), f.Chmod(0o644), f.Sync())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), os.Remove(f.Name()))
	}
	return nil
}
