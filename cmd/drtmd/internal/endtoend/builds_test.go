package endtoend

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/internal/testkit/raceskip"
)

// otherBuild builds drtmd as another version, and gives the program.
func otherBuild(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs("../report/machine.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(text), "\nconst Version = \"")
	_, after, closed := strings.Cut(after, "\"")
	if !ok || !closed {
		t.Fatalf("%s has no constant Version any more", source)
	}
	changed := filepath.Join(dir, "machine.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"overlay.json": overlay,
		"machine.go": []byte(before + "\nconst Version = \"" + version + "\"" + after)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "drtmd")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", // quicker without symbols
		"-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "drtmd/cmd/drtmd").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// TestBuildsDoNotMix: a node of another build is not let in, and the command line of one is told so.
func TestBuildsDoNotMix(t *testing.T) {
	t.Parallel()
	raceskip.Processes(t)
	const version = "9.9.9"
	program := otherBuild(t, version)
	l := newLab(t)
	l.cluster(1)
	first := l.nodes[0]
	serve := append([]string{"serve", "--node-name", "other", "--node-state-dir", filepath.Join(l.dir,
		"other"), "--control-listen", freePort(t), "--cluster-join", first.control}, l.args...)
	for _, args := range [][]string{{"status", "--cluster", first.control},
		{"bench", "--cluster", first.control, "--duration", "100ms"}, serve} {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		c := exec.CommandContext(ctx, program, args...)
		out, _ := c.CombinedOutput() // the code is what counts
		cancel()
		if code := c.ProcessState.ExitCode(); code != 1 {
			t.Errorf("%s: exit code %d", args[0], code)
		}
		for _, want := range []string{"the cluster runs another version of drtmd", version,
			"use the same build everywhere"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in\n%s", args[0], want, out)
			}
		}
	}
	if st := l.allReady(first, 1); len(st.State.Active.Members) != 1 {
		t.Errorf("members %v", st.State.Active.Members)
	}
	l.ran(first)
}
