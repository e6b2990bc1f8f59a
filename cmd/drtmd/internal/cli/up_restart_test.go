package cli

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestARestartSaysWhichNodesAreDown, and how they are started.
func TestARestartSaysWhichNodesAreDown(t *testing.T) {
	dir := t.TempDir()
	var st upState
	for i := range 3 {
		name := fmt.Sprintf("node%d", i)
		st.Nodes = append(st.Nodes, upMember{Name: name, Address: "unix:" + filepath.Join(dir, name, "control")})
	}
	if m, err := st.stopped(dir, "1,node2,1"); err != nil || len(m) != 2 || m[0].Name != "node1" || m[1].Name != "node2" {
		t.Errorf("nodes 1,node2,1 are %v, %v", m, err)
	}
	p := &upPlace{dir: dir}
	for _, c := range []struct {
		st   upState
		want string
	}{
		{upState{Nodes: st.Nodes[:1]}, ""},
		{upState{Nodes: st.Nodes[:2]}, "; node1 is down, and needed if tables are kept: drtmd up --restart 1 --dir "},
		{st, "; node1 and node2 are down, and needed if tables are kept: drtmd up --restart 1,2 --dir "},
	} {
		if c.want != "" {
			c.want += shellQuote(dir) + ", from another terminal"
		}
		if got := downAdvice(&c.st, "node0", p, dir); got != c.want {
			t.Errorf("of %d nodes: %q, want %q", len(c.st.Nodes), got, c.want)
		}
	}
}
