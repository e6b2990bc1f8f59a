//go:build cgo && linux

package ibv

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"drtmd/verbs"
)

// keepDir is a folder on tmpfs.
func keepDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "drtmd-ibv-kept-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func open(t *testing.T, dir, name string, size int) *kept {
	t.Helper()
	k, err := openKept(dir, name, size)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeptMemoryHasItsContentWhenItIsOpenedAgain(t *testing.T) {
	dir := keepDir(t)
	k := open(t, dir, "log-1", 10000)
	if len(k.mapping) != 12288 || !bytes.Equal(k.mapping, make([]byte, 12288)) {
		t.Fatalf("%d bytes, not of whole pages, or not zero", len(k.mapping))
	}
	copy(k.mapping[9990:], "0123456789")
	if _, err := openKept(dir, "log-1", 10000); !errors.Is(err, unix.EBUSY) {
		t.Errorf("opened twice: %v", err)
	}
	if err := k.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openKept(dir, "log-1", 20000); err == nil || !strings.Contains(err.Error(), "has 12288 bytes") {
		t.Errorf("opened with another size: %v", err)
	}
	k = open(t, dir, "log-1", 10000)
	if string(k.mapping[9990:10000]) != "0123456789" {
		t.Errorf("it holds %q", k.mapping[9990:10000])
	}
	if err := k.close(); err != nil {
		t.Fatal(err)
	}
}

// keptBy in the environment makes TestKeptMemoryOutlivesAKilledProcess be the process that is killed.
const keptBy = "DRTMD_TEST_KEPT_DIR"

func TestKeptMemoryOutlivesAKilledProcess(t *testing.T) {
	if dir := os.Getenv(keptBy); dir != "" {
		copy(open(t, dir, "log", 8192).mapping[5000:], "written")
		fmt.Println("has written")
		select {}
	}
	dir := keepDir(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKeptMemoryOutlivesAKilledProcess$")
	cmd.Env = append(os.Environ(), keptBy+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, busy := openKept(dir, "log", 8192); !errors.Is(busy, unix.EBUSY) {
		t.Errorf("opened while its owner lives: %v", busy)
	}
	err = errors.Join(err, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	if err != nil || line != "has written\n" {
		t.Fatalf("the process said %q, %v", line, err)
	}
	k := open(t, dir, "log", 8192)
	if got := string(k.mapping[5000:5007]); got != "written" {
		t.Errorf("it holds %q", got)
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
}

func TestKeptMemoryIsListedAndRemoved(t *testing.T) {
	dir := keepDir(t)
	p := NewWith(Options{KeepDir: dir}).(verbs.KeptMemory)
	k, other := open(t, dir, "one.logs", 100), open(t, dir, "two", 100)
	if err := os.WriteFile(filepath.Join(dir, ".hidden"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if names, err := p.Kept(); err != nil || strings.Join(names, " ") != "one.logs two" {
		t.Errorf("%v, %v", names, err)
	}
	if err := p.RemoveKept("two"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("memory in use was removed: %v", err)
	}
	if err := errors.Join(k.close(), other.close(), p.RemoveKept("two")); err != nil {
		t.Error(err)
	}
	if names, err := p.Kept(); err != nil || strings.Join(names, " ") != "one.logs" {
		t.Errorf("%v, %v", names, err)
	}
	for name, want := range map[string]error{"two": unix.ENOENT, "../two": nil} {
		if err := p.RemoveKept(name); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if names, err := New().(verbs.KeptMemory).Kept(); err != nil || names != nil {
		t.Errorf("without a folder: %v, %v", names, err)
	}
}

func TestKeptMemoryIsRefusedWhereItIsNotSafe(t *testing.T) {
	dir := keepDir(t)
	for _, name := range []string{"", ".hidden", "../up", "a/b", "spaced out", strings.Repeat("x", 129)} {
		if _, err := openKept(dir, name, 100); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
	write := func(name string, mode os.FileMode) {
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), make([]byte, 4096), mode),
			os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write("open-to-all", 0o666)
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"open-to-all", "link"} {
		if _, err := openKept(dir, name, 4096); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := openKept(filepath.Join(dir, "no"), "x", 1); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a folder that is not there: %v", err)
	}
	write("half-made", 0o600)
	if err := os.Truncate(filepath.Join(dir, "half-made"), 0); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, "half-made", 5000).close(); err != nil {
		t.Error(err)
	}
}

// On a device, the conformance of kept memory: its content outlives the MR and its context.
func TestDeviceKeepsMemory(t *testing.T) {
	p := NewWith(Options{KeepDir: keepDir(t)})
	if devices, err := p.Devices(); err != nil || len(devices) == 0 {
		if os.Getenv("DRTMD_REQUIRE") == "ibv" {
			t.Fatalf("DRTMD_REQUIRE=ibv, but: %d devices, %v", len(devices), err)
		}
		t.Skipf("no RDMA device: %d devices, %v", len(devices), err)
	}
	for round := range 2 {
		ctx, err := p.Open("")
		if err != nil {
			t.Fatal(err)
		}
		pd, err := ctx.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		mr, err := pd.AllocMR(8192, verbs.AccessAll, verbs.MROptions{Keep: "device"})
		if err != nil {
			t.Fatal(err)
		}
		if got := mr.Bytes()[100]; got != byte(round*7) {
			t.Errorf("round %d: it holds %d", round, got)
		}
		mr.Bytes()[100] = 7
		if err := ctx.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeptFilesAreCopiedAndPutBack, as a whole or not at all.
func TestKeptFilesAreCopiedAndPutBack(t *testing.T) {
	p := &provider{keepDir: keepDir(t)}
	k := open(t, p.keepDir, "one", 10000)
	copy(k.mapping[9990:], "0123456789")
	want := bytes.Clone(k.mapping)
	var b bytes.Buffer
	if err := p.CopyKept("one", &b); !errors.Is(err, unix.EBUSY) {
		t.Errorf("copied while it is open: %v", err)
	}
	if err := errors.Join(k.close(), p.CopyKept("one", &b)); err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Fatalf("%d bytes, %v", b.Len(), err)
	}
	for name, c := range map[string]struct {
		name string
		from []byte
	}{"taken": {"one", want}, "short": {"two", want[1:]}, "long": {"two", append(want, 0)}} {
		if err := p.PutKept(c.name, int64(len(want)), bytes.NewReader(c.from)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if left, err := os.ReadDir(p.keepDir); err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
	if err := p.PutKept("two", int64(len(want)), bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	if k = open(t, p.keepDir, "two", 10000); !bytes.Equal(k.mapping, want) {
		t.Error("another content")
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
}
