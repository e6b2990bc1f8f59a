package store

import (
	"testing"

	"golang.org/x/sys/unix"

	"drtmd/htm"
	"drtmd/store/layout"
)

// mapped is memory as a provider registers it: outside of the Go heap, with huge pages where the
// system gives them.
func mapped(t testing.TB, n int) *htm.Memory {
	t.Helper()
	n = (n + 2<<20 - 1) &^ (2<<20 - 1)
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Madvise(b, unix.MADV_HUGEPAGE); err != nil {
		t.Log("no huge pages: ", err)
	}
	return htm.NewMemory(b, make([]uint64, n/layout.LineBytes), 1, nil)
}
