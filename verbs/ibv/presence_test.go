//go:build cgo && linux

package ibv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissingNodesAreNamed: a container has the kernel's sysfs and not always the node in /dev, and a
// device can be removed under an open context.
func TestMissingNodesAreNamed(t *testing.T) {
	dir := t.TempDir()
	p := &provider{sys: filepath.Join(dir, "sys"), nodes: filepath.Join(dir, "dev")}
	says := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	says(p.Present("rxe0"), "the device was removed")
	verbsDir := filepath.Join(p.sys, "infiniband_verbs", "uverbs3")
	for _, d := range []string{filepath.Join(p.sys, "infiniband", "rxe0"), verbsDir, p.nodes} {
		check(t, os.MkdirAll(d, 0o700))
	}
	says(p.unseen("rxe0"), "modprobe ib_uverbs")
	check(t, os.WriteFile(filepath.Join(verbsDir, "ibdev"), []byte("rxe0\n"), 0o600))
	missing := "its node " + p.nodes + "/uverbs3 is not there"
	says(p.unseen("rxe0"), missing)
	says(p.unseen("rxe0"), "in a container pass --device "+p.nodes)
	says(p.Present("rxe0"), missing)
	check(t, os.WriteFile(filepath.Join(p.nodes, "uverbs3"), nil, 0o600))
	check(t, p.Present("rxe0"))
	says(p.unseen("rxe0"), "the user-space driver for \"rxe\" is missing")
}
