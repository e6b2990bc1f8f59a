package endtoend

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
)

const (
	// killsOf in the environment is how many nodes TestRunsOutliveKilledNodes kills, mostKills by default.
	killsOf   = "DRTMD_SOAK_KILLS"
	mostKills = 5
	// killedRun is how long a run is in which a node is killed: its lease ends, and replicas are filled again.
	killedRun = 3*killedLease + time.Second
	// killedLease leaves room for a busy machine: four nodes and a run take turns on its CPUs.
	killedLease = 4 * time.Second
)

// killedProtocols are those that it runs, by turns: each once.
var killedProtocols = [mostKills]string{"drtmh", "farm", "dnl1", "dnl4", "dnl2"}

// TestRunsOutliveKilledNodes: records have three replicas on four nodes, under DrTM+H, FaRM and Dandelion's protocols by
// turns. A run in which one is killed, at a random moment, goes on; its history is strictly serializable with what the
// killed node had recorded, and all records have three equal replicas again. The node comes back, and is part of the
// next run.
func TestRunsOutliveKilledNodes(t *testing.T) {
	t.Parallel()
	kills, err := strconv.Atoi(os.Getenv(killsOf))
	if err != nil {
		kills = mostKills
	}
	l := newLab(t, "--cluster-lease", killedLease.String())
	l.cluster(4)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		victim := l.nodes[1+r.IntN(3)] // node 0 leads the run, and has etcd
		b := l.benching(l.nodes[0], "--protocol", killedProtocols[i%len(killedProtocols)], "--replicas", "3",
			"--duration", killedRun.String(), "--check")
		wait := time.Duration(r.Int64N(int64(killedLease / 4)))
		time.Sleep(wait)
		victim.kill()
		out, errs := b.ends(0)
		for _, want := range []string{"\nstrictly serializable: yes \\(", "\nreplicas equal: yes\n", "\nnodes lost: 1; the run " +
			"went on: recovered within .*; 3 replicas of each record again ", "\nsums conserved: unknown: "} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Fatalf("seed %d, kill %d, of %s after %v: no %q in\n%s\n%s", seed, i, victim.name, wait, want, out, errs)
			}
		}
		if strings.Contains(out, "records that stay locked") {
			t.Fatalf("seed %d, kill %d, of %s after %v: locks of the dead are named after the recovery\n%s", seed, i,
				victim.name, wait, out)
		}
		victim.restart()
		l.allReady(l.nodes[0], 4)
	}
}

// TestAServingPlaneOutlivesAKilledNode: it is not built again, its shards are served by others, and are filled
// there; the node that comes back belongs to the next plane.
func TestAServingPlaneOutlivesAKilledNode(t *testing.T) {
	t.Parallel()
	l := newLab(t, "--data-protocol", "drtmh", "--data-replicas", "2")
	first := l.start("n0") // is not ready alone
	at := first.args[slices.Index(first.args, "--control-listen")+1]
	for _, name := range []string{"n1", "n2"} {
		l.start(name, "--cluster-join", at)
	}
	for _, n := range l.nodes {
		n.await()
	}
	var before *status.Cluster
	until(t, "every record has two replicas", func() bool {
		before = l.status(l.nodes[0])
		return before != nil && before.State.Shards.Placement != nil && len(before.State.Shards.Primary) == 3 &&
			count(before, status.Ready) == 3
	})
	l.nodes[1].kill()
	until(t, "every record has two replicas again, on two nodes", func() bool {
		st := l.status(l.nodes[0])
		if st == nil || len(st.State.Active.Members) != 2 {
			return false
		}
		m := st.State.Shards.Placement
		for i := range m.Shards {
			if x := &m.Shards[i]; x.Lost() || len(x.Backups) != 1 || len(x.Filling) > 0 {
				return false
			}
		}
		return st.State.Shards.Version == before.State.Shards.Version && count(st, status.Ready) == 2
	})
	until(t, "node 0 has taken that into use", func() bool { // a moment after the registry says it
		n := l.self(l.nodes[0])
		return n != nil && n.Recovery != nil && !n.Recovery.Running && len(n.Recovery.Serves)+len(n.Recovery.Backs) == 3
	})
	l.nodes[1].restart()
	l.allReady(l.nodes[0], 3)
}
