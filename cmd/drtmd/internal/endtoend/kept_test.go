package endtoend

import (
	"regexp"
	"testing"
)

// TestAKilledNodeFindsItsLogs in memory that outlives the process: after its restart it says what they hold, and
// takes part again. The others use their kept memory for one plane after the other.
func TestAKilledNodeFindsItsLogs(t *testing.T) {
	t.Parallel()
	l := newLab(t, "--data-protocol", "fasst", "--data-replicas", "2", "--data-workers", "1")
	l.start("n0", "--data-keep", "zero")
	l.start("n1", "--data-keep", "one", "--cluster-join", l.nodes[0].argument("--control-listen"))
	for _, n := range l.nodes {
		n.await()
	}
	l.allReady(l.nodes[0], 2)
	b := l.benching(l.nodes[0], "--protocol", "fasst", "--replicas", "2", "--workers", "1", "--duration", "30s")
	l.nodes[1].kill()
	b.ends(0)
	l.nodes[1].restart()
	l.allReady(l.nodes[0], 2)
	said := regexp.MustCompile(`^kept memory one: 3 memory regions of an earlier life, with \d+ records in [01] logs` +
		`.*; the tables are loaded anew$`)
	found := false
	for _, e := range l.self(l.nodes[1]).Events {
		found = found || said.MatchString(e.Text)
	}
	if !found {
		t.Errorf("nothing of kept memory in %+v", l.self(l.nodes[1]).Events)
	}
}
