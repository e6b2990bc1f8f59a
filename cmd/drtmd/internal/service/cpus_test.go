package service

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/config"
)

// numaNodes makes the kernel's folder of NUMA nodes.
func numaNodes(t *testing.T, lists map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, list := range lists {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cpulist"), []byte(list+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestThreadsArePlacedAsAskedElseNearTheNIC(t *testing.T) {
	two := map[string]string{"node0": "0-3,8-11", "node1": "4-7,12-15"}
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	for _, c := range []struct {
		name           string
		nodes          map[string]string
		asked, allowed []int
		near           int
		want           string // CPUs
		each           bool
		why            string
		err            string
	}{
		{name: "asked", nodes: two, asked: []int{3, 9}, allowed: all, near: 1, want: "3,9", each: true,
			why: "node.cpus"},
		{name: "asked for one that is not allowed", nodes: two, asked: []int{2, 9}, allowed: all[:4],
			near: 1, err: "may not use CPU 9, only 0-3:"},
		{name: "near the NIC", nodes: two, allowed: all, near: 1, want: "4-7,12-15",
			why: "NUMA node 1, where mlx5_0 is"},
		{name: "near the NIC, as far as allowed", nodes: two, allowed: all[2:7], near: 1, want: "4-6",
			why: "NUMA node 1"},
		{name: "nothing near the NIC is allowed", nodes: two, allowed: all[:4], near: 1,
			why: "any: none of NUMA node 1"},
		{name: "nobody knows where the NIC is", nodes: two, allowed: all, near: -1,
			why: "any: the NUMA node of mlx5_0 is unknown"},
		{name: "one NUMA node", nodes: map[string]string{"node0": "0-15"}, allowed: all, near: 0,
			why: "any: one NUMA node"},
		{name: "one with CPUs, one with memory alone", allowed: all, near: 0,
			nodes: map[string]string{"node0": "0-15", "node1": ""}, why: "any: one NUMA node"},
		{name: "a kernel that shows none", allowed: all, near: -1, why: "any: one NUMA node"},
		{name: "a list that is none", nodes: map[string]string{"node0": "x"}, allowed: all, near: 0,
			why: "any: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := place(numaNodes(t, c.nodes), c.asked, c.allowed, "mlx5_0", c.near)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if CPUList(p.CPUs) != c.want || p.Each != c.each || !strings.HasPrefix(p.Why, c.why) {
				t.Errorf("got %s, each %v, %q", CPUList(p.CPUs), p.Each, p.Why)
			}
			var sets int
			for _, s := range p.Sets() {
				sets++
				if c.each && len(s) != 1 || !c.each && len(s) != len(p.CPUs) {
					t.Errorf("a thread gets %v of %v", s, p.CPUs)
				}
			}
			if c.each && sets != len(p.CPUs) || !c.each && sets != min(1, len(p.CPUs)) {
				t.Errorf("%d sets of %v", sets, p.CPUs)
			}
		})
	}
}

func TestAllowedCPUsAreThoseThatTheRuntimeCounts(t *testing.T) {
	all, err := AllowedCPUs()
	if err != nil || len(all) != runtime.NumCPU() {
		t.Fatalf("%v, %v; the runtime counts %d", all, err, runtime.NumCPU())
	}
	again, err := config.ParseCPUs(CPUList(all))
	if err != nil || !slices.Equal(again, all) {
		t.Errorf("%v written and read is %v, %v", all, again, err)
	}
}
