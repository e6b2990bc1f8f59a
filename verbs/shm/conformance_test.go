//go:build linux && amd64

package shm

import (
	"os"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/verbstest"
)

// conformanceDir names the run directory of TestConformance to its peer processes.
const conformanceDir = "DRTMD_SHM_CONFORMANCE_DIR"

func conformance(dir string) verbstest.Env {
	env := verbstest.Env{
		Provider: "shm",
		Open:     func() (*verbs.Context, error) { return New(Options{Dir: dir}).Open("") },
		Patience: 5 * time.Second,
		ChildEnv: []string{conformanceDir + "=" + dir},
	}
	if raceEnabled {
		env.NoProcesses = "in race builds memory is on the Go heap, which no other process sees"
		env.Rounds = 0.2
	}
	return env
}

func TestConformance(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "drtmd-conformance-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	verbstest.Run(t, conformance(dir))
}
