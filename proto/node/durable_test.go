package node_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// Environment of the process that is killed: the folder of its memory, and whether it has memory to go on from.
const (
	durableDir    = "DRTMD_TEST_DURABLE_DIR"
	durableAttach = "DRTMD_TEST_DURABLE_ATTACH"
	durableDies   = "DRTMD_TEST_DURABLE_DIES" // it kills itself while a transaction has its locks
)

// soakKills in the environment is how often the cluster is killed.
const soakKills = "DRTMD_SOAK_KILLS"

// Shape of the cluster that is killed. Table 1 has accounts, table 2 a counter of each client, table 3 a record of
// each transfer that a client has made.
const (
	durableNodes    = 3
	durableClients  = 2 // of each node
	durableAccounts = 4 // of each node
	durableMoney    = 1000
	durableMoves    = 1 << 17
)

// ledger is the workload. The high half of a key is its node.
type ledger struct{}

func (ledger) Name() string { return "ledger" }
func (ledger) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: 1, Name: "accounts", ValueBytes: 8, Capacity: durableAccounts},
		{ID: 2, Name: "counters", ValueBytes: 8, Capacity: durableNodes * durableClients},
		{ID: 3, Name: "moves", ValueBytes: 8, Capacity: durableMoves}}
}
func (ledger) Placement() proto.Placement                         { return ledger{} }
func (ledger) Kinds() []string                                    { return []string{"move"} }
func (ledger) Sums() []string                                     { return nil }
func (ledger) NewClient(proto.NodeID, *rand.Rand) workload.Client { return nil }
func (ledger) Check(proto.NodeID, workload.Contents) (a, b workload.Quantities, err error) {
	return a, b, nil
}
func (ledger) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> 32), Shard: proto.ShardID(k >> 32)}
}
func (ledger) Load(n proto.NodeID, put func(proto.TableID, proto.Key, []byte) error) error {
	for k := range proto.Key(durableAccounts) {
		if err := put(1, proto.Key(n)<<32|k, money(durableMoney)); err != nil {
			return err
		}
	}
	for k := range proto.Key(durableNodes * durableClients) {
		if counterOf(k)>>32 == proto.Key(n) {
			if err := put(2, counterOf(k), money(0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// counterOf is the counter of a client: on another node than the client.
func counterOf(client proto.Key) proto.Key {
	return (client/durableClients+1)%durableNodes<<32 | client
}

// moveOf is the record of a client's transfer.
func moveOf(client proto.Key, count uint64) proto.Key {
	return (client+proto.Key(count))%durableNodes<<32 | client<<24 | proto.Key(count)
}

// transfer moves money between two accounts, counts that, and inserts a record of it.
type transfer struct {
	from, to, client proto.Key
	count            uint64
	dies             bool
	d                proto.Decl
}

// newTransfer draws the accounts of a client's transfer.
func newTransfer(client proto.Key, count uint64, r *rand.Rand) *transfer {
	account := func() proto.Key {
		return proto.Key(r.IntN(durableNodes))<<32 | proto.Key(r.IntN(durableAccounts))
	}
	x := &transfer{from: account(), to: account(), client: client, count: count}
	for x.to == x.from {
		x.to = account()
	}
	x.d.Accesses = []proto.Access{{Table: 1, Key: x.from, Mode: proto.ModeWrite},
		{Table: 1, Key: x.to, Mode: proto.ModeWrite}, {Table: 2, Key: counterOf(client), Mode: proto.ModeWrite},
		{Table: 3, Key: moveOf(client, count), Mode: proto.ModeInsert}}
	return x
}

func (x *transfer) Execute(tx proto.Txn) error {
	if err := change(tx, x.from, -1); err != nil {
		return err
	}
	if err := change(tx, x.to, 1); err != nil {
		return err
	}
	if err := tx.Write(2, counterOf(x.client), money(x.count)); err != nil {
		return err
	}
	if x.dies {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Minute) // it takes effect at once, or soon
	}
	return tx.Insert(3, moveOf(x.client, x.count), money(x.count))
}

// durable is the configuration of the cluster.
func durable(dir string, attach bool) node.LocalConfig {
	p, _ := node.FindProtocol("drtm")
	return node.LocalConfig{Config: node.Config{Protocol: p, Workload: ledger{}, Nodes: durableNodes, Workers: 1, Fibers: 4,
		Options: option.Settings{"durable": "true"}}, Provider: shm.New(shm.Options{Dir: dir}), Threads: durableNodes,
		Keep: func(n proto.NodeID) string { return fmt.Sprintf("node%d", n) }, Attach: attach}
}

// runDurable is the process that is killed: its clients move money, and tell each commit on standard output.
func runDurable(dir string, attach bool) error {
	ctx := context.Background()
	c, err := node.NewLocal(ctx, durable(dir, attach))
	if err != nil {
		return err
	}
	s := recovery(c)
	fmt.Fprintf(os.Stderr, "recovered from %d records: %d transactions completed, %d undone; %d records torn\n", s.Found,
		s.Completed, s.Undone, s.Torn)
	return c.Start("clients", durableClients, func(f *fiber.Fiber, w *node.Worker, i int) error {
		client := proto.Key(int(w.Node)*durableClients + i)
		value := money(0)
		run := proto.Runner{Engine: w.Engine, Rand: rand.New(rand.NewPCG(uint64(client), uint64(time.Now().UnixNano())))}
		if err := w.Engine.Peek(f, 2, counterOf(client), value); err != nil {
			return err
		}
		begun := binary.LittleEndian.Uint64(value)
		for count := begun + 1; ; count++ {
			x := newTransfer(client, count, run.Rand)
			x.dies = client == 0 && begun+20 == count && os.Getenv(durableDies) != ""
			res, err := run.Run(f, &x.d, x)
			if err != nil {
				return err
			}
			if res.Outcome == proto.Committed {
				fmt.Fprintf(os.Stdout, "%d %d\n", client, count) // one write: not buffered
			}
		}
	}).Wait(ctx)
}

// killDurable runs the process, kills it after so many commits, and notes those that it has told.
// With 0 it kills itself.
func killDurable(t *testing.T, dir string, attach bool, commits int, told []uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestADurableClusterComesBack$")
	cmd.Env = append(os.Environ(), durableDir+"="+dir, fmt.Sprintf("%s=%t", durableAttach, attach))
	if commits == 0 {
		cmd.Env = append(cmd.Env, durableDies+"=yes")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		var client int
		var count uint64
		if _, scanErr := fmt.Sscan(line, &client, &count); err == nil && scanErr == nil && client < len(told) {
			told[client] = count
		} else if err == nil {
			t.Errorf("the process says %q", line)
		}
		if n == commits && commits > 0 { // and a little later, so that it is not always in the middle of telling
			time.AfterFunc(time.Duration(rand.Int64N(int64(5*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		}
		if err != nil {
			if !errors.Is(err, io.EOF) || n < commits {
				t.Errorf("after %d commits: %v", n, err)
			}
			break
		}
	}
	_ = cmd.Wait() // killed
}

// TestADurableClusterComesBack kills a process with all three nodes of a cluster, again and again, in the middle of
// transactions of all of them. The next one goes on with their tables and logs. In the end every commit that was told
// is there, and all of each transaction or nothing.
func TestADurableClusterComesBack(t *testing.T) {
	if dir := os.Getenv(durableDir); dir != "" {
		if err := runDurable(dir, os.Getenv(durableAttach) == "true"); err != nil {
			fmt.Println(err)
			t.Fatal(err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "run")
	raceskip.Processes(t)
	told := make([]uint64, durableNodes*durableClients)
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	kills := 5
	if n, err := strconv.Atoi(os.Getenv(soakKills)); err == nil {
		kills = n
	}
	for i := range kills {
		killDurable(t, dir, i > 0, 1+r.IntN(400), told)
	}
	killDurable(t, dir, true, 0, told)
	c, err := node.NewLocal(context.Background(), durable(dir, true))
	if err != nil {
		t.Fatal(err)
	}
	if s := recovery(c); s.Recovering > 0 || s.Undone == 0 {
		t.Errorf("%d transactions are not recovered; %d were undone, want at least the one in which the process died",
			s.Recovering, s.Undone)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	checkLedger(t, c, told)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// recovery is what a cluster has found in its logs.
func recovery(c *node.Cluster) (all proto.LogStats) {
	for _, w := range c.Workers() {
		s := w.Engine.(proto.Logger).LogStats()
		all.Add(&s)
	}
	return all
}

// checkLedger looks at the tables of a cluster at rest.
func checkLedger(t *testing.T, c *node.Cluster, told []uint64) {
	t.Helper()
	read := func(table proto.TableID, k proto.Key) (uint64, error) {
		value := money(0)
		m := c.Members[k>>32]
		if state, ok := m.State(proto.ShardID(m.ID), table, k); ok && state&1 != 0 {
			t.Errorf("table %d, key %#x is locked: %#x", table, k, state)
		}
		err := m.Read(proto.ShardID(m.ID), table, k, value)
		return binary.LittleEndian.Uint64(value), err
	}
	sum := uint64(0)
	for n := range proto.Key(durableNodes) {
		for k := range proto.Key(durableAccounts) {
			v, err := read(1, n<<32|k)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	if want := uint64(durableNodes * durableAccounts * durableMoney); sum != want {
		t.Errorf("the accounts have %d together, want %d", sum, want)
	}
	for client := range proto.Key(len(told)) {
		count, err := read(2, counterOf(client))
		if err != nil || count < told[client] || told[client] == 0 {
			t.Errorf("client %d was told of %d commits, and has counted %d, %v", client, told[client], count, err)
		}
		for i := range count + 1 {
			v, err := read(3, moveOf(client, i+1))
			if i < count && (err != nil || v != i+1) {
				t.Fatalf("client %d: transfer %d of %d: %d, %v", client, i+1, count, v, err)
			}
			if i == count && !errors.Is(err, proto.ErrNotFound) {
				t.Errorf("client %d: transfer %d is there, and was not counted", client, i+1)
			}
		}
	}
}
