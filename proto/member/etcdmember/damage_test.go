package etcdmember

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"drtmd/proto/member"
	"drtmd/verbs"
)

// asChild as the only argument makes the test binary be the process of an etcd.
const asChild = "embedded-etcd"

// spawn starts a server in a process of its own.
func spawn(dir string) (*Process, error) {
	return Spawn(context.Background(), SpawnConfig{ServerConfig: ServerConfig{Dir: dir,
		Listen: "127.0.0.1:0", Log: zap.NewNop()}, Program: os.Args[0], Args: []string{asChild}})
}

// image is a state folder that a server has left.
type image struct {
	dir     string
	stopped bool   // in order, not by a kill
	cluster string // its id
}

// images are one of a server that was stopped, and one of a server that was killed. With many entries
// there are snapshots, and pages of the database that were free and used again.
func images(t *testing.T, entries int) []image {
	t.Helper()
	live, stopped, killed := shortDir(t), shortDir(t), shortDir(t)
	s, err := Start(context.Background(), ServerConfig{Dir: live, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	r := damageRegistry(t, s.URLs())
	se, err := r.Join(member.Candidate{Node: member.AnyNode, Name: "n0", Control: "x", Build: "b"},
		&ears{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for i := range entries {
		if _, err := r.client.Put(ctx, fmt.Sprintf("/other/%d", i%50), strings.Repeat("x", i%900)); err != nil {
			t.Fatal(err)
		}
	}
	cluster := se.State().Cluster
	copyTree(t, live, killed)
	if err := se.Leave(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	copyTree(t, live, stopped)
	return []image{{stopped, true, cluster}, {killed, false, cluster}}
}

type ears struct{}

func (*ears) Changed(member.State) {}
func (*ears) LeaseLost(error)      {}

func damageRegistry(t *testing.T, urls []string) *Registry {
	t.Helper()
	r, err := Open(Config{Endpoints: urls, Cluster: "damage", Lease: testLease,
		Clock: verbs.NewMonotonicClock()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// copyTree copies files with their holes, for a WAL is mostly zeros; sockets are left out.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, name)
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case !d.Type().IsRegular(), strings.HasSuffix(name, ".tmp"):
			return nil
		}
		return copySparse(name, target)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	block, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	size := int64(0)
	for {
		n, err := io.ReadFull(in, block)
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := out.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		if err != nil {
			return out.Truncate(size)
		}
	}
}

// damage does something to a file of a folder, by a seed, and says what.
func damage(t *testing.T, dir string, r *rand.Rand) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(name) != lockFile {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	name := list[r.IntN(len(list))]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	used := int64(len(bytes.TrimRight(b, "\x00"))) // noise in the empty part of a WAL says little
	at := int64(0)
	if used > 0 {
		at = r.Int64N(used)
	}
	length := min([]int64{8, 512, 4096, 64 << 10}[r.IntN(4)], int64(len(b))-at)
	what := ""
	switch r.IntN(5) {
	case 0:
		what = fmt.Sprintf("%d bytes of noise at %d", length, at)
		for i := range b[at : at+length] {
			b[at+int64(i)] = byte(r.Uint32())
		}
		err = os.WriteFile(name, b, 0o600)
	case 1:
		what = fmt.Sprintf("%d zeros at %d", length, at)
		clear(b[at : at+length])
		err = os.WriteFile(name, b, 0o600)
	case 2:
		what = fmt.Sprintf("cut to %d", at)
		err = os.Truncate(name, at)
	case 3:
		what = "cut to 0"
		err = os.Truncate(name, 0)
	default:
		what = "removed"
		err = os.Remove(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s: %s (%d bytes, %d used)", strings.TrimPrefix(name, dir), what, len(b), used)
}

// startDamaged starts a server on files that may be damaged, joins, and gives the id of the cluster, or
// why not. It must take no longer than it is allowed to, and leave no trace.
func startDamaged(t *testing.T, dir string) (cluster string, err error) {
	t.Helper()
	p, err := spawn(dir)
	if err != nil {
		return "", err
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	r := damageRegistry(t, p.URLs())
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	type joined struct {
		member.Session
		err error
	}
	done := make(chan joined, 1)
	go func() {
		s, err := r.Join(member.Candidate{Node: member.AnyNode, Name: "n0", Control: "x", Build: "b"},
			&ears{})
		done <- joined{s, err}
	}()
	j := <-done
	if j.err == nil {
		cluster = j.State().Cluster
		j.err = j.Leave()
	}
	if j.err != nil && errors.Is(j.err, member.ErrUnreachable) {
		// The daemon ends with what etcd's process says; that comes at once.
		select {
		case err, ok := <-p.Failed():
			if ok && err != nil {
				return cluster, err
			}
		case <-time.After(5 * time.Second):
			t.Errorf("etcd neither answers nor ends: %v", j.err)
		}
	}
	return cluster, j.err
}

// TestDamagedFilesAreSaidInOneLine, or do no harm: whatever is done to a file of etcd's, the process
// serves the same cluster, or it ends with one line that says what to do. DRTMD_TEST_DAMAGE is how many
// seeds; each is a test by its number.
func TestDamagedFilesAreSaidInOneLine(t *testing.T) {
	t.Parallel()
	seeds := 24
	if text := os.Getenv("DRTMD_TEST_DAMAGE"); text != "" {
		var err error
		if seeds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	all := append(images(t, 60), images(t, 2300)...)
	served, refused := 0, 0
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 9))
			from := all[seed%len(all)]
			dir := shortDir(t)
			copyTree(t, from.dir, dir)
			what := damage(t, dir, r)
			begin := time.Now()
			cluster, err := startDamaged(t, dir)
			t.Logf("%s (stopped %v): %v after %v", what, from.stopped, err, time.Since(begin).Round(time.Millisecond))
			if err == nil {
				served++
				if cluster != from.cluster {
					t.Errorf("it has forgotten the cluster: %s, was %s", cluster, from.cluster)
				}
				return
			}
			refused++
			text := err.Error()
			if strings.ContainsAny(text, "\n") || strings.Contains(text, "goroutine ") || len(text) > 900 {
				t.Errorf("not one line: %s", text)
			}
			if !strings.Contains(text, dir) {
				t.Errorf("it does not name the folder: %s", text)
			}
			if !strings.Contains(text, "move ") {
				t.Errorf("it does not say what to do: %s", text)
			}
		})
	}
	if served == 0 || refused == 0 {
		t.Errorf("%d served, %d were refused: the damages say little", served, refused)
	}
}
