package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// list asks go for the packages of the module.
func list(t *testing.T, cgo string, args ...string) []Package {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go tool on this machine: ", err) // as in the guest, where only binaries run
	}
	c := exec.Command(goTool, append([]string{"list", "-e", "-json=ImportPath,Imports,CgoFiles"}, args...)...)
	c.Dir = "../../.."
	c.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var packages []Package
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// Run with -count=1: what go list reads is unknown to the test cache.
func TestModuleKeepsToItsLayers(t *testing.T) {
	for _, cgo := range []string{"0", "1"} {
		packages := list(t, cgo, "./...")
		if len(packages) < 10 {
			t.Fatalf("go list found only %d packages", len(packages))
		}
		for _, v := range Violations(packages) {
			t.Errorf("CGO_ENABLED=%s: %s", cgo, v)
		}
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, from, imports string
		want                string // "" = allowed
	}{
		{"down", "drtmd/store", "drtmd/verbs", ""},
		{"up", "drtmd/verbs", "drtmd/store", "not below"},
		{"a provider from the contract", "drtmd/verbs", "drtmd/verbs/shm", "not below"},
		{"a provider from above", "drtmd/store", "drtmd/verbs/shm", "names the provider"},
		{"a provider from the command", "drtmd/cmd/drtmd/internal/cli", "drtmd/verbs/ibv",
			"names the provider"},
		{"a provider where it belongs", "drtmd/cmd/drtmd/internal/transport", "drtmd/verbs/ibv", ""},
		{"scenarios simulate", "drtmd/verbs/scenario", "drtmd/verbs/sim", ""},
		{"scenarios do nothing else", "drtmd/verbs/scenario", "drtmd/verbs/shm",
			"names the provider"},
		{"the command simulates", "drtmd/cmd/drtmd/internal/cli", "drtmd/verbs/sim", ""},
		{"inside a unit", "drtmd/verbs/shm", "drtmd/verbs/shm/internal/fabric", ""},
		{"one provider from another", "drtmd/verbs/sim", "drtmd/verbs/shm", "not below"},
		{"htm sees line words", "drtmd/htm", "drtmd/verbs/lineword", ""},
		{"htm does not see verbs", "drtmd/htm", "drtmd/verbs", "htm knows only"},
		{"htm does not see verbs from below", "drtmd/htm/bloom", "drtmd/verbs", "htm knows only"},
		{"line words are a leaf", "drtmd/verbs/lineword", "drtmd/verbs", "not below"},
		{"cgo elsewhere", "drtmd/verbs/shm", "C", "uses cgo"},
		{"cgo in ibv", "drtmd/verbs/ibv", "C", ""},
		{"etcd in its package", "drtmd/proto/member/etcdmember", "go.etcd.io/etcd/client/v3", ""},
		{"etcd elsewhere", "drtmd/cmd/drtmd/internal/daemon", "go.etcd.io/etcd/client/v3",
			"only proto/member/etcdmember"},
		{"a new protocol", "drtmd/proto/toy", "drtmd/proto/protocol", ""},
		{"a new protocol's own folder", "drtmd/proto/toy/log", "drtmd/proto/toy", ""},
		{"a new protocol on another", "drtmd/proto/toy", "drtmd/proto/drtm", "not below"},
		{"two new protocols", "drtmd/proto/toy", "drtmd/proto/doll", "not below"},
		{"homeless", "drtmd/util", "fmt", "has no layer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(Violations([]Package{{ImportPath: c.from,
				Imports: []string{c.imports}}}), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}
