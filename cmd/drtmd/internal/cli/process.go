package cli

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"drtmd/cmd/drtmd/internal/status"
)

// ownProcess is one of this host, held by a descriptor, so that another one that gets its number later is
// not taken for it. A nil *ownProcess is of another host.
type ownProcess struct{ fd int }

// startSlack is how far the start that a daemon says may be from that of its process.
const startSlack = 10 * time.Second

// openProcess finds the process of a node, if it is of this host and this user may see it.
func openProcess(n *status.Node) *ownProcess {
	host, err := os.Hostname()
	if err != nil || host != n.Host || n.PID <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(n.PID, 0)
	if err != nil {
		return nil
	}
	p := &ownProcess{fd}
	// The name of a host may be that of a container, whose processes have other numbers here.
	if age, ok := processAge(n.PID); !ok || (time.Since(n.Started)-age).Abs() > startSlack {
		p.close()
		return nil
	}
	return p
}

// processAge is how long ago a process was started.
func processAge(pid int) (time.Duration, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false
	}
	// PID (NAME) and then fields from the third on; the start is the 22nd, in ticks of 10 ms (proc(5)).
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return 0, false
	}
	ticks, err := strconv.ParseInt(f[19], 10, 64)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0, false
	}
	return time.Duration(now.Nano()) - time.Duration(ticks)*10*time.Millisecond, true
}

// running reports whether it has not ended.
func (p *ownProcess) running() bool {
	if p == nil {
		return false
	}
	// Readable means that it has ended (pidfd_open(2)).
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}

func (p *ownProcess) close() {
	if p != nil {
		_ = unix.Close(p.fd)
	}
}
