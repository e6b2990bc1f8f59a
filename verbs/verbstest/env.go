package verbstest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"drtmd/verbs"
)

// Env is what a provider tells the suite about itself.
type Env struct {
	// Provider is the name, as in "shm".
	Provider string
	// Open opens the device for one node. The suite closes what it gets.
	Open func() (*verbs.Context, error)
	// Rounds is the share of the full number of rounds that cases repeat themselves: 1 where
	// an operation takes a microsecond or less. 0 = 1.
	Rounds float64
	// Patience bounds the wait for anything that must happen. 0 = 10 s.
	Patience time.Duration
	// CaseLimit bounds a whole case; it is failed with all stacks then. 0 = 60 s.
	CaseLimit time.Duration
	// MaxBytes is the largest message that the cases send. 0 = 4 MiB. The device's own limit
	// is tested at post, without sending.
	MaxBytes int
	// Objects is how many QPs and MRs the cases about leaks make, at most. 0 = 2000.
	Objects int
	// ChildEnv is added to the environment of the processes that Main turns into peers.
	ChildEnv []string
	// NoProcesses says why peers cannot be processes here; "" = they can.
	NoProcesses string
	// World runs a case's main proc and everything that it starts, and returns when all of it
	// has ended. Nil is real time, with goroutines and processes; a simulator brings its own.
	World func(t *testing.T, start func(Host))
}

func (e Env) withDefaults() Env {
	if e.Rounds == 0 {
		e.Rounds = 1
	}
	if e.Patience == 0 {
		e.Patience = 10 * time.Second
	}
	if e.CaseLimit == 0 {
		e.CaseLimit = time.Minute
	}
	if e.MaxBytes == 0 {
		e.MaxBytes = 4 << 20
	}
	if e.Objects == 0 {
		e.Objects = 2000
	}
	return e
}

// Placement is where the peers of a case live.
type Placement string

const (
	Goroutines Placement = "goroutines" // contexts of their own in one process
	Processes  Placement = "processes"
)

// Case is one clause of the contract.
type Case struct {
	Name  string // subject/what holds
	Alone bool   // it has no peer, so it runs once, under Goroutines
	Apart bool   // its peer must be a process, so it runs once, under Processes
	Body  func(p *Proc)
}

// Run runs every case on the provider, each as a subtest named placement/subject/what.
func Run(t *testing.T, env Env) {
	env = env.withDefaults()
	for _, placement := range []Placement{Goroutines, Processes} {
		t.Run(string(placement), func(t *testing.T) {
			crew := newCrew(env)
			defer crew.dismiss(t)
			for _, c := range Cases() {
				if c.Alone && placement == Processes || c.Apart && placement == Goroutines {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					if placement == Processes && env.NoProcesses != "" {
						Skip(t, env.Provider, env.NoProcesses)
					}
					runCase(t, env, crew, placement, c)
				})
			}
		})
	}
}

// Skip skips the test because the host lacks something that the caller has checked, and fails
// it instead where the environment variable DRTMD_REQUIRE names the provider.
func Skip(t testing.TB, provider, reason string) {
	t.Helper()
	if Required(provider) {
		t.Fatalf("DRTMD_REQUIRE=%s, but: %s", os.Getenv("DRTMD_REQUIRE"), reason)
	}
	t.Skip(reason)
}

// Required reports whether DRTMD_REQUIRE, a list with commas, names the provider.
func Required(provider string) bool {
	return slices.Contains(strings.Split(os.Getenv("DRTMD_REQUIRE"), ","), provider)
}

// Cases is the whole suite, in the order in which it runs.
func Cases() []Case {
	return slices.Concat(connectCases(), opcodeCases(), sizeCases(), recvCases(), udCases(),
		atomicCases(), orderCases(), queueCases(), overrunCases(), faultCases(), eventCases(),
		lifecycleCases(), hookCases(), processCases())
}

// runCase runs one case in the environment's world.
func runCase(t *testing.T, env Env, crew *crew, placement Placement, c Case) {
	main := func(h Host) {
		p := newProc(env, h, placement)
		p.run(c.Body)
	}
	if env.World != nil {
		env.World(t, main)
		return
	}
	w := &world{t: t, env: env, crew: crew, started: time.Now()}
	w.run(main)
}

// stopped is what Fatalf panics with, to unwind a proc.
type stopped struct{}

// Main is the TestMain of a package that runs the suite. In a process that Run started it plays
// peers and never returns; else it runs the tests and exits, with failure also if they passed but
// left goroutines or descriptors behind.
func Main(m *testing.M, env Env) {
	if os.Getenv(childVariable) != "" {
		if err := playPeers(env.withDefaults()); err != nil {
			fmt.Fprintln(os.Stderr, "verbstest peer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	before := descriptors()
	code := m.Run()
	if code == 0 {
		if left := leftovers(before); left != "" {
			fmt.Fprintln(os.Stderr, left)
			code = 1
		}
	}
	os.Exit(code)
}
