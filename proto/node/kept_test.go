package node_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs"
	"drtmd/verbs/shm"
)

// keptDir in the environment makes TestKeptMemoryOutlivesAKilledProcess be the process that is killed.
const keptDir = "DRTMD_TEST_KEPT_DIR"

// keeping is a cluster of three members with two replicas and logs in kept memory.
func keeping(t *testing.T, dir string) node.LocalConfig {
	return node.LocalConfig{Config: logged(t, 2, "4KiB"), Provider: shm.New(shm.Options{Dir: dir}), Threads: 1,
		Keep: func(n proto.NodeID) string { return fmt.Sprintf("node%d", n) }}
}

// keeps reports whether the device can keep memory.
func keeps(t *testing.T, dir string) bool {
	t.Helper()
	dev, err := shm.New(shm.Options{Dir: dir}).Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	return dev.Attr().Caps.KeptMRs
}

// appendTo appends records to a log of the cluster.
func appendTo(t *testing.T, c *node.Cluster, records int) {
	t.Helper()
	ring := c.Members[1].Workers[1].Logs[2]
	w, err := log.NewWriter(log.WriterConfig{Capacity: ring.Capacity(), Generation: ring.Generation()})
	if err != nil {
		t.Fatal(err)
	}
	var room log.Reservation
	for i := range records {
		if ok, err := w.TryReserve(&room, 100); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := ring.Append(w, &room, &log.Record{Type: 1, ID: uint64(i), Body: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKeptMemoryOutlivesAKilledProcess: a process that is killed with SIGKILL leaves its tables and logs. The
// next one opens them as they are, or is told what it gives up.
func TestKeptMemoryOutlivesAKilledProcess(t *testing.T) {
	ctx := context.Background()
	if dir := os.Getenv(keptDir); dir != "" {
		c, err := node.NewLocal(ctx, keeping(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, c, 3)
		fmt.Println("has written")
		select {}
	}
	dir := filepath.Join(t.TempDir(), "run")
	if !keeps(t, dir) { // a race build
		_, err := node.NewLocal(ctx, keeping(t, dir))
		if !errors.Is(err, verbs.ErrUnsupported) || !strings.Contains(err.Error(), "keep memory") {
			t.Errorf("%v, want that the device keeps no memory", err)
		}
		return
	}
	killed(t, dir)

	cfg := keeping(t, dir)
	cfg.Attach = true
	c, err := node.NewLocal(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Members[1].Workers[1].Logs[2].Scan(func(*log.Record) error { return nil })
	if err != nil || s.Records != 3 {
		t.Errorf("the log has %d records, %v", s.Records, err)
	}
	for _, shard := range []proto.ShardID{0, 1} { // the own one and that of which it has the backup
		entries := 0
		c.Members[1].Entries(shard, func(proto.TableID, layout.Head, []byte) bool { entries++; return true })
		if entries == 0 {
			t.Errorf("the tables of shard %d are empty", shard)
		}
	}
	busy := keeping(t, dir)
	if _, err := node.NewLocal(ctx, busy); err == nil || !strings.Contains(err.Error(), "node0") {
		t.Errorf("memory in use was given up: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	if c, err = node.NewLocal(ctx, keeping(t, dir)); err != nil {
		t.Fatal(err)
	}
	var said []string
	for i := range c.Left {
		said = append(said, c.Left[i].String())
	}
	const regions = "memory regions of an earlier life, with"
	if want := fmt.Sprintf("[kept memory node0: 3 %s 0 records in 0 logs kept memory node1: 3 %s 3 records in "+
		"1 logs kept memory node2: 3 %s 0 records in 0 logs]", regions, regions, regions); fmt.Sprint(said) != want {
		t.Errorf("%s, want %s", said, want)
	}
	if s, err := c.Members[1].Workers[1].Logs[2].Scan(func(*log.Record) error { return nil }); err != nil || s.Records != 0 {
		t.Errorf("a new log has %d records, %v", s.Records, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// killed runs the test as a process of its own until it has written, and kills it.
func killed(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKeptMemoryOutlivesAKilledProcess$")
	cmd.Env = append(os.Environ(), keptDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	has := false
	for !has && lines.Scan() {
		has = lines.Text() == "has written"
		if !has {
			t.Log(lines.Text())
		}
	}
	err = cmd.Process.Kill()
	_ = cmd.Wait() // killed
	if err != nil || !has {
		t.Fatalf("the process has written nothing: %v", err)
	}
}

// TestKeptMemoryThatCannotBeIsRefused in words.
func TestKeptMemoryThatCannotBeIsRefused(t *testing.T) {
	ctx := context.Background()
	cfg := keeping(t, filepath.Join(t.TempDir(), "run"))
	cfg.Keep, cfg.Attach = nil, true
	if _, err := node.NewLocal(ctx, cfg); err == nil || !strings.Contains(err.Error(), "Attach without Keep") {
		t.Errorf("%v", err)
	}
	cfg = durable(filepath.Join(t.TempDir(), "run"), true)
	cfg.Part, cfg.Threads = &node.Part{Members: []proto.NodeID{0}}, 1
	if _, err := node.NewLocal(ctx, cfg); err == nil || !strings.Contains(err.Error(), "Attach with Part") {
		t.Errorf("%v", err)
	}
	cfg.Part.Lasting, cfg.Part.Clock = true, verbs.NewMonotonicClock()
	if _, err := node.NewLocal(ctx, cfg); keeps(t, filepath.Join(t.TempDir(), "run")) && !errors.Is(err, node.ErrNoKept) {
		t.Errorf("%v", err)
	}
	if !keeps(t, filepath.Join(t.TempDir(), "run")) {
		return
	}
	cfg = keeping(t, filepath.Join(t.TempDir(), "run"))
	cfg.Provider = struct{ verbs.Provider }{cfg.Provider}
	if _, err := node.NewLocal(ctx, cfg); !errors.Is(err, verbs.ErrUnsupported) ||
		!strings.Contains(err.Error(), "provider shm cannot list kept memory") {
		t.Errorf("%v", err)
	}
	cfg = keeping(t, filepath.Join(t.TempDir(), "run"))
	cfg.Keep = func(proto.NodeID) string { return "no/name" }
	if _, err := node.NewLocal(ctx, cfg); err == nil || !strings.Contains(err.Error(), "no/name") {
		t.Errorf("%v", err)
	}
}
