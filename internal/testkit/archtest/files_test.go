package archtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOnlyDurableWritesFilesInPlace: os.WriteFile leaves an empty file after a power cut, and a bare
// os.Rename may, too.
func TestOnlyDurableWritesFilesInPlace(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	calls := regexp.MustCompile(`\bos\.(WriteFile|Rename)\(`)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"),
			strings.HasSuffix(filepath.Dir(name), filepath.Join("internal", "durable")),
			strings.Contains(name, "testkit"), strings.HasPrefix(name, filepath.Join(root, "scripts")):
			return nil
		}
		b, err := os.ReadFile(name)
		if c := calls.Find(b); c != nil {
			t.Errorf("%s calls %s): internal/durable writes files that survive a power cut", name, c)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
