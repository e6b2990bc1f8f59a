package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/internal/testkit/tempdir"
	"drtmd/verbs"
)

// asCommand in the environment makes the test binary be drtmd.
const asCommand = "DRTMD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Main(composition.BuiltIn(), os.Args[1:], os.Stdout, os.Stderr))
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		"drtmd": func() { os.Exit(Main(composition.BuiltIn(), os.Args[1:], os.Stdout, os.Stderr)) },
		"drtmd-without-memfd": func() {
			if err := forbid(unix.SYS_MEMFD_CREATE); err != nil {
				panic(err)
			}
			os.Exit(Main(composition.BuiltIn(), os.Args[1:], os.Stdout, os.Stderr))
		},
	})
}

// leakChecked adds a look for forgotten goroutines to a run of tests.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	remove, err := tempdir.Own()
	if err != nil {
		panic(err)
	}
	code := remove(l.m.Run())
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

// transportUnderTest is shm, or what DRTMD_TRANSPORT names.
func transportUnderTest() string {
	if t := os.Getenv("DRTMD_TRANSPORT"); t != "" {
		return t
	}
	return "shm"
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			module, err := filepath.Abs(moduleRoot)
			if err != nil {
				return err
			}
			e.Setenv("MODULE", module)
			e.Setenv("TRANSPORT", transportUnderTest())
			// A race build waits a second before it exits, for reports: here it is a command of many.
			e.Setenv("GORACE", "atexit_sleep_ms=50")
			e.Setenv("NODES", clusterNodes())
			e.Defer(func() { endClusters(e.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "scrub": scrub,
			"eventually": eventually, "interrupted": interrupted, "documented": documented,
			"kill9": killNine},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "rdma": // this machine has a device that can be used
				infos, err := devices()
				return err == nil && len(infos) > 0 && infos[0].Err == nil, nil
			case "built":
				_, err := devices()
				return !errors.Is(err, verbs.ErrNotBuilt), nil
			case "race":
				return raceBuild, nil
			case "guest":
				return os.Getenv("DRTMD_GUEST") != "", nil
			}
			return false, errors.New("unknown condition")
		},
	})
}

// devices lists what RDMA devices this machine has.
func devices() ([]verbs.DeviceInfo, error) {
	p, err := transport.New("ibv", transport.Options{})
	if err != nil {
		return nil, err
	}
	return p.Devices()
}

// exits CODE COMMAND...: the command ends with this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, not %d", got, want)
	}
}
