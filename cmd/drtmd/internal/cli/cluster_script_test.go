package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// clusterNodes of drtmd up in scripts: one process has all of a race build's memory.
func clusterNodes() string {
	if raceBuild {
		return "1"
	}
	return "2"
}

// endClusters kills what drtmd up has left running below the folder of a script, which has failed
// then.
func endClusters(work string) {
	var ids []int
	dirs, _ := filepath.Glob(filepath.Join(work, "run", "up*")) // the pattern is good
	for _, dir := range dirs {
		ids = append(ids, livingNodes(dir)...)
	}
	for _, id := range ids {
		_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
	}
	for end := time.Now().Add(bound); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, id := range ids {
			if syscall.Kill(id, 0) == nil && !zombie(id) {
				left++
			}
		}
		if left == 0 {
			return
		}
	}
}

// kill9 FILE: kills the process whose number is in a file.
func killNine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kill9 FILE")
	}
	id, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Check(syscall.Kill(id, syscall.SIGKILL))
	for end := time.Now().Add(bound); syscall.Kill(id, 0) == nil && !zombie(id); {
		if time.Now().After(end) {
			ts.Fatalf("process %d lives on", id)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// scrubbing takes out of an output what each run has anew.
type scrubbing struct {
	re   *regexp.Regexp
	with string
}

func scrubbings(work, transport string) []scrubbing {
	all := []scrubbing{{regexp.MustCompile(regexp.QuoteMeta(work)), "DIR"},
		{regexp.MustCompile(`transport ` + transport), "transport TRANSPORT"},
		{regexp.MustCompile(transport + `/\S+`), "TRANSPORT/DEVICE"}}
	for _, p := range [][2]string{
		{`process \d+`, "process N"},
		{`127\.0\.0\.1:\d+`, "127.0.0.1:PORT"},
		{`local-[0-9a-f]{16}`, "local-ID"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`version \d+`, "version N"},
		{`\d+\.\d of 5 s`, "N of 5 s"},
		{`[\d.]+ MiB reg\., [\d.]+ res\.`, "N MiB reg., N res."},
		{`\d+ RC, \d+ UD`, "N RC, N UD"},
		{`within [0-9.]+[nµm]s; read leases of [0-9.]+[µm]s, read-only [0-9.]+[µm]s`,
			"within N; read leases of N, read-only N"},
		{`(?m)^node \d+ +(threads|warn) .*\n`, ""}, // of this machine, of a slow start
		{` {2,}`, "  "}, // between columns
		{`\n+$`, "\n"},
	} {
		all = append(all, scrubbing{regexp.MustCompile(p[0]), p[1]})
	}
	return all
}

// scrub FILE: writes scrubbed, which is FILE without what differs from run to run.
func scrub(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: scrub FILE")
	}
	text := ts.ReadFile(args[0])
	for _, s := range scrubbings(ts.Getenv("WORK"), ts.Getenv("TRANSPORT")) {
		text = s.re.ReplaceAllString(text, s.with)
	}
	ts.Check(os.WriteFile(ts.MkAbs("scrubbed"), []byte(text), 0o600))
}

// eventually COMMAND...: the command succeeds, if it is tried for long enough.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: eventually COMMAND...")
	}
	for end := time.Now().Add(bound); ; time.Sleep(50 * time.Millisecond) {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("not within %v: %v", bound, err)
		}
	}
}

// output is written by a process and read by the test.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) matches(re *regexp.Regexp) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return re.Match(o.b.Bytes())
}

// interrupted PATTERN COMMAND...: once its output matches, the command is interrupted, and ends with
// the exit code of that.
func interrupted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupted PATTERN COMMAND...")
	}
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	out := &output{}
	c := exec.Command(args[1], args[2:]...)
	c.Dir, c.Stdout, c.Stderr = ts.Getenv("WORK"), out, out
	c.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+ts.Getenv("RUNTIME_DIRECTORY"))
	ts.Check(c.Start())
	end := time.Now().Add(bound)
	for !out.matches(re) && time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
	}
	matched := out.matches(re)
	ts.Check(c.Process.Signal(syscall.SIGINT))
	_ = c.Wait() // the code is what counts
	if code := c.ProcessState.ExitCode(); !matched || code != exitInterrupted {
		ts.Fatalf("matched: %v, exit code %d, not %d:\n%s", matched, code, exitInterrupted, &out.b)
	}
}
