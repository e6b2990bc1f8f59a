package endtoend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/history"
)

// keeping is a cluster of drtmd up that keeps TPC-C's tables. Its transactions run in pieces.
type keeping struct {
	*lab
	dir, address string
	tables       []string // flags of bench; with data- before each name, of up
	told         map[place]history.Version
	deletes      map[history.Table]bool // in which transactions delete
	runs         int
}

// place is a key of a table.
type place struct {
	t history.Table
	k history.Key
}

func newKeeping(t *testing.T) *keeping {
	l := newLab(t)
	l.env = []string{"DRTMD_TRANSPORT_RUN_DIR=" + filepath.Join(l.dir, "run")}
	dir := filepath.Join(l.dir, "up")
	k := &keeping{lab: l, dir: dir, address: "up:" + dir, told: map[place]history.Version{},
		deletes: map[history.Table]bool{}, tables: []string{"--workload", "tpcc", "--items", "200", "--customers", "30",
			"--orders", "20000", "--remote-items", "20", "--protocol", "drtm", "--durable=true", "--chopped=true", "--workers", "1", "--fibers", "4"}}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(dir, "node*", "log"))
			for _, name := range logs {
				b, _ := os.ReadFile(name) // for people
				t.Logf("%s:\n%s", name, b)
			}
		}
		_, _, _ = l.run("down", "--dir", dir) // what is left
	})
	return k
}

// up starts the nodes.
func (k *keeping) up(more ...string) (errs string, code int) {
	k.t.Helper()
	args := []string{"--nodes", "3", "--dir", k.dir, "--lease", lease.String(), "--detach"}
	for _, a := range k.tables {
		args = append(args, strings.Replace(a, "--", "--data-", 1))
	}
	_, errs, code = k.run("up", append(args, more...)...)
	return errs, code
}

// starts has all nodes come up.
func (k *keeping) starts() {
	k.t.Helper()
	if errs, code := k.up(); code != 0 {
		k.t.Fatalf("up: exit code %d\n%s", code, errs)
	}
}

// restarts has nodes come up again while others run. None is ready before all are, since each has a partition: the first one
// says soon which others are down, and the command that starts them.
func (k *keeping) restarts(nodes ...int) {
	k.t.Helper()
	var numbers []string
	for _, n := range nodes {
		numbers = append(numbers, strconv.Itoa(n))
	}
	rest := strings.Join(numbers[1:], ",")
	ctx, cancel := context.WithTimeout(context.Background(), 2*bound)
	defer cancel()
	var errs buffer
	first := command(ctx, k.env, "up", "--restart", numbers[0], "--dir", k.dir)
	first.Stderr = &errs
	if err := first.Start(); err != nil {
		k.t.Fatal(err)
	}
	until(k.t, "the first node says which others are down", func() bool {
		return strings.Contains(errs.String(), "drtmd up --restart "+rest+" --dir")
	})
	if _, errs, code := k.run("up", "--restart", rest, "--dir", k.dir); code != 0 {
		k.t.Errorf("nodes %s: exit code %d\n%s", rest, code, errs)
	}
	if err := first.Wait(); err != nil {
		k.t.Fatalf("node %s: %v\n%s", numbers[0], err, errs.String())
	}
}

// killed kills nodes at once in the middle of a run, and notes what they have told.
func (k *keeping) killed(nodes ...int) {
	k.t.Helper()
	k.benchFlags = k.tables
	b := k.benching(&node{control: k.address}, "--duration", "60s", "--check")
	k.runs++
	time.Sleep(rand.N(300 * time.Millisecond))
	var ids []int
	for _, i := range nodes {
		b, err := os.ReadFile(filepath.Join(k.dir, fmt.Sprintf("node%d", i), "pid"))
		id, bad := strconv.Atoi(strings.TrimSpace(string(b)))
		if err := errors.Join(err, bad); err != nil {
			k.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			k.t.Fatal(err)
		}
	}
	for _, i := range nodes {
		k.salvage(i)
	}
	if !slices.Contains(nodes, 0) { // node 0 leads the run
		b.says("running on: .* of the cluster has ended")
		if err := b.cmd.Process.Signal(os.Interrupt); err != nil {
			k.t.Fatal(err)
		}
	}
	<-b.ended
}

