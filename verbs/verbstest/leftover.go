package verbstest

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.uber.org/goleak"
)

// leftovers says what the tests of a package left behind: goroutines, and descriptors that were
// not there before. "" is nothing.
func leftovers(before []string) string {
	var found []string
	if err := goleak.Find(); err != nil {
		found = append(found, err.Error())
	}
	rest := slices.Clone(before)
	for _, fd := range descriptors() {
		if i := slices.Index(rest, fd); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			continue
		}
		found = append(found, "a descriptor was left open: "+fd)
	}
	return strings.Join(found, "\n")
}

// descriptors lists what the open descriptors refer to. Go's poller has some of its own, which
// the pipe makes it open before the first look.
func descriptors() []string {
	if r, w, err := os.Pipe(); err == nil {
		_, _ = r.Close(), w.Close()
	}
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range dir {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || to == fmt.Sprintf("/proc/%d/fd", os.Getpid()) {
			continue // the folder that was just read
		}
		list = append(list, to)
	}
	return list
}
