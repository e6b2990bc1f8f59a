package membership

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/proto/member"
)

func TestIdentityLastsAndIsPrivate(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if id, err := readIdentity(dir); err != nil || id.Node != member.AnyNode {
		t.Fatalf("without a file: %+v, %v", id, err)
	}
	want := identity{Cluster: "lab-1", Node: 3, Incarnation: 9}
	if err := want.write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := readIdentity(dir)
	if want.Folder = got.Folder; err != nil || got != want || got.copied() {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if got, err := readIdentity(other); err != nil || !got.copied() || got.Incarnation != 0 {
		t.Errorf("a copy of the folder is taken for the node: %+v, %v", got, err)
	}
	name := filepath.Join(dir, identityFile)
	i, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if i.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", i.Mode())
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readIdentity(dir); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a broken file gives %v, which does not name it", err)
	}
}
