package fiber_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// cpusOfThread are those that the calling OS thread may run on.
func cpusOfThread(t *testing.T) []int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var all []int
	for n := range 64 * len(set) {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all
}

func TestThreadRunsOnItsCPUsOnlyWhileItRuns(t *testing.T) {
	allowed := cpusOfThread(t)
	for _, c := range []struct {
		name string
		cpus []int
		want []int
	}{
		{"the last one", allowed[len(allowed)-1:], allowed[len(allowed)-1:]},
		{"the first one", allowed[:1], allowed[:1]},
		{"all", allowed, allowed},
		{"none named", nil, allowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHostOn(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")}),
				fiber.ThreadConfig{CPUs: c.cpus})
			var got []int
			h.run(func(*fiber.Fiber) error {
				got = cpusOfThread(t)
				return nil
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("the thread ran on CPUs %v, want %v", got, c.want)
			}
		})
	}
	t.Run("given back", func(t *testing.T) {
		th, err := fiber.NewThread(fiber.ThreadConfig{CPUs: allowed[:1]})
		if err != nil {
			t.Fatal(err)
		}
		th.Stop()
		ended := make(chan []int)
		go func() {
			if err := th.Run(); err != nil {
				t.Error(err)
			}
			ended <- cpusOfThread(t)
		}()
		if got := <-ended; !slices.Equal(got, allowed) {
			t.Errorf("after Run the goroutine is on a thread with CPUs %v, want %v", got, allowed)
		}
	})
}

func TestThreadThatCannotHaveItsCPUsEndsWithTheReason(t *testing.T) {
	for _, c := range []struct {
		name string
		cpu  int
		want error
	}{
		{"there is no such CPU", 1000, unix.EINVAL},
		{"beyond what can be named", 1 << 20, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHostOn(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")}),
				fiber.ThreadConfig{CPUs: []int{c.cpu}})
			ran := false
			h.worker.Submit("never", func(*fiber.Fiber) error {
				ran = true
				return nil
			}, nil)
			err := h.drive()
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("the thread ended with %v, want %v", err, c.want)
			}
			if ran {
				t.Error("its fiber ran all the same")
			}
		})
	}
}
