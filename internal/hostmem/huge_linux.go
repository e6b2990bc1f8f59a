package hostmem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeBytes is a huge page of the kernel on amd64, and on arm64 with pages of 4 KiB.
const hugeBytes = 2 << 20

// Huge asks for huge pages where memory has whole ones: one entry of the TLB leads to 2 MiB then. Memory that was
// touched before keeps its small pages for a while. It only helps, so a kernel that refuses does not matter.
func Huge(mem []byte) {
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) % hugeBytes)
	if whole := (len(mem) - skip) &^ (hugeBytes - 1); whole > 0 {
		_ = unix.Madvise(mem[skip:skip+whole], unix.MADV_HUGEPAGE)
	}
}
