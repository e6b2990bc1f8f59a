package endtoend

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"drtmd/cmd/drtmd/internal/status"
)

// TestNodeIsKilledWhileARunOpens: there is no result and no half of one, the error says who was lost
// and in which step, and the others serve again.
func TestNodeIsKilledWhileARunOpens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		led, killed int
		want        string
	}{
		{"another node", 0, 1,
			`node \d \(n1, incarnation \d+\), with nodes \[\d\], was lost in step (open|connect|go)`},
		{"the leader", 2, 2, "the connection was cut: the daemon has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.cluster(3)
			folder, file := filepath.Join(l.dir, "report"), filepath.Join(l.dir, "report.json")
			b := l.beginning(l.nodes[c.led], "--accounts", "400000", "--report", folder, "--json", file,
				"--check", "--duration", "1h") // loading takes seconds
			victim := l.nodes[c.killed]
			until(t, "the victim opens its part", func() bool {
				st := l.status(victim)
				for i := range st.Nodes {
					n := &st.Nodes[i]
					if n.Member.Name == victim.name {
						return st.State.Shards.Run != "" && n.Phase == status.Connecting && n.Plane != nil &&
							n.Plane.Version == st.State.Shards.Version
					}
				}
				return false
			})
			victim.kill()
			_, errs := b.ends(1)
			if !regexp.MustCompile(c.want).MatchString(errs) {
				t.Errorf("no %q in\n%s", c.want, errs)
			}
			if want := "no result, and nothing written to " + folder + ", " + file; !regexp.MustCompile(
				regexp.QuoteMeta(want)).MatchString(errs) {
				t.Errorf("no %q in\n%s", want, errs)
			}
			if list, err := os.ReadDir(folder); err != nil || len(list) > 0 {
				t.Errorf("in %s: %v, %v", folder, list, err)
			}
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", file, err)
			}
			l.allReady(l.nodes[0], 2)
			l.proved(l.nodes[0])
			victim.restart()
			l.allReady(l.nodes[0], 3)
			l.proved(victim)
		})
	}
}
