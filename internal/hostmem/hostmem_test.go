package hostmem_test

import (
	"runtime"
	"testing"

	"drtmd/internal/hostmem"
)

func TestLinuxTellsWhatMemoryItHas(t *testing.T) {
	bytes, known := hostmem.Available()
	if known != (runtime.GOOS == "linux") || known && bytes < 1<<20 {
		t.Errorf("%d bytes, known: %v", bytes, known)
	}
}

// TestHugeLeavesMemoryAsItIs: memory with whole huge pages and without, from the middle of a page to that of another.
func TestHugeLeavesMemoryAsItIs(t *testing.T) {
	const huge = 2 << 20
	for _, size := range []int{0, 1, huge - 1, huge, 3*huge + 5} {
		mem := make([]byte, size+1)[1:]
		for i := range mem {
			mem[i] = byte(i)
		}
		hostmem.Huge(mem)
		for i := range mem {
			if mem[i] != byte(i) {
				t.Fatalf("%d bytes: byte %d is %d", size, i, mem[i])
			}
		}
	}
}
