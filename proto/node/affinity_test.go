package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"drtmd/proto/node"
)

// threadCPUs are those that the calling OS thread may run on.
func threadCPUs() (all []int, err error) {
	var set unix.CPUSet
	err = unix.SchedGetaffinity(0, &set)
	for n := range 64 * len(set) {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all, err
}

func TestThreadsOfAClusterGoAroundTheirCPUs(t *testing.T) {
	allowed, err := threadCPUs()
	if err != nil {
		t.Fatal(err)
	}
	first, last := allowed[:1], allowed[len(allowed)-1:]
	for _, c := range []struct {
		name string
		cpus [][]int
		want [][]int // of the workers
	}{
		{"one each", [][]int{last, first, last}, [][]int{last, first, last}},
		{"fewer than threads", [][]int{last, first}, [][]int{last, first, last}},
		{"one set for all", [][]int{allowed}, [][]int{allowed, allowed, allowed}},
		{"none", nil, [][]int{allowed, allowed, allowed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, err := node.NewLocal(t.Context(), node.LocalConfig{Threads: 3, CPUs: c.cpus,
				Config: node.Config{Protocol: protocol(t, "drtm"), Workload: bank(t, 1), Nodes: 1,
					Workers: 3}})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]int
			var errs []error
			err = cluster.Inspect(t.Context(), func(*node.Worker) {
				cpus, err := threadCPUs()
				got, errs = append(got, cpus), append(errs, err)
			})
			if err := errors.Join(append(errs, err, cluster.Close())...); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("the workers ran on %v, want %v", got, c.want)
			}
		})
	}
	after, err := threadCPUs()
	if err != nil || !slices.Equal(after, allowed) {
		t.Errorf("the test's own thread has CPUs %v now (%v), had %v", after, err, allowed)
	}
}

func TestClusterWithoutItsCPUsIsNotBuilt(t *testing.T) {
	cluster, err := node.NewLocal(context.Background(), node.LocalConfig{CPUs: [][]int{{1000}},
		Config: node.Config{Protocol: protocol(t, "drtm"), Workload: bank(t, 2), Nodes: 2}})
	if !errors.Is(err, unix.EINVAL) || cluster != nil {
		t.Errorf("cluster %v, error %v", cluster, err)
	}
}
