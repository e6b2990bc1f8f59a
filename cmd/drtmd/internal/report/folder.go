package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"drtmd/internal/durable"
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
	if err := mayWrite(dir); err != nil {
		return fmt.Errorf("folder for the report: %w; name one that you may write to", err)
	}
	return nil
}

// mayWrite reports why no file can be made in a folder.
func mayWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".drtmd-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// MayReplace says why Replace could not write a file. It touches none that is there.
func MayReplace(name string) error {
	i, err := os.Lstat(name)
	switch {
	case err == nil && i.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", name)
	case err == nil && !i.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file, and would be replaced; name another file", name)
	case strings.HasSuffix(name, "/"):
		return fmt.Errorf("%s is the name of a folder; name a file", name)
	}
	if err := mayWrite(filepath.Dir(name)); err != nil {
		return fmt.Errorf("%w; name a file in a folder that you may write to", err)
	}
	return nil
}

// WriteFolder writes the page and the JSON of the run. Readers find old files or new ones, never
// parts of them.
func (b *Bench) WriteFolder(dir string) error {
	return errors.Join(Replace(filepath.Join(dir, HTMLFile), b.WriteHTML),
		Replace(filepath.Join(dir, JSONFile), b.WriteJSON))
}

// Replace writes a file under another name first, and gives it its name when it is complete. A report
// is for others too.
func Replace(name string, write func(io.Writer) error) error {
	return durable.Write(name, 0o644, write)
}
