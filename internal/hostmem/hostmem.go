// Package hostmem says how much memory the host can give, and asks it for huge pages. It keeps no state; any
// goroutine may call it.
package hostmem

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// Available is how many bytes the host can give before it wakes its out-of-memory killer. known is false if the host
// does not tell.
func Available() (bytes uint64, known bool) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer file.Close()
	var kib uint64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && (fields[0] == "MemAvailable:" || fields[0] == "SwapFree:") {
			n, err := strconv.ParseUint(fields[1], 10, 54)
			if err != nil {
				return 0, false
			}
			kib += n
		}
	}
	bytes = kib << 10
	// A container sees its own control group at the root; on a host the file does not exist.
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		limit, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err == nil && limit != 0 { // otherwise "max"
			bytes = min(bytes, limit)
		}
	}
	return bytes, kib != 0
}
