package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/internal/durable"
)

// upNode is a node that this process has started.
type upNode struct {
	upMember
	log      string // its file
	cmd      *exec.Cmd
	began    time.Time
	ended    chan struct{}
	err      error  // valid after ended
	line     string // that begins with READY
	reported bool   // how it has ended was said
	// advice is what helps while it is not ready, to follow what it waits for; "" if nothing is known.
	advice func() string
}

// pidFile has the process of a node, in its folder.
const pidFile = "pid"

// launch starts a node of the folder.
func launchNode(dir string, m upMember) (*upNode, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	own := filepath.Join(dir, m.Name)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	n := &upNode{upMember: m, log: filepath.Join(own, "log"), began: time.Now(),
		ended: make(chan struct{}), advice: func() string { return "" }}
	log, err := os.OpenFile(n.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	out, err := os.OpenFile(n.log+".out", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	n.cmd = exec.Command(program, m.Args...)
	n.cmd.Stdout, n.cmd.Stderr = out, log
	// Ctrl-C of the terminal is for up, which drains the nodes.
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		n.err = n.cmd.Wait()
		close(n.ended)
	}()
	return n, durable.WriteFile(filepath.Join(own, pidFile), fmt.Appendln(nil, n.cmd.Process.Pid), 0o600)
}

// failed is the error of a node that has ended by itself, said once.
func (n *upNode) failed() error {
	n.reported = true
	return fmt.Errorf("%s has ended: %w; the end of its log:\n%s", n.Name, n.err, tail(n.log))
}

// hasEnded does not wait.
func (n *upNode) hasEnded() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

// endsWithin waits for the end of a node.
func (n *upNode) endsWithin(d time.Duration) bool {
	select {
	case <-n.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// patience is how long up waits for a node that has been started.
type patience struct{ begun, until time.Time }

func newPatience(now time.Time) patience { return patience{begun: now, until: now.Add(readyTimeout)} }

// loads has it last readyTimeout from now on: the node loads its tables, for which it gets loadedTimeout.
func (p *patience) loads(now time.Time) {
	if now.Sub(p.begun) < loadedTimeout {
		p.until = now.Add(readyTimeout)
	}
}

func (p *patience) ended(now time.Time) bool { return now.After(p.until) }

// await waits until a node is ready, and tells what it waits for.
func (a *app) await(ctx context.Context, n *upNode) error {
	p := newPatience(time.Now())
	told := p.begun
	for {
		if line := readyLine(n.log + ".out"); line != "" {
			n.line = line
			a.log.Info(line)
			return nil
		}
		if time.Since(told) > lineInterval {
			text, loads := n.state(ctx)
			if loads {
				p.loads(time.Now())
			}
			a.log.Info("waiting for " + n.Name + text + n.advice())
			told = time.Now()
		}
		if p.ended(time.Now()) {
			text, _ := n.state(ctx)
			return fmt.Errorf("%s was not ready within %v%s%s; the end of its log:\n%s", n.Name,
				time.Since(p.begun).Round(time.Second), text, n.advice(), tail(n.log))
		}
		select {
		case <-n.ended:
			if n.err == nil {
				return fmt.Errorf("%s has ended before it was ready; its log: %s", n.Name, n.log)
			}
			return n.failed()
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// state is what a node says of itself, to follow its name; "" if it does not answer. loads: it builds its part of a plane,
// and nothing is in the way.
func (n *upNode) state(ctx context.Context) (text string, loads bool) {
	c, err := (&clientFlags{}).dialAt(n.Address)
	if err != nil {
		return "", false
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	st, err := c.Status(ctx, true)
	if err != nil || len(st.Nodes) == 0 {
		return "", false
	}
	s := &st.Nodes[0]
	text = fmt.Sprintf(", which is %s", s.Phase)
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text, s.Phase == status.Connecting && s.Wait == status.Loading
}

// readyLine is the line that begins with READY, or "".
func readyLine(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	for _, l := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(l, "READY ") {
			return l
		}
	}
	return ""
}

// tail is the end of a log.
func tail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var lines []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		lines = append(lines, "  "+s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

func removeIfThere(name string) error {
	err := os.Remove(name)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// killedTimeout is how long a process that was killed may take to let go of its folder: its threads end
// one after the other, and the command line is gone with the first.
const killedTimeout = 10 * time.Second

// awaitUnlocked waits until no process has a state folder; the error names the one that has.
func awaitUnlocked(ctx context.Context, dir string) error {
	for end := time.Now().Add(killedTimeout); ; {
		unlock, err := service.Lock(dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil
		case err == nil:
			return unlock()
		case time.Now().After(end):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
