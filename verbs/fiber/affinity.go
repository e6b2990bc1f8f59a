package fiber

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// confine has the calling OS thread, to which its goroutine is locked, run on cpus only. restore
// puts back what was before: threads that the runtime makes from this one inherit it.
func confine(cpus []int) (restore func() error, err error) {
	if len(cpus) == 0 {
		return func() error { return nil }, nil
	}
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("reading the CPUs of a thread: %w", err)
	}
	for _, n := range cpus {
		if set.Set(n); !set.IsSet(n) {
			return nil, fmt.Errorf("CPU %d: threads can be confined to the first %d only", n, 64*len(set))
		}
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("confining a thread to CPUs %v: %w; use CPUs that are online and "+
			"in the process's cpuset", cpus, err)
	}
	return func() error {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			return fmt.Errorf("restoring the CPUs of a thread: %w", err)
		}
		return nil
	}, nil
}