// salvage notes what a node has told, before it starts again and removes that.
func (k *keeping) salvage(i int) {
	k.t.Helper()
	of, err := os.ReadFile(filepath.Join(k.dir, fmt.Sprintf("node%d", i), "state", "temporary"))
	_, folder, _ := strings.Cut(string(of), " ")
	files, bad := filepath.Glob(filepath.Join(folder, "drtmd-history-*.kept"))
	if err := errors.Join(err, bad); err != nil || len(files) == 0 {
		k.t.Fatalf("node %d has recorded nothing in %q: %v", i, folder, err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			k.t.Fatal(err)
		}
		s, err := history.Salvage(f)
		if err != nil {
			k.t.Fatal(err)
		}
		h, err := history.New(history.Names{}, s)
		if err != nil {
			k.t.Fatal(err)
		}
		commits := 0
		err = h.Each(func(r *history.Record) error {
			if r.Outcome != history.Committed {
				return nil
			}
			commits++
			for _, o := range r.Ops {
				if o.Kind == history.OpWrite || o.Kind == history.OpDelete {
					p := place{o.Table, o.Key}
					k.told[p] = max(k.told[p], o.Version)
					k.deletes[o.Table] = k.deletes[o.Table] || o.Kind == history.OpDelete
				}
			}
			return nil
		})
		if err := errors.Join(err, h.Close()); err != nil || commits == 0 {
			k.t.Fatalf("node %d has told of %d commits: %v", i, commits, err)
		}
		k.t.Logf("node %d has told of %d commits", i, commits)
	}
}

// proved runs on the kept tables: TPC-C's conditions hold before and after, the history from what was kept on is
// strictly serializable, and nothing is missing that was told.
func (k *keeping) proved() {
	k.t.Helper()
	file := filepath.Join(k.dir, "run.hist")
	k.benchFlags = k.tables
	out, errs, code := k.bench(&node{control: k.address}, "--duration", "200ms", "--check", "--history", file)
	k.runs++
	for _, want := range []string{"\nstrictly serializable: yes (", "\nsums conserved: yes\n",
		"\nverified: the twelve consistency conditions"} {
		if code != 0 || !strings.Contains(out, want) {
			k.t.Fatalf("exit code %d, no %q\n%s\n%s", code, want, out, errs)
		}
	}
	h, err := history.Open(file)
	if err != nil {
		k.t.Fatal(err)
	}
	defer h.Close()
	kept := map[place]history.Version{}
	if err := h.EachContent(history.Initial, func(c history.Content) error {
		kept[place{c.Table, c.Key}] = c.Version
		return nil
	}); err != nil {
		k.t.Fatal(err)
	}
	for p, told := range k.told {
		version, there := kept[p]
		if there && version < told || !there && !k.deletes[p.t] { // else its entry was given back
			k.t.Errorf("table %d, key %#x: version %v was told, and the tables have %v", p.t, p.k, told, version)
		}
	}
	if len(k.told) == 0 {
		k.t.Error("no commit was told")
	}
	if err := os.Remove(file); err != nil {
		k.t.Fatal(err)
	}
	for _, n := range k.status(&node{control: k.address}).Nodes {
		if d := n.Data; d == nil || !d.InUse || d.Runs != k.runs || d.Partitions != 3 {
			k.t.Errorf("node %d keeps %+v, want that %d runs have used it", n.Member.Node, d, k.runs)
		}
		if l := n.Logs; l == nil || !l.Attached || l.Bytes == 0 || l.Recovering > 0 {
			k.t.Errorf("node %d has the logs %+v", n.Member.Node, l)
		}
	}
}

