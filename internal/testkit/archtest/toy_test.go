package archtest

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edit puts lines behind a line of a composition root.
type edit struct {
	file, behind string
	lines        []string
}

// additions are all that a protocol and a workload need outside of their folders. docs/ARCHITECTURE.md
// has the same list, in "Adding a protocol" and "Adding a workload".
var additions = []edit{
	{"proto/node/protocols.go", "import (", []string{`"drtmd/proto/toy"`}},
	{"proto/node/protocols.go", "		fasst.Protocol(),", []string{"toy.Protocol(),"}},
	{"cmd/drtmd/internal/workloads/workloads.go", "import (", []string{`"drtmd/proto/workload/toys"`}},
	{"cmd/drtmd/internal/workloads/workloads.go", "		micro.Spec(),", []string{"toys.Spec(),"}},
}

// borrowed is what no other protocol may do: the toy has twopl's engine below its own.
const borrowed = "proto/toy imports proto/twopl, which is not below it"

// toyFolders are the folders that are added, and where their files lie.
var toyFolders = map[string]string{"proto/toy": "testdata/toy", "proto/workload/toys": "testdata/toys"}

// overlay writes the file that has go build see the additions, with the module as it is.
func overlay(t *testing.T) string {
	t.Helper()
	absolute := func(name string) string {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for to, from := range toyFolders {
		files, err := filepath.Glob(from + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", from, len(files), err)
		}
		for _, f := range files {
			replace[absolute(filepath.Join(root, to, filepath.Base(f)))] = absolute(f)
		}
	}
	for _, e := range additions {
		path := absolute(filepath.Join(root, e.file))
		copied := filepath.Join(dir, filepath.Base(e.file))
		source := path
		if replace[path] != "" {
			source = copied
		}
		b, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		behind := e.behind + "\n"
		if strings.Count(string(b), behind) != 1 {
			t.Fatalf("%s: one line %q is wanted; put it right in this test", e.file, e.behind)
		}
		text := strings.Replace(string(b), behind, behind+strings.Join(e.lines, "\n")+"\n", 1)
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = copied
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestAToyProtocolAndAToyWorkloadNeedNoOtherEdit builds drtmd with both added, and runs them: on shared
// memory, in the simulator, under faults, and with the protocol's options and deliberate bug.
func TestAToyProtocolAndAToyWorkloadNeedNoOtherEdit(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds drtmd")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool on this machine: ", err) // as in the guest, where only binaries run
	}
	drtmd := filepath.Join(t.TempDir(), "drtmd")
	architecture := documents(t)["docs/ARCHITECTURE.md"]
	for _, e := range additions {
		if !strings.Contains(architecture, "`"+e.file+"`") {
			t.Errorf("docs/ARCHITECTURE.md does not say that %s is edited", e.file)
		}
	}
	added := overlay(t)
	for _, v := range Violations(list(t, "1", "-overlay", added, "./proto/node", "./proto/toy",
		"./proto/workload/toys", "./cmd/drtmd/internal/workloads")) {
		if v != borrowed {
			t.Error(v)
		}
	}
	build := exec.Command(goTool, "build", "-overlay", added, "-ldflags=-s -w", "-o", drtmd, "./cmd/drtmd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runDir, err := os.MkdirTemp("", "toy-") // short: names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(runDir); err != nil {
			t.Error(err)
		}
	})
	load := "bench --protocol toy --workload toys --nodes 2 --fibers 4 --warmup 0s --check --run-dir " + runDir
	virtual := "bench --protocol toy --workload toys --nodes 2 --fibers 4 --transport sim --warmup 0s " +
		"--duration 1ms --check"
	for _, c := range []struct {
		name, args string
		code       int
		want       []string
	}{
		{"lists", "bench --list", 0, []string{"toys that are carried", "one transaction at a time"}},
		{"describes", "bench --list toy", 0, []string{"one transaction at a time", "toy-lie", "--toy-turns"}},
		{"help", "bench --help", 0, []string{"--toy-turns N", "toy: N times that a transaction lets",
			"--boxes N", "toys: N boxes per node; default 64",
			"fasst, toy"}},
		{"shared memory", load + " --duration 200ms", 0, []string{"strictly serializable: yes", "64 boxes per node"}},
		{"the workload's option", load + " --duration 100ms --boxes 32", 0, []string{"strictly serializable: yes",
			"32 boxes per node"}},
		{"the workload's bounds", virtual + " --boxes 1", 2, []string{"--boxes: expected 2 to 4096, not 1"}},
		{"another workload's option", "bench --boxes 9", 2, []string{"workload smallbank has no --boxes; it is one " +
			"of workload toys"}},
		{"options", load + " --duration 100ms --toy-serial=false --toy-turns 2 --toy-mood wild", 0,
			[]string{"strictly serializable: yes"}},
		{"simulator", virtual, 0, []string{"strictly serializable: yes"}},
		{"deliberate bug", virtual + " --mutation toy-lie", 3, []string{"tables of toys"}},
		{"bounds", virtual + " --toy-turns 0", 2, []string{"--toy-turns: expected 1 to 1000, not 0"}},
		{"needs", "bench --protocol toy --nodes 9", 2, []string{"9 nodes: protocol toy names at most 8"}},
		{"another's option", "bench --protocol drtm --toy-pause 1us", 2,
			[]string{"protocol drtm has no --toy-pause; it is one of protocol toy"}},
		{"scenarios", "sim --scenario smallbank-toy --seeds 1..2", 0, []string{"checks    all held"}},
		{"dimension", "sim --scenario races-toy --seed 1 --set serial=no", 0, []string{"checks    all held",
			"toy: before begin"}},
		{"daemons", "up --nodes 2 --dir " + runDir + "/up -- drtmd bench --cluster up --protocol toy --workload " +
			"toys --boxes 16 --toy-turns 2 --warmup 0s --duration 200ms --check", 0, []string{"strictly serializable: yes", "16 boxes per node"}},
		{"configuration", "config --data-protocol toy --data-toy-turns 3 --data-workload toys --data-boxes 8", 0,
			[]string{"data.toy_turns", "--data-toy-turns", "data.boxes", "--data-boxes"}},
		{"a daemon's tables", "DRTMD_DATA_WORKLOAD=toys DRTMD_DATA_BOXES=24 up --nodes 1 --dir " + runDir + "/two -- " +
			"drtmd status --json", 0, []string{`"workload": "toys"`, `"name": "boxes"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env, args := append(os.Environ(), "HOME="+t.TempDir()), strings.Fields(c.args)
			for strings.HasPrefix(args[0], "DRTMD_") {
				env, args = append(env, args[0]), args[1:]
			}
			run := exec.Command(drtmd, args...)
			run.Env = env
			out, err := run.CombinedOutput()
			var exit *exec.ExitError
			if code := run.ProcessState.ExitCode(); code != c.code || err != nil && !errors.As(err, &exit) {
				t.Fatalf("drtmd %s: %v, exit code %d, want %d\n%s", c.args, err, code, c.code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("drtmd %s does not say %q:\n%s", c.args, want, out)
				}
			}
		})
	}
}
