//go:build linux && amd64

package shm

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/verbstest"
)

// suiteDirEnv tells the peers of the suite the run directory.
const suiteDirEnv = "DRTMD_SHM_TEST_DIR"

// suiteEnv runs the suite on a run directory of its own, below dir.
func suiteEnv(dir string) verbstest.Env {
	p := New(Options{Dir: filepath.Join(dir, "run")})
	e := verbstest.Env{
		Provider: p.Name(),
		Open:     func() (*verbs.Context, error) { return p.Open("") },
		Patience: 5 * time.Second,
		ChildEnv: []string{suiteDirEnv + "=" + dir},
	}
	if raceEnabled {
		e.NoProcesses = "memory is on the Go heap in builds with the race detector"
		e.Rounds = 0.1
	}
	return e
}

func TestConformance(t *testing.T) {
	dir, err := os.MkdirTemp("", "drtmd-shm-")
	check(t, err)
	t.Cleanup(func() {
		// The next to come sweeps up after the processes that the suite killed.
		p := New(Options{Dir: filepath.Join(dir, "run")})
		names, err := p.Kept()
		check(t, err)
		for _, name := range names {
			check(t, p.RemoveKept(name))
		}
		check(t, os.Remove(dir)) // nothing else is left in it
	})
	verbstest.Run(t, suiteEnv(dir))
}

func TestMain(m *testing.M) {
	if playsRole() {
		return
	}
	verbstest.Main(m, suiteEnv(os.Getenv(suiteDirEnv)))
}