// TestDaemonsComeBackWithTheirTables: three daemons are killed in the middle of TPC-C, all at once and then two of them, and
// started again. Every commit that was told is there, and all of each transaction or nothing.
func TestDaemonsComeBackWithTheirTables(t *testing.T) {
	t.Parallel()
	kills, err := strconv.Atoi(os.Getenv(killsOf))
	if err != nil {
		kills = 1
	}
	k := newKeeping(t)
	k.starts()
	for range kills {
		k.killed(0, 1, 2)
		k.starts()
		k.proved()
		survivor := rand.N(3)
		victims := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == survivor })
		k.killed(victims...)
		k.restarts(victims...)
		k.proved()
	}
	if kills > 1 { // as if the host had been started again
		if _, errs, code := k.run("down", "--dir", k.dir); code != 0 {
			t.Fatal(errs)
		}
		if err := os.RemoveAll(filepath.Join(k.lab.dir, "run")); err != nil {
			t.Fatal(err)
		}
		k.starts()
		k.proved()
	}
	// Other settings are refused, and nothing is overwritten.
	if _, errs, code := k.run("down", "--dir", k.dir); code != 0 {
		t.Fatal(errs)
	}
	for _, c := range []struct{ flag, value, want string }{
		{"--data-customers", "40", "customers 40, not 30"},
		{"--data-durable=false", "", "the nodes would not log transactions"},
		{"--nodes", "2", "they are of 3 nodes, and --nodes is 2"},
	} {
		more := []string{c.flag}
		if c.value != "" {
			more = append(more, c.value)
		}
		if errs, code := k.up(more...); code != 1 || !strings.Contains(errs, c.want) ||
			!strings.Contains(errs, "give the tables up with --forget") {
			t.Errorf("%v: exit code %d\n%s", more, code, errs)
		}
	}
}

// keptBy are the files of the memory that a node keeps.
func (l *lab) keptBy(name string) []string {
	l.t.Helper()
	kept, err := filepath.Glob(filepath.Join(l.dir, "run", "kept", name+"-*"))
	if err != nil || len(kept) == 0 {
		l.t.Fatal(kept, err)
	}
	return kept
}

// TestNothingIsBuiltWhileAPartOfTheTablesIsAway: the others wait, and say for whom. Memory that is gone comes back from
// the copy that a node has saved when it was told to stop, or that the power fails.
func TestNothingIsBuiltWhileAPartOfTheTablesIsAway(t *testing.T) {
	t.Parallel()
	l := newLab(t, "--data-protocol", "drtm", "--data-durable", "--data-workers", "1", "--data-fibers", "4")
	l.benchFlags = []string{"--accounts", "200", "--protocol", "drtm", "--durable", "--workers", "1", "--fibers", "4"}
	l.cluster(2)
	l.proved(l.nodes[0])
	l.nodes[1].drains()
	until(t, "the other one waits", func() bool {
		n := l.self(l.nodes[0])
		return n != nil && strings.Contains(n.Reason, "the nodes that keep partition 1 are not there: start them")
	})
	// The memory is gone, as after a restart of the host, and comes back from the state folder.
	comesBack := func() {
		t.Helper()
		for _, name := range l.keptBy("n1") {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		l.nodes[1].restart()
		l.allReady(l.nodes[0], 2)
		if !slices.ContainsFunc(l.self(l.nodes[1]).Events, func(e status.Event) bool {
			return strings.HasPrefix(e.Text, "restored the tables that this node keeps: ")
		}) {
			t.Errorf("nothing was restored: %+v", l.self(l.nodes[1]).Events)
		}
	}
	comesBack()
	run := l.benching(l.nodes[0], "--duration", "60s")
	l.nodes[1].signal(syscall.SIGPWR)
	<-l.nodes[1].ended
	if l.nodes[1].exit != nil {
		t.Errorf("after SIGPWR: %v", l.nodes[1].exit)
	}
	run.says("running on: .* of the cluster has ended")
	if err := run.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-run.ended
	comesBack()
	l.proved(l.nodes[0])
	// Without a copy nothing is built.
	l.nodes[1].kill()
	kept := l.keptBy("n1")
	for _, name := range kept {
		if err := os.Rename(name, filepath.Join(l.dir, filepath.Base(name))); err != nil {
			t.Fatal(err)
		}
	}
	l.nodes[1].launch()
	until(t, "nothing is built without the memory", func() bool {
		n := l.self(l.nodes[0])
		return n != nil && strings.Contains(n.Reason, "there is no kept memory n1-")
	})
	for _, name := range kept {
		if err := os.Rename(filepath.Join(l.dir, filepath.Base(name)), name); err != nil {
			t.Fatal(err)
		}
	}
	l.nodes[1].await()
	l.allReady(l.nodes[0], 2)
}
