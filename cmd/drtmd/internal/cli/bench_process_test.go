package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// children of a process.
func (p *process) children() []int {
	p.t.Helper()
	id := p.cmd.Process.Pid
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", id))
	if err != nil {
		p.t.Fatal(err)
	}
	var all []int
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", id, task.Name()))
		if err != nil {
			continue // the thread has ended
		}
		for _, f := range strings.Fields(string(b)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				p.t.Fatal(err)
			}
			all = append(all, n)
		}
	}
	return all
}

// gone waits until processes have ended.
func gone(t *testing.T, ids []int) {
	t.Helper()
	for end := time.Now().Add(bound); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, id := range ids {
			if syscall.Kill(id, 0) == nil {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d of the processes %v live on", left, ids)
		}
	}
}

// benching starts a long run on two processes and waits until it measures.
func benching(t *testing.T, args ...string) (*process, []int) {
	t.Helper()
	needsSharing(t)
	p := launch(t, filepath.Join(t.TempDir(), "run"), append([]string{"bench", "--nodes", "2", "--processes", "2",
		"--accounts", "200", "--warmup", "0s", "--duration", "1h"}, args...)...)
	p.says("measuring, .* committed/s")
	ids := p.children()
	if len(ids) != 2 {
		t.Fatalf("%d processes, want 2", len(ids))
	}
	return p, ids
}

func TestBenchOfProcessesIsInterruptedWithItsReport(t *testing.T) {
	p, ids := benching(t, "--check")
	p.signal(syscall.SIGINT)
	p.ends(exitInterrupted)
	out := p.stdout.String()
	for _, want := range []string{"\nall ", "interrupted: ", "in 2 processes",
		"sums conserved: yes\n", "strictly serializable: yes ("} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	gone(t, ids)
}

// TestBenchRunsOnWhenOneOfItsProcessesIsKilled: with the locks that its clients held.
func TestBenchRunsOnWhenOneOfItsProcessesIsKilled(t *testing.T) {
	p, ids := benching(t, "--check", "--distributed", "0.2")
	if err := syscall.Kill(ids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.says("running on")
	for range 2 { // the first may have been under way
		p.says("measuring, .*: [1-9][0-9]* committed/s")
	}
	p.signal(syscall.SIGINT)
	lost := fmt.Sprintf("process %d of the cluster has ended, with nodes [", ids[0])
	if text := p.ends(exitInterrupted); !strings.Contains(text, lost) ||
		!strings.Contains(text, "signal: killed") {
		t.Errorf("stderr:\n%s", text)
	}
	out := p.stdout.String()
	for _, want := range []string{"\nall ", "unreachable ", "sums conserved: unknown: " + lost} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "serializable") {
		t.Errorf("a part of the history is a verdict:\n%s", out)
	}
	gone(t, ids)
}

func TestProcessesOfABenchEndWithTheirSupervisor(t *testing.T) {
	p, ids := benching(t)
	p.signal(syscall.SIGKILL)
	gone(t, ids)
}

func TestBenchIsInterruptedWithItsReport(t *testing.T) {
	p := launch(t, filepath.Join(t.TempDir(), "run"), "bench", "--accounts", "200", "--warmup", "0s", "--duration", "1h")
	p.says("measuring, .* committed/s")
	p.signal(syscall.SIGTERM)
	p.ends(exitInterrupted)
	if out := p.stdout.String(); !strings.Contains(out, "\ninterrupted: ") ||
		!strings.Contains(out, "\nsums conserved: yes\n") {
		t.Errorf("report:\n%s", out)
	}
}
