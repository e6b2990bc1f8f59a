package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/report"
)

// process is a drtmd of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	lines  chan string // of stderr
	all    *strings.Builder
}

// bound is how long anything here may take.
const bound = 30 * time.Second

// launch starts drtmd. Processes of one test share a run directory that must be gone in the end.
func launch(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if transportUnderTest() == "shm" {
		args = append(args, "--run-dir", dir)
	}
	args = append(args, "--transport", transportUnderTest())
	p := &process{t: t, cmd: exec.Command(self, args...), lines: make(chan string, 1000),
		all: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), asCommand+"=1")
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// says waits for a line of stderr and gives the first group of the pattern.
func (p *process) says(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	limit := time.After(bound)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("%s ended without saying %q:\n%s", p.cmd.Args, pattern, p.all)
			}
			p.all.WriteString(line + "\n")
			if m := re.FindStringSubmatch(line); m != nil {
				return m[len(m)-1]
			}
		case <-limit:
			p.t.Fatalf("%s did not say %q:\n%s", p.cmd.Args, pattern, p.all)
		}
	}
}

// ends waits for the end, checks the exit code and returns all of stderr.
func (p *process) ends(code int) string {
	p.t.Helper()
	limit := time.AfterFunc(bound, func() { _ = p.cmd.Process.Kill() })
	defer limit.Stop()
	for line := range p.lines {
		p.all.WriteString(line + "\n")
	}
	err := p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("%s: %v, want exit code %d\n%s", p.cmd.Args, err, code, p.all)
	}
	return p.all.String()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// needsSharing skips what no race build can do.
func needsSharing(t *testing.T) {
	t.Helper()
	if raceBuild && transportUnderTest() == "shm" {
		t.Skip("race builds have the memory of shm on the Go heap: one process only")
	}
}

// listening starts a listener on a free port and returns its address.
func listening(t *testing.T, dir string) (*process, string) {
	t.Helper()
	l := launch(t, dir, "perf", "--listen=:0")
	return l, l.says(`waiting for drtmd perf --connect.*"address": "(127\.0\.0\.1:\d+)"`)
}

func noRunDir(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		entries, _ := filepath.Glob(dir + "/*")
		t.Errorf("run directory left: %v, %v", entries, err)
	}
}

func TestPerfBetweenProcesses(t *testing.T) {
	needsSharing(t)
	dir := filepath.Join(t.TempDir(), "run")
	l, address := listening(t, dir)
	c := launch(t, dir, "perf", "--connect", address, "--iters", "100", "--size", "0,64,3000",
		"--json")
	c.ends(exitDone)
	if text := l.ends(exitDone); !strings.Contains(text, "the peer is done") {
		t.Errorf("listener: %s", text)
	}
	var doc report.Perf
	if err := json.Unmarshal(c.stdout.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Peer.SameProcess || doc.Peer.Address != address || len(doc.Rows) < 13 {
		t.Errorf("peer %+v, %d rows", doc.Peer, len(doc.Rows))
	}
	for _, r := range doc.Rows {
		// A datagram may be lost, nothing else may.
		if r.Latency.Samples+r.Latency.Lost != 100 || r.Rate.Messages+r.Rate.Lost != 100 ||
			r.Op != "ud" && r.Latency.Lost+int64(r.Rate.Lost) > 0 {
			t.Errorf("%s %d B: %+v %+v", r.Op, r.Size, *r.Latency, *r.Rate)
		}
	}
	noRunDir(t, dir)
}

func TestListenerGoesOnAfterGarbage(t *testing.T) {
	needsSharing(t)
	dir := filepath.Join(t.TempDir(), "run")
	l, address := listening(t, dir)
	start := time.Now()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	l.says(`refused a connection.*not a drtmd perf peer: it sent \\"GET \\" first`)
	if d := time.Since(start); d > time.Second {
		t.Errorf("refused after %s", d)
	}
	launch(t, dir, "perf", "faa", "--connect", address, "--iters", "10").ends(exitDone)
	l.ends(exitDone)
	noRunDir(t, dir)
}

func TestPeerOfAnotherProtocolIsRefusedByTheConnectingSide(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2p1\r\n"))
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	dir := filepath.Join(t.TempDir(), "run")
	text := launch(t, dir, "perf", "--connect", l.Addr().String()).ends(exitFailed)
	if !strings.Contains(text, `not a drtmd perf peer: it sent "SSH-" first`) ||
		strings.Count(text, "\n") != 1 {
		t.Errorf("%q", text)
	}
	noRunDir(t, dir)
}

// vanishing kills one side while the other measures and wants a clear end.
func vanishing(t *testing.T, op string, killListener bool) {
	dir := filepath.Join(t.TempDir(), "run")
	l, address := listening(t, dir)
	c := launch(t, dir, "perf", op, "--connect", address, "--size", "8", "--duration", "60s")
	c.says("measuring " + op)
	l.says("serving")
	time.Sleep(200 * time.Millisecond) // into the measurement; where exactly does not matter
	dies, stays := c, l
	if killListener {
		dies, stays = l, c
	}
	start := time.Now()
	dies.signal(syscall.SIGKILL)
	dies.ends(-1)
	text := stays.ends(exitFailed)
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("it took %s", d)
	}
	if !strings.Contains(text, "the peer is gone") && !strings.Contains(text, "RETRY_EXC") {
		t.Errorf("no clear error: %s", text)
	}
	// What the killed one left is reclaimed by the next start, which leaves nothing.
	launch(t, dir, "perf", "cas", "--iters", "10").ends(exitDone)
	noRunDir(t, dir)
}

