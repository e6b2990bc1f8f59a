package service

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/config"
)

// nodesDir is where the kernel shows NUMA nodes.
const nodesDir = "/sys/devices/system/node"

// Placement is where worker threads run.
type Placement struct {
	// CPUs of them; none: those of the process.
	CPUs []int
	// Each has every thread take one of CPUs, in turn; otherwise it may run on any of them.
	Each bool
	// Why they were chosen, or not, in words.
	Why string
}

// Sets are the CPUs of each thread, to go around.
func (p *Placement) Sets() [][]int {
	switch {
	case len(p.CPUs) == 0:
		return nil
	case !p.Each:
		return [][]int{p.CPUs}
	}
	var all [][]int
	for i := range p.CPUs {
		all = append(all, p.CPUs[i:i+1])
	}
	return all
}

// AllowedCPUs are those that the process may use. Threads that confine themselves do not count: ask
// before there are any.
func AllowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("reading the CPUs of the process: %w", err)
	}
	var all []int
	for n := range 64 * len(set) {
		if set.IsSet(n) {
			all = append(all, n)
		}
	}
	return all, nil
}

// Place chooses the CPUs of worker threads. Those that were asked for must be allowed; where nobody
// asked and there are several NUMA nodes, it takes what is allowed of the node of the device's NIC.
func Place(asked, allowed []int, device string) (*Placement, error) {
	return place(nodesDir, asked, allowed, device, DeviceNUMA(device))
}

func place(nodes string, asked, allowed []int, device string, near int) (*Placement, error) {
	if len(asked) > 0 {
		for _, n := range asked {
			if !slices.Contains(allowed, n) {
				return nil, fmt.Errorf("node.cpus: the process may not use CPU %d, only %s: name others, or "+
					"widen CPUAffinity= or AllowedCPUs= of the unit, taskset or the container's cpuset", n,
					CPUList(allowed))
			}
		}
		return &Placement{CPUs: asked, Each: true, Why: "node.cpus, one for each thread in turn"}, nil
	}
	cpus, err := nodeCPUs(nodes)
	switch {
	case err != nil:
		return &Placement{Why: "any: " + err.Error()}, nil
	case len(cpus) < 2:
		return &Placement{Why: "any: one NUMA node"}, nil
	case near < 0:
		return &Placement{Why: fmt.Sprintf("any: the NUMA node of %s is unknown", device)}, nil
	}
	var take []int
	for _, n := range cpus[near] {
		if slices.Contains(allowed, n) {
			take = append(take, n)
		}
	}
	if len(take) == 0 {
		return &Placement{Why: fmt.Sprintf("any: none of NUMA node %d, where %s is, may be used", near,
			device)}, nil
	}
	return &Placement{CPUs: take, Why: fmt.Sprintf("NUMA node %d, where %s is", near, device)}, nil
}

// nodeCPUs are the CPUs of each NUMA node that has some.
func nodeCPUs(nodes string) (map[int][]int, error) {
	files, err := filepath.Glob(filepath.Join(nodes, "node[0-9]*", "cpulist"))
	if err != nil {
		return nil, err
	}
	all := map[int][]int{}
	for _, f := range files {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(f)), "node"))
		if err != nil {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		cpus, err := config.ParseCPUs(strings.TrimSpace(string(b)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if len(cpus) > 0 { // memory alone otherwise
			all[id] = cpus
		}
	}
	return all, nil
}

// CPUList writes CPUs as ParseCPUs reads them, in their order.
func CPUList(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		j := i + 1
		for j < len(cpus) && cpus[j] == cpus[j-1]+1 {
			j++
		}
		text := strconv.Itoa(cpus[i])
		if j > i+1 {
			text += "-" + strconv.Itoa(cpus[j-1])
		}
		parts = append(parts, text)
		i = j
	}
	return strings.Join(parts, ",")
}
