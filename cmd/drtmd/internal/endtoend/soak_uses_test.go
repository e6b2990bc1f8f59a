package endtoend

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// uses is what a process and its lab hold. Of a daemon at rest, that is ready with the tables of
// its configuration and without a run, a leak is one of these:
//
//   - Goroutines, descriptors, mapped files, registered memory and files: more in the end than
//     after the warm-up, if it does not go away within a bound. Every plane, session, run and
//     connection takes some and has to give all back, and a round has several of each: even one
//     leaked by every other round stands out in long soaks. The bound is for connections that are
//     being closed, and the slack of some goroutines and descriptors for those that are made at the
//     first need of a plane.
//   - Threads: Go keeps those that it once needed at a time, so they follow rare peaks. The least
//     of the last third of the rounds may be more than the least of the middle third by one in
//     eight of the rounds between, and a few.
//   - Live heap (after two collections, so garbage does not count) and resident memory: as threads,
//     with a tolerance of a sixteenth and an eighth, and some MiB: events, the page's curves and
//     maps have bounds that they reach in time, and pages that the runtime has freed stay resident
//     for a while: what is resident is judged in soaks with enough rounds only.
//   - etcd's database: bounded in itself, since old revisions are compacted.
type uses struct {
	goroutines, fds, mappings, files, threads int
	registered, heap, resident, database      int64 // bytes
}

func (u uses) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%d goroutines, %d fds, %d mapped files, %d files, %d threads, MiB: %.2f "+
		"registered, %.2f heap, %.1f resident, %.1f in etcd", u.goroutines, u.fds, u.mappings, u.files,
		u.threads, float64(u.registered)/mib, float64(u.heap)/mib, float64(u.resident)/mib,
		float64(u.database)/mib)
}

const (
	restSlack     = 3
	heapSlack     = 1 << 20
	residentSlack = 24 << 20
	// residentRounds are the fewest of a third in which some were at rest for long enough.
	residentRounds = 5
	threadSlack    = 4
	// databaseMost is some thousand revisions of a state of a few kilobytes: the thousand that are
	// kept, and those of the five minutes between two compactions.
	databaseMost = 64 << 20
)

// look measures the survivor.
func (s *soak) look() uses {
	s.t.Helper()
	n := s.survivor
	for range 2 { // the second collection frees what finalizers had kept
		s.get(n, "/debug/pprof/heap?gc=1")
	}
	metrics := s.get(n, "/metrics")
	proc := fmt.Sprintf("/proc/%d/", n.cmd.Process.Pid)
	u := uses{goroutines: int(metric(s, metrics, "go_goroutines")),
		heap: int64(metric(s, metrics, "go_memstats_heap_alloc_bytes")), fds: entries(s, proc+"fd"),
		threads: entries(s, proc+"task"), files: s.files()}
	maps, err := os.ReadFile(proc + "maps")
	if err != nil {
		s.t.Fatal(err)
	}
	u.mappings = strings.Count(string(maps), "/")
	self := s.self(n)
	if self == nil {
		s.t.Fatalf("%s does not say how it is", n.name)
	}
	u.registered, u.resident = int64(self.Memory.RegisteredBytes), int64(self.Memory.ResidentBytes)
	db, err := os.Stat(filepath.Join(s.config.Dir, "etcd", "member", "snap", "db"))
	if err != nil {
		s.t.Fatal(err)
	}
	u.database = db.Size()
	return u
}

// rest is the least of some looks: requests that are just ending do not count.
func (s *soak) rest() uses {
	s.t.Helper()
	u := s.look()
	for range 4 {
		v := s.look()
		u.goroutines, u.fds = min(u.goroutines, v.goroutines), min(u.fds, v.fds)
		u.mappings, u.files = min(u.mappings, v.mappings), min(u.files, v.files)
	}
	return u
}

// noLeak compares the end with the first look after the warm-up, and thirds of all looks.
func (s *soak) noLeak(first uses, series []uses) {
	s.t.Helper()
	var last uses
	const restSlacked = 2 // the first ones
	counts := func(u uses) [5]int64 {
		return [...]int64{int64(u.goroutines), int64(u.fds), int64(u.mappings), int64(u.files),
			u.registered}
	}
	for end := time.Now().Add(bound); ; time.Sleep(time.Second / 4) {
		last = s.look()
		more := []string{}
		names := []string{"goroutines", "fds", "mapped files", "files", "registered bytes"}
		for i, name := range names {
			was, is := counts(first)[i], counts(last)[i]
			if is > was && (i >= restSlacked || is > was+restSlack) {
				more = append(more, fmt.Sprintf("%d %s, was %d", is, name, was))
			}
		}
		if len(more) == 0 {
			break
		}
		if time.Now().After(end) {
			s.t.Errorf("%s at rest has leaked in %d rounds: %s\n%s\n%s", s.survivor.name, s.rounds,
				strings.Join(more, "; "), s.held(), s.get(s.survivor, "/debug/pprof/goroutine?debug=1"))
			break
		}
	}
	s.t.Logf("after %d rounds with %d runs proved %s at rest has %v", s.rounds, s.proofs,
		s.survivor.name, last)
	third := len(series) / 3
	if third == 0 {
		s.t.Fatalf("only %d rounds: too few to tell a slope", len(series)-1)
	}
	slope := func(name string, of func(uses) int64, slack int64) {
		least := func(part []uses) int64 {
			return of(slices.MinFunc(part, func(a, b uses) int { return int(of(a) - of(b)) }))
		}
		middle, late := least(series[third:2*third]), least(series[2*third:])
		s.t.Logf("%s: at least %d in the middle third, %d in the last", name, middle, late)
		if late > middle+slack {
			s.t.Errorf("%s grow: from %d to %d, %d are allowed", name, middle, late, slack)
		}
	}
	middle := series[third]
	slope("threads", func(u uses) int64 { return int64(u.threads) }, int64(threadSlack+third/8))
	slope("live heap bytes", func(u uses) int64 { return u.heap }, heapSlack+middle.heap/16)
	if third >= residentRounds {
		slope("resident bytes", func(u uses) int64 { return u.resident },
			residentSlack+middle.resident/8)
	}
	if last.database > databaseMost {
		s.t.Errorf("etcd's database has %d bytes, at most %d are expected", last.database, databaseMost)
	}
}

// files in the run folder and in the temporary folder of the nodes.
func (s *soak) files() (n int) {
	s.t.Helper()
	for _, dir := range []string{"run", "tmp"} {
		root := filepath.Join(s.dir, dir)
		err := filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				n++
			}
			return nil // it may go meanwhile
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return n
}

// held lists descriptors of the survivor, and files.
func (s *soak) held() string {
	s.t.Helper()
	var list []string
	fds := fmt.Sprintf("/proc/%d/fd", s.survivor.cmd.Process.Pid)
	for _, dir := range []string{fds, filepath.Join(s.dir, "run"), filepath.Join(s.dir, "tmp")} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
			target, err := os.Readlink(path)
			if err != nil {
				target = "no link"
			}
			list = append(list, path+" "+target)
			return nil // it may go meanwhile
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return strings.Join(list, "\n")
}

func (s *soak) get(n *node, path string) string {
	s.t.Helper()
	c := http.Client{Timeout: bound, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + n.admin + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		s.t.Fatalf("%s of %s: %s, %v: %s", path, n.name, r.Status, err, b)
	}
	return string(b)
}

// metric without labels.
func metric(s *soak, text, name string) float64 {
	s.t.Helper()
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		s.t.Fatalf("no metric %s in\n%s", name, text)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// entries of a folder in /proc.
func entries(s *soak, dir string) int {
	s.t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}
