package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHugePageAdviceNamesTheNumberThatSuffices(t *testing.T) {
	for _, c := range []struct{ name, total, free, reserved, want string }{
		{"none", "0", "0", "0", "use 3 huge pages of 2 MiB, 0 are free"},
		{"none, the number", "0", "0", "0", "sysctl vm.nr_hugepages=3"},
		{"others use some", "8", "2", "0", "sysctl vm.nr_hugepages=9"},
		{"some are promised", "8", "4", "2", "sysctl vm.nr_hugepages=9"},
		{"enough", "8", "3", "0", ""},
		{"unreadable", "x", "0", "0", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := t.TempDir()
			for name, text := range map[string]string{"nr_hugepages": c.total,
				"free_hugepages": c.free, "resv_hugepages": c.reserved} {
				if err := os.WriteFile(filepath.Join(pool, name), []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := hugePageAdvice(pool, 2*hugePageBytes+1)
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := hugePageAdvice(filepath.Join(t.TempDir(), "missing"), 1); got != "" {
		t.Errorf("without a pool: %q", got)
	}
}

func TestLockedMemoryIsComparedWithTheNeed(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit uint64
		need  int
		want  []string // all in the text; none is no problem
	}{
		{"unlimited", unix.RLIM_INFINITY, 1 << 40, nil},
		{"unlimited, unknown need", unix.RLIM_INFINITY, 0, nil},
		{"enough", 8 << 20, 8<<20 - 1, nil},
		{"just enough", 8 << 20, 8 << 20, nil},
		{"a byte short", 8 << 20, 8<<20 + 1, []string{"is 8192 KiB", "needs about 8193 KiB",
			"LimitMEMLOCK=infinity"}},
		{"none", 0, 4096, []string{"is 0 KiB", "needs about 4 KiB"}},
		{"unknown need", 64 << 10, 0, []string{"is 64 KiB", "RDMA memory is locked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := lockProblem(c.limit, c.need)
			if (got == "") != (len(c.want) == 0) {
				t.Errorf("%q", got)
			}
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("no %q in %q", w, got)
				}
			}
		})
	}
}