func TestPeerThatVanishes(t *testing.T) {
	needsSharing(t)
	for _, op := range []string{"read", "write", "send"} {
		t.Run(op+", listener killed", func(t *testing.T) { vanishing(t, op, true) })
	}
	t.Run("send, connector killed", func(t *testing.T) { vanishing(t, "send", false) })
}

// A stopped connector keeps its connection and gives the listener nothing to see: the heartbeats
// that are missing end the run. Resumed, it is told.
func TestPeerThatIsStopped(t *testing.T) {
	needsSharing(t)
	t.Parallel() // it waits for the limit of 10 s
	dir := filepath.Join(t.TempDir(), "run")
	l, address := listening(t, dir)
	c := launch(t, dir, "perf", "read", "--connect", address, "--size", "8", "--duration", "60s")
	c.says("measuring read")
	l.says("serving")
	time.Sleep(200 * time.Millisecond) // into the measurement; where exactly does not matter
	start := time.Now()
	c.signal(syscall.SIGSTOP)
	text := l.ends(exitFailed)
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("it took %s", d)
	}
	if !strings.Contains(text, "silent for 10s; its process is stopped") {
		t.Errorf("no clear error: %s", text)
	}
	c.signal(syscall.SIGCONT)
	c.ends(exitFailed)
	noRunDir(t, dir)
}

func TestInterruptPrintsTheRowsAndLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := launch(t, dir, "perf", "read", "--size", "8,64", "--duration", "700ms")
	p.says("measuring read 64 B, latency")
	p.signal(syscall.SIGINT)
	text := p.ends(exitInterrupted)
	out := p.stdout.String()
	if !strings.Contains(text, "drtmd: interrupted") || !strings.Contains(out, "rows are missing") ||
		!regexp.MustCompile(`(?m)^read +8 `).MatchString(out) {
		t.Errorf("stdout:\n%s\nstderr:\n%s", out, text)
	}
	noRunDir(t, dir)
}

// In the document an interruption is no error: interrupted says it.
func TestInterruptedDocumentSaysSoAndNamesNoError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := launch(t, dir, "perf", "read", "--size", "8", "--duration", "60s", "--json")
	p.says("measuring read 8 B, latency")
	p.signal(syscall.SIGINT)
	p.ends(exitInterrupted)
	var d struct {
		Interrupted bool
		Error       *string
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if !d.Interrupted || d.Error != nil {
		t.Errorf("interrupted %t, error %v", d.Interrupted, d.Error)
	}
}

func TestInterruptedSideTellsTheOther(t *testing.T) {
	needsSharing(t)
	dir := filepath.Join(t.TempDir(), "run")
	l, address := listening(t, dir)
	c := launch(t, dir, "perf", "send", "--connect", address, "--size", "8", "--duration", "60s")
	l.says("serving")
	c.says("measuring send")
	l.signal(syscall.SIGTERM)
	l.ends(exitInterrupted)
	if text := c.ends(exitFailed); !strings.Contains(text, "the peer failed: it was interrupted") {
		t.Errorf("%s", text)
	}
	noRunDir(t, dir)
}

func TestWaitingListenerCanBeInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	l, _ := listening(t, dir)
	l.signal(syscall.SIGINT)
	l.ends(exitInterrupted)
	noRunDir(t, dir)
}
