package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exampleMain is the program of the README, in a block of Go.
var exampleMain = regexp.MustCompile("(?s)```go\n(// Command mydrtmd.*?)```")

// TestAProgramBringsItsOwnProtocolAndWorkload builds the program of the README in a module of its own,
// without a network, and runs it.
func TestAProgramBringsItsOwnProtocolAndWorkload(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds drtmd")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool on this machine: ", err)
	}
	example := exampleMain.FindStringSubmatch(documents(t)["README.md"])
	if example == nil {
		t.Fatal("README.md has no block of Go that begins with // Command mydrtmd")
	}
	if lines := strings.Count(example[1][strings.Index(example[1], "func main"):], "\n"); lines > 10 {
		t.Errorf("main has %d lines, more than 10", lines)
	}
	dir, err := os.MkdirTemp("", "own-") // short: names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	goMod := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(read(filepath.Join(module, "go.mod")),
		"module example.com/mydrtmd\n\nrequire drtmd v0.0.0\n\nreplace drtmd => "+module)
	for name, text := range map[string]string{"main.go": example[1], "go.mod": goMod,
		"go.sum": read(filepath.Join(module, "go.sum")), "toy/toy.go": read("testdata/toy/toy.go"),
		"toys/toys.go": read("testdata/toys/toys.go")} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command(goTool, "build", "-ldflags=-s -w", "-o", "mydrtmd", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for args, want := range map[string]string{
		"bench --list": "toys that are carried from box to box",
		"bench --workload toys --protocol toy --boxes 16 --warmup 0s --duration 100ms --check": "strictly serializable: yes",
		"bench --workload toys --processes 2 --nodes 2 --warmup 0s --duration 100ms --check":   "in 2 processes",
		"up --nodes 2 --dir " + dir + "/up -- " + dir + "/mydrtmd bench --cluster up --workload toys --protocol toy " +
			"--toy-turns 2 --warmup 0s --duration 100ms --check": "strictly serializable: yes",
	} {
		run := exec.Command(filepath.Join(dir, "mydrtmd"), strings.Fields(args)...)
		run.Env = append(os.Environ(), "HOME="+dir)
		out, err := run.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("mydrtmd %s: %v, want %q\n%s", args, err, want, out)
		}
	}
}
