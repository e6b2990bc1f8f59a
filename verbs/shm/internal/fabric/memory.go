//go:build linux && amd64

package fabric

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"drtmd/internal/hostmem"
)

const (
	// wantSeals fix the size for ever: no peer can truncate memory that we have mapped, which
	// would be a SIGBUS at the next access. Seals against writing cannot be had on shared memory.
	wantSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

	hugePageBytes = 2 << 20
	// allocateChunk is the most that one fallocate call takes: a signal makes the kernel undo
	// the call's work, so a large one might never end.
	allocateChunk = 64 << 20
	// statBlockBytes is the unit of st_blocks.
	statBlockBytes = 512
)

// memfd makes an anonymous file that can be sealed and, where the kernel knows how to say it,
// never executed.
func memfd(flags int) (int, error) {
	const name = "drtmd"
	flags |= unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	return fd, forbidden(err)
}

// ErrNoMemfd: the system does not let this process make memory to share.
var ErrNoMemfd = errors.New("this process may not call memfd_create, which makes the memory that " +
	"processes share")

// forbidden says what a refused memfd_create is about. It needs no privilege, so a filter of system
// calls is in the way, as container runtimes install them, or a kernel or sandbox without the call.
func forbidden(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %w", ErrNoMemfd, err)
	}
	return err
}

// allocate backs the first size bytes of fd with pages, so that no access can run out of them.
func allocate(fd, size int) error {
	for offset := 0; offset < size; offset += allocateChunk {
		n := int64(min(allocateChunk, size-offset))
		err := retry(func() error { return unix.Fallocate(fd, 0, int64(offset), n) })
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM) {
			return fmt.Errorf("%w: %w", ErrNoMemory, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// populateHuge faults memory in with huge pages where the kernel grants them. It only helps, so
// its errors (old kernel, no huge page) do not matter.
func populateHuge(mem []byte) {
	if unix.Madvise(mem, unix.MADV_HUGEPAGE) != nil {
		return
	}
	for offset := 0; offset < len(mem); offset += allocateChunk {
		part := mem[offset:min(offset+allocateChunk, len(mem))]
		if unix.Madvise(part, unix.MADV_POPULATE_WRITE) != nil {
			return
		}
	}
}

// checkAvailable refuses what the host cannot have free, instead of waking the kernel's
// out-of-memory killer. A host that tells nothing is given the benefit of the doubt.
func checkAvailable(size int) error {
	if available, known := hostmem.Available(); known && uint64(size) > available {
		return fmt.Errorf("%w: %d bytes asked for, %d available", ErrNoMemory, size, available)
	}
	return nil
}

// freeHugePages counts the pages of the hugetlb pool that are neither used nor promised.
func freeHugePages() int {
	read := func(name string) int {
		b, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/" + name)
		if err != nil {
			return 0
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return 0
		}
		return n
	}
	return read("free_hugepages") - read("resv_hugepages")
}

// adopt checks the memory that a peer sent and maps it. The caller closes the descriptors.
func (f *Fabric) adopt(payload []byte, fds []int) (*mapping, error) {
	info, err := parseSegmentInfo(payload)
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("%w: %d descriptors instead of one", ErrBadSegment, len(fds))
	}
	m := &mapping{fd: -1, lockFD: -1, hugeTLB: info.hugeTLB, kept: info.kept}
	size := int(info.size)
	mapped := size
	switch {
	case info.kept != "":
		var release func()
		if release, err = f.holdDir(); err == nil {
			err = f.dir.checkKept(fds[0], info.kept, size)
			release()
		}
	case info.hugeTLB && !f.hugeTLB:
		err = fmt.Errorf("%w: hugetlb memory, which this process does not allow", ErrBadSegment)
	case info.hugeTLB:
		mapped = (size + hugePageBytes - 1) &^ (hugePageBytes - 1)
		err = checkMemfd(fds[0], mapped, unix.HUGETLBFS_MAGIC)
	default:
		err = checkMemfd(fds[0], size, unix.TMPFS_MAGIC)
	}
	if err != nil {
		return nil, err
	}
	if err := m.mapFD(fds[0], mapped); errors.Is(err, ErrNoMemory) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadSegment, err)
	}
	m.data = m.mem[:size:size]
	m.refs.Store(1)
	return m, nil
}

// checkMemfd refuses a descriptor unless it is anonymous memory of exactly this size that can
// never shrink and has all its pages. The seals come first: only a memfd has them, so that no
// later call can end up in a file system that answers slowly or never.
func checkMemfd(fd, size int, fsType int64) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrBadSegment, fmt.Sprintf(format, args...))
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return bad("not a memfd: %v", err)
	}
	if seals&wantSeals != wantSeals {
		return bad("seals %#x, %#x needed", seals, wantSeals)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return bad("%v", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return bad("%v", err)
	}
	mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch {
	case err != nil:
		return bad("%v", err)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return bad("mode %#o", st.Mode)
	case fs.Type != fsType:
		return bad("file system %#x, announced as %#x", fs.Type, fsType)
	case st.Size != int64(size):
		return bad("%d bytes, announced as %d", st.Size, size)
	case st.Blocks*statBlockBytes < int64(size):
		return bad("%d of %d bytes allocated", st.Blocks*statBlockBytes, size)
	case mode&unix.O_ACCMODE != unix.O_RDWR:
		return bad("not open for reading and writing")
	}
	return nil
}

// segmentHint knows the next step after NewSegment's errors.
func segmentHint(err error, o SegmentOptions) string {
	switch {
	case errors.Is(err, ErrNoMemory) && o.Keep != "":
		return "df -h /dev/shm shows the room; remove kept memory or enlarge the file system"
	case errors.Is(err, ErrNoMemfd):
		return "allow memfd_create in the filter of system calls that the container or service runs " +
			"under (docker, podman: --security-opt seccomp=FILE; systemd: SystemCallFilter), or use " +
			"--transport ibv"
	case errors.Is(err, ErrKeptBusy):
		return "end the process that has it open, or use another name"
	case errors.Is(err, ErrKeptSize):
		return "ask for the size it was made with, or remove it first"
	case errors.Is(err, ErrBadName):
		return "1 to 128 letters, digits, '.', '_' and '-', not starting with '.'"
	case errors.Is(err, ErrUnsafeFile):
		return "remove the file"
	}
	return hintFor(err)
}
