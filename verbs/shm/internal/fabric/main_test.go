//go:build linux && amd64

package fabric

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const (
	roleEnv = "FABRIC_TEST_ROLE" // set in re-executed children
	dirEnv  = "FABRIC_TEST_DIR"

	// longEnough bounds waits for what must happen; a test that meets it has failed.
	longEnough = 5 * time.Second
)

// kinds of call that the child "member" serves.
const (
	kindEcho uint8 = iota + 1
	kindFail
	kindBig
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := childMain(role, os.Getenv(dirEnv)); err != nil {
			fmt.Printf("error %v\n", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	before := openFDs()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println("goroutines leaked:", err)
		code = 1
	}
	if after := openFDs(); after > before+2 && code == 0 { // +2: the runtime's epoll and its waker
		fmt.Printf("descriptors leaked: %d before, %d after\n", before, after)
		code = 1
	}
	os.Exit(code)
}

// childMain is what a re-executed process does: it says "ready INFO" on stdout and lives until
// its stdin ends.
func childMain(role, dir string) error {
	f, err := Open(Options{Dir: dir})
	if err != nil {
		return err
	}
	switch role {
	case "churner":
		return errors.Join(f.Close(), childChurner(dir))
	case "member":
		err = childMember(f)
	case "keeper":
		var s *Segment
		if s, err = f.NewSegment(SegmentOptions{Size: 8192, Keep: "log"}); err == nil {
			copy(s.Bytes()[4096:], "written before the kill")
			f.Export(1, s)
		}
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		return err
	}
	fmt.Printf("ready %s\n", f.Self())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return f.Close()
}

func childMember(f *Fabric) error {
	s, err := f.NewSegment(SegmentOptions{Size: 10_000})
	if err != nil {
		return err
	}
	copy(s.Bytes(), "from the child")
	f.Export(1, s)
	heap, err := f.NewSegment(SegmentOptions{Size: 64, Heap: true})
	if err != nil {
		return err
	}
	f.Export(2, heap)
	e, err := NewEventFD()
	if err != nil {
		return err
	}
	f.ExportFD(1, e)
	f.Handle(kindEcho, func(_ ProcID, req []byte) ([]byte, error) {
		if string(req) == "wait for event" {
			ok, err := e.Wait(longEnough)
			return fmt.Append(nil, ok), err
		}
		return append([]byte("child: "), req...), nil
	})
	f.Handle(kindFail, func(ProcID, []byte) ([]byte, error) { return nil, errors.New("denied") })
	f.Handle(kindBig, func(ProcID, []byte) ([]byte, error) {
		return make([]byte, MaxMessage+1), nil
	})
	return nil
}

// childChurner does everything that leaves something behind when it is killed, again and again.
func childChurner(dir string) error {
	fmt.Println("ready p0.0000000000000000")
	for n := 0; ; n++ {
		f, err := Open(Options{Dir: dir})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("churn-%d", n%8)
		s, err := f.NewSegment(SegmentOptions{Size: 1 << 20, Keep: name})
		if err != nil {
			return err
		}
		a, err := f.NewSegment(SegmentOptions{Size: 1 << 20})
		if err != nil {
			return err
		}
		f.Export(1, a)
		if err := errors.Join(a.Close(), s.Close(), f.RemoveKept(name), f.Close()); err != nil {
			return err
		}
	}
}

// child is a re-executed process on a fabric.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	id   ProcID
	stop io.Closer // its stdin: closing it makes it leave in order
}

// startChild runs a role in another process and waits until it has joined.
func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := &child{t: t, cmd: cmd, stop: in}
	t.Cleanup(c.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	info, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		t.Fatalf("child said %q", line)
	}
	if c.id, ok = parseProcID(info); !ok {
		t.Fatalf("child has id %q", info)
	}
	return c
}

func (c *child) signal(s unix.Signal) {
	c.t.Helper()
	must(c.t, c.cmd.Process.Signal(s))
}

// pause stops the child and returns when all its threads have stopped.
func (c *child) pause() {
	c.t.Helper()
	c.signal(unix.SIGSTOP)
	must(c.t, retry(func() error {
		return unix.Waitid(unix.P_PID, c.cmd.Process.Pid, nil, unix.WSTOPPED, nil)
	}))
}

// kill ends the child with SIGKILL and waits until the kernel is done with it.
func (c *child) kill() {
	if c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// leave lets the child close its fabric and exit.
func (c *child) leave() {
	c.t.Helper()
	must(c.t, c.stop.Close())
	must(c.t, c.cmd.Wait())
}

// testDir names a run directory that does not exist yet, on memory as in real use.
func testDir(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("/dev/shm", "fabric-test-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(parent)) })
	return filepath.Join(parent, "run")
}

func openTest(t *testing.T, dir string) *Fabric {
	t.Helper()
	f, err := Open(Options{Dir: dir})
	must(t, err)
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}

func newSegment(t *testing.T, f *Fabric, o SegmentOptions) *Segment {
	t.Helper()
	s, err := f.NewSegment(o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr checks the reason and that the message has what a user needs.
func wantErr(t *testing.T, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("error %v is not an *Error", err)
	}
}

func wantClosed(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(longEnough):
		t.Fatal("channel still open")
	}
}

func wantOpen(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
		t.Fatal("channel closed")
	default:
	}
}

func openFDs() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

func dirNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
