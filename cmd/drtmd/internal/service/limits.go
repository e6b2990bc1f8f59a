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
// memory is what is known to be locked, in bytes; 0 is unknown.
func LimitProblems(provider string, memory int) []string {
	var all []string
	var lock, files unix.Rlimit
	if provider == "ibv" && !locksAll() && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lock) == nil {
		if p := lockProblem(lock.Cur, memory); p != "" {
			all = append(all, p)
		}
	}
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil && files.Cur < leastFiles {
		all = append(all, fmt.Sprintf("the limit of open files is %d: LimitNOFILE=65536 in the unit, "+
			"ulimit -n 65536 in a shell", files.Cur))
	}
	return all
}

// locksAll reports whether the process has CAP_IPC_LOCK: no limit of locked memory holds for it.
func locksAll() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData // of capabilities 0 to 31 and 32 to 63
	return unix.Capget(&h, &d[0]) == nil && d[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

// lockProblem says that a limit of locked memory, in bytes, does not suffice for what is needed; ""
// if it does. Of a need that is unknown, 0, no limit is known to suffice.
func lockProblem(limit uint64, need int) string {
	if limit == unix.RLIM_INFINITY || need > 0 && uint64(need) <= limit {
		return ""
	}
	what := "RDMA memory is locked"
	if need > 0 {
		what = fmt.Sprintf("this node needs about %d KiB of it", (need+1023)/1024)
	}
	return fmt.Sprintf("the limit of locked memory is %d KiB, and %s: LimitMEMLOCK=infinity in the "+
		"unit, ulimit -l unlimited in a shell, --ulimit memlock=-1 for a container", limit/1024, what)
}

// hugePool is where the kernel shows the huge pages that memory regions take.
const hugePool = "/sys/kernel/mm/hugepages/hugepages-2048kB"

// hugePageBytes is the size of these.
const hugePageBytes = 2 << 20

// HugePageAdvice says how to have huge pages for a region of some bytes; "" if there are enough, or
// the system has no such pages.
func HugePageAdvice(bytes int) string { return hugePageAdvice(hugePool, bytes) }

func hugePageAdvice(pool string, bytes int) string {
	var counts [3]int
	for i, name := range []string{"nr_hugepages", "free_hugepages", "resv_hugepages"} {
		b, err := os.ReadFile(filepath.Join(pool, name))
		if err != nil {
			return ""
		}
		if counts[i], err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
			return ""
		}
	}
	need := (bytes + hugePageBytes - 1) / hugePageBytes
	free := counts[1] - counts[2]
	if free >= need {
		return ""
	}
	return fmt.Sprintf("the tables would use %d huge pages of 2 MiB, %d are free, so they take "+
		"transparent ones or small ones: sysctl vm.nr_hugepages=%d", need, free, counts[0]+need-free)
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
