package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// upCluster leaves what drtmd up does of two nodes in a folder, and gives the address of the second.
func upCluster(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(node string) string { return "unix:" + filepath.Join(dir, node, "control") }
	st := &upState{Nodes: []upMember{{Name: "node0", Address: at("node0")},
		{Name: "node1", Address: at("node1")}}}
	if err := st.write(dir); err != nil {
		t.Fatal(err)
	}
	return at("node1")
}

// TestANodeOfUpThatIsGoneIsRestartedByUp, whatever its cluster is called; one of serve is not.
func TestANodeOfUpThatIsGoneIsRestartedByUp(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", t.TempDir())
	elsewhere := filepath.Join(t.TempDir(), "lab")
	gone := func(address string) status.Node {
		return status.Node{Phase: status.Gone, Member: member.Member{Node: 1, Control: address}}
	}
	for _, c := range []struct {
		name string
		node status.Node
		want string // "": nothing
	}{
		{"of the user's own cluster", gone(upCluster(t, upDir(""))), "drtmd up --restart 1 starts node1 again"},
		{"of a named one", gone(upCluster(t, upDir("two"))), "drtmd up --restart 1 --name two starts node1 again"},
		{"of one in a folder", gone(upCluster(t, elsewhere)),
			"drtmd up --restart 1 --dir " + elsewhere + " starts node1 again"},
		{"of serve", gone("127.0.0.1:7440"), ""},
		{"of serve, on a socket", gone("unix:" + filepath.Join(t.TempDir(), "a", "control")), ""},
		{"that lives", status.Node{Phase: status.Ready,
			Member: member.Member{Control: upCluster(t, upDir(""))}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			if err := writeAdvice(&b, &status.Cluster{Nodes: []status.Node{c.node}}); err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.want != "" {
				want = "\nrestart    " + c.want + "\n"
			}
			if b.String() != want {
				t.Errorf("%q, want %q", b.String(), want)
			}
		})
	}
}
