package etcdmember

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// SpawnConfig of Spawn.
type SpawnConfig struct {
	ServerConfig // but for TLS: the process reads the files
	// Program and Args are a command line that calls RunChild.
	Program string
	Args    []string
	// Disk is told when etcd's disk has become slow, and when it no longer is; nil drops it.
	Disk func(Disk)
}

// Process is an etcd in a process of its own, so that nothing that ends it ends this one: a panic of
// etcd's goroutines, a fault of a file that it maps. It ends with this process.
type Process struct {
	dir    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	log    *zap.Logger
	disk   func(Disk)
	urls   []string
	ready  chan struct{} // closed when urls are valid
	failed chan error    // holds one; closed when the process has ended
	stderr tail

	mu     sync.Mutex // guards what follows
	asked  bool       // to stop
	reason string     // that it gave for its end
}

const (
	// spawnTimeout bounds a start: the check of 256 MiB and the start of etcd.
	spawnTimeout = 2 * startTimeout
	// stopTimeout is what it gets to close its files.
	stopTimeout = 10 * time.Second
)

// Spawn starts the process and waits until it serves.
func Spawn(ctx context.Context, cfg SpawnConfig) (*Process, error) {
	p := &Process{dir: cfg.Dir, log: cfg.Log, disk: cfg.Disk, ready: make(chan struct{}), failed: make(chan error, 1)}
	if p.log == nil {
		p.log = zap.NewNop()
	}
	p.cmd = exec.Command(cfg.Program, cfg.Args...)
	p.cmd.Args[0] = "drtmd" // for ps: the program may be /proc/self/exe
	// Not of this process' group: Ctrl-C is for the daemon.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := make(chan error, 1)
	go p.live(out, begun)
	if err := <-begun; err != nil {
		return nil, fmt.Errorf("the process of the embedded etcd: %w", err)
	}
	b, err := json.Marshal(order{Dir: cfg.Dir, Listen: cfg.Listen, CA: cfg.CA, Cert: cfg.Cert,
		Key: cfg.Key})
	if err == nil {
		_, _ = p.in.Write(append(b, '\n')) // a process that has ended says why
	}
	late := time.NewTimer(spawnTimeout)
	defer late.Stop()
	select {
	case <-p.ready:
		return p, nil
	case err = <-p.failed:
		if err == nil {
			err = errors.New("the process of the embedded etcd has ended")
		}
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = fmt.Errorf("embedded etcd in %s: not ready after %v: is its disk slow or full?", cfg.Dir,
			spawnTimeout)
	}
	p.kill()
	return nil, err
}

// live is the process' life. Its thread is the one that Pdeathsig means: it stays until then.
func (p *Process) live(out io.Reader, begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	begun <- err
	if err != nil {
		return
	}
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			break
		}
		var w word
		if json.Unmarshal(line, &w) == nil { // else it is a line of nobody's
			p.hear(&w)
		}
	}
	err = p.cmd.Wait()
	p.mu.Lock()
	asked, reason := p.asked, p.reason
	p.mu.Unlock()
	if reason == "" && err != nil {
		reason = p.died(err)
	}
	if reason != "" && !asked {
		p.failed <- errors.New(reason)
	}
	close(p.failed)
}

func newline(r rune) bool { return r == '\n' }

func (p *Process) hear(w *word) {
	switch {
	case w.Ready != nil:
		p.urls = w.Ready
		close(p.ready)
	case w.Failed != "":
		p.mu.Lock()
		p.reason = strings.Join(strings.FieldsFunc(w.Failed, newline), "; ")
		p.mu.Unlock()
	case w.Disk != nil && p.disk != nil:
		p.disk(*w.Disk)
	case w.Log != nil:
		var fields []zap.Field
		for k, v := range w.Log.Fields {
			fields = append(fields, zap.Any(k, v))
		}
		p.log.Log(min(w.Log.Level, zap.ErrorLevel), w.Log.Text, fields...)
	}
}

// died says why the process has ended without a word of its own.
func (p *Process) died(err error) string {
	text := p.stderr.String()
	p.log.Debug("the end of the embedded etcd", zap.String("stderr", text))
	why := err.Error()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") ||
			strings.HasPrefix(line, "unexpected fault") || strings.HasPrefix(line, "SIGBUS") {
			why = strings.TrimSuffix(line, " [recovered]")
			break
		}
	}
	select {
	case <-p.ready:
		return unexpected(p.dir, why)
	default: // it was reading its files
		return fmt.Sprintf("embedded etcd in %s has ended while it started: %s; if neither memory nor disk "+
			"is full, its files are damaged: %s", p.dir, why, adviceForDamage(filepath.Join(p.dir, dataFolder)))
	}
}

// unexpected says what to do when etcd ends by itself.
func unexpected(dir, why string) string {
	text := fmt.Sprintf("embedded etcd in %s has ended: %s", dir, why)
	if strings.Contains(text, noSpace) {
		return text
	}
	return fmt.Sprintf("%s; start this node again; if it ends so again and neither memory nor disk is "+
		"full, its files are damaged: %s", text, adviceForDamage(filepath.Join(dir, dataFolder)))
}

// URLs are for clients.
func (p *Process) URLs() []string { return p.urls }

// Failed gives an error when the process has ended by itself; it is closed when it has ended.
func (p *Process) Failed() <-chan error { return p.failed }

// Reload has it read the certificates again.
func (p *Process) Reload() error {
	_, err := p.in.Write([]byte("reload\n"))
	return err
}

// Close stops the process; what it stored stays.
func (p *Process) Close() error {
	p.mu.Lock()
	again := p.asked
	p.asked = true
	p.mu.Unlock()
	if again {
		return nil
	}
	_ = p.in.Close() // it may have ended
	timer := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	for range p.failed { // until it is closed
	}
	return nil
}

// kill ends the process at once.
func (p *Process) kill() {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended
	for range p.failed {
	}
	_ = p.in.Close() // Wait may have closed it
}

// tail keeps the begin of what is written: there the reason of a panic is.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const tailBytes = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if left := tailBytes - t.b.Len(); left > 0 {
		t.b.Write(b[:min(left, len(b))])
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
