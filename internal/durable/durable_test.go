package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/internal/durable"
)

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names in a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "port")
	for _, text := range []string{"1\n", "22\n"} {
		if err := durable.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := content(t, name); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	if i, err := os.Stat(name); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", i.Mode(), err)
	}
	if all := names(t, dir); all != "port" {
		t.Errorf("the folder has %s", all)
	}
}

// TestAWriteThatFailsLeavesTheOldFile and nothing beside it: as it is until the rename.
func TestAWriteThatFailsLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "port")
	if err := durable.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left")
	err := durable.Write(name, 0o600, func(w io.Writer) error {
		_, err := w.Write([]byte("ne"))
		if got := content(t, name); got != "old" {
			t.Errorf("in the midst of the write it has %q", got)
		}
		return errors.Join(err, full)
	})
	if !errors.Is(err, full) || content(t, name) != "old" || names(t, dir) != "port" {
		t.Errorf("%v, %q, %s", err, content(t, name), names(t, dir))
	}
}

func TestCreateReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "key")
	write := func(text string) error {
		return durable.Create(name, 0o600, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
	}
	if err := write("one"); err != nil {
		t.Fatal(err)
	}
	if err := write("two"); !errors.Is(err, fs.ErrExist) || content(t, name) != "one" {
		t.Errorf("%v, %q", err, content(t, name))
	}
	if all := names(t, dir); all != "key" {
		t.Errorf("the folder has %s", all)
	}
}

// TestCleanRemovesWhatKilledWritersLeave and nothing else.
func TestCleanRemovesWhatKilledWritersLeave(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"port", ".port.new-123", ".profile", "a.new-b"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := durable.Clean(dir); err != nil {
		t.Fatal(err)
	}
	if all := names(t, dir); all != ".profile a.new-b port" {
		t.Errorf("left: %s", all)
	}
}
