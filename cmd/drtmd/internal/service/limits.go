package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// leastFiles is how many open files a node needs, with room.
const leastFiles = 1024

// LimitProblems says which limits of the process will not suffice, and how to raise them.
func LimitProblems(provider string) []string {
	var all []string
	var lock, files unix.Rlimit
	if provider == "ibv" && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock) == nil &&
		lock.Cur != unix.RLIM_INFINITY {
		all = append(all, fmt.Sprintf("the limit of locked memory is %d KiB, and RDMA memory is locked: "+
			"LimitMEMLOCK=infinity in the unit, ulimit -l unlimited in a shell, --ulimit memlock=-1 for a "+
			"container", lock.Cur/1024))
	}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur < leastFiles {
		all = append(all, fmt.Sprintf("the limit of open files is %d: LimitNOFILE=65536 in the unit, "+
			"ulimit -n 65536 in a shell", files.Cur))
	}
	return all
}

// HugePages says how many huge pages of the default size the system has, and has left.
func HugePages() (total, free int) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		name, rest, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSpace(rest)) // 0 if it is none
		switch name {
		case "HugePages_Total":
			total = n
		case "HugePages_Free":
			free = n
		}
	}
	return total, free
}

// rdmaClass is where the kernel shows RDMA devices.
const rdmaClass = "/sys/class/infiniband"

// DeviceNUMA is the NUMA node of a device's NIC; -1 if there is only one, or nobody knows.
func DeviceNUMA(device string) int { return deviceNUMA(rdmaClass, device) }

func deviceNUMA(class, device string) int {
	b, err := os.ReadFile(filepath.Join(class, filepath.Base(device), "device", "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}
