package daemon

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
)

func TestThreadsHaveTheCPUsOfTheConfigurationAndStatusSaysSo(t *testing.T) {
	allowed, err := service.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	n := newWorld(t, 0).add()
	n.cfg.Node.CPUs = service.CPUList(allowed[len(allowed)-1:])
	n.cfg.Data.Workers = 2
	n.start()
	s := n.await(status.Ready)
	if s.CPUs == nil || s.CPUs.List != n.cfg.Node.CPUs || !strings.HasPrefix(s.CPUs.Why, "node.cpus") {
		t.Errorf("status says %+v, want CPUs %s", s.CPUs, n.cfg.Node.CPUs)
	}
	if s.Plane == nil || s.Plane.Threads != 1 {
		t.Errorf("plane %+v, want 1 thread for 1 CPU", s.Plane)
	}
	if len(allowed) > 1 && confined(t, n.cfg.Node.CPUs) != 1 {
		t.Errorf("%d OS threads have CPUs %s only, want 1", confined(t, n.cfg.Node.CPUs), n.cfg.Node.CPUs)
	}
}

// confined counts the OS threads of this process that may run on the listed CPUs only.
func confined(t *testing.T, list string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(files) == 0 {
		t.Fatalf("threads %v, %v", files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(b), "\nCpus_allowed_list:\t"+list+"\n") {
			n++
		}
	}
	return n
}

func TestANodeWhoseCPUsAreNotAllowedDoesNotStart(t *testing.T) {
	_, err := placeThreads(&config.Config{Node: config.Node{CPUs: "1000"}}, "")
	if err == nil || !strings.Contains(err.Error(), "may not use CPU 1000") {
		t.Errorf("got %v", err)
	}
}

func TestThereAreNoMoreThreadsThanCPUsUnlessAskedFor(t *testing.T) {
	two := service.Placement{CPUs: []int{0, 1}}
	for _, c := range []struct {
		name                   string
		placed                 service.Placement
		plan, configured, want int
	}{
		{"two CPUs", two, 0, 0, min(2, runtime.NumCPU())},
		{"two CPUs, four threads configured", two, 0, 4, 4},
		{"two CPUs, three threads in the plan", two, 3, 4, 3},
		{"no CPUs chosen", service.Placement{}, 0, 0, min(8, runtime.NumCPU())},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config.Default(composition.BuiltIn())
			cfg.Data.Threads = c.configured
			d := &Daemon{cfg: &cfg}
			d.placed.Store(&c.placed)
			if got := d.threads(c.plan, 8); got != c.want {
				t.Errorf("%d threads for 8 workers, want %d", got, c.want)
			}
		})
	}
}
