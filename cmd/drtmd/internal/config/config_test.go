package config_test

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/proto/option"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "drtmd.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// certificates are the names of files of a CA, and of a node of it.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	_, errCA := control.MakeCA(dir)
	cert, key, errCert := control.MakeCert(dir, "node", []string{"127.0.0.1"}, time.Hour, false)
	if err := errors.Join(errCA, errCert); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, control.CACertFile), cert, key
}

func TestDocumentIsUpToDate(t *testing.T) {
	name := filepath.Join("..", "..", "..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(name, []byte(config.Markdown(composition.BuiltIn())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil || string(b) != config.Markdown(composition.BuiltIn()) {
		t.Errorf("%s is not what the tags say (%v): go test ./cmd/drtmd/internal/config -update", name, err)
	}
}

// TestExampleHasTheDefaultOfEveryOwner of a key that workloads or protocols share.
func TestExampleHasTheDefaultOfEveryOwner(t *testing.T) {
	text := strings.Join(strings.Fields(strings.ReplaceAll(config.Example(composition.BuiltIn()), "\n  #", " ")), " ")
	for _, want := range []string{"Default: 64 (micro), 100000 (ycsb, retwis, opmix). keys: 64",
		"Default: 8 (smallbank), 0 (tatp), 1000 (ycsb), 64 (retwis), 16 (opmix). value_bytes: 8"} {
		if !strings.Contains(text, want) {
			t.Errorf("the example has no %q", want)
		}
	}
}

func TestExampleLoadsAsItIsAndWithEveryKeyPutIn(t *testing.T) {
	ca, cert, key := certificates(t)
	files := strings.NewReplacer("/etc/drtmd/ca.pem", ca, "/etc/drtmd/node.pem", cert,
		"/etc/drtmd/node.key", key)
	others := map[string]bool{} // options of another workload or protocol than the default
	defaults := config.Default(composition.BuiltIn())
	for _, k := range config.Keys(composition.BuiltIn()) {
		_, field, _ := strings.Cut(k.Path, ".")
		others["  #"+field] = strings.HasPrefix(k.Path, "data.") && !k.Fits(&defaults)
	}
	whole := regexp.MustCompile(`(?m)^  #[a-z_]+`).ReplaceAllStringFunc(config.Example(composition.BuiltIn()),
		func(key string) string {
			if others[key] {
				return key
			}
			return strings.Replace(key, "#", "", 1)
		})
	for name, text := range map[string]string{"as it is": config.Example(composition.BuiltIn()), "every key": files.Replace(whole)} {
		t.Run(name, func(t *testing.T) {
			_, src, err := config.Load(composition.BuiltIn(), write(t, text), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			for path, from := range src {
				_, field, _ := strings.Cut(path, ".")
				if (from != "default") != (name == "every key" && !others["  #"+field]) {
					t.Errorf("%s comes from %s", path, from)
				}
			}
		})
	}
}

func TestLaterSourcesOverrideEarlierOnes(t *testing.T) {
	file := write(t, "cluster:\n  lease: 7s\ndata:\n  cache: 32MiB\n  workers: 2\n")
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.RegisterFlags(composition.BuiltIn(), f)
	if err := f.Parse([]string{"--data-workers=4"}); err != nil {
		t.Fatal(err)
	}
	c, src, err := config.Load(composition.BuiltIn(), file, f, []string{"DRTMD_DATA_CACHE=1GiB", "DRTMD_DATA_WORKERS=3",
		"DRTMD_CLUSTER_JOIN=a:1, b:2", "DRTMD_REQUIRE=ibv", "PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster.Lease != 7*time.Second || c.Data.Cache != 1<<30 || c.Data.Workers != 4 ||
		len(c.Cluster.Join) != 2 || c.Cluster.Join[1] != "b:2" {
		t.Errorf("got %+v", c)
	}
	for path, want := range map[string]string{"cluster.lease": file + ":2", "data.cache": "DRTMD_DATA_CACHE",
		"data.workers": "--data-workers", "data.fibers": "default"} {
		if src[path] != want {
			t.Errorf("%s comes from %q, want %q", path, src[path], want)
		}
	}
}

func TestShortFlagsAreTheLongOnes(t *testing.T) {
	load := func(args ...string) (*config.Config, config.Sources, error) {
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		config.RegisterFlags(composition.BuiltIn(), f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		return config.Load(composition.BuiltIn(), "", f, nil)
	}
	ca, cert, key := certificates(t)
	c, src, err := load("--etcd=http://b:2", "--cpus", "0", "--insecure",
		"--transport", "ibv", "--device", "rxe0", "--ca", ca, "--cert", cert, "--key", key)
	if err != nil {
		t.Fatal(err)
	}
	if c.Cluster.Etcd[0] != "http://b:2" || c.Node.CPUs != "0" ||
		!c.Control.Insecure || c.Transport.Provider != "ibv" || c.Transport.Device != "rxe0" ||
		c.Control.CA != ca || c.Control.Cert != cert || c.Control.Key != key {
		t.Errorf("got %+v", c)
	}
	if from := src["cluster.etcd"]; from != "--etcd" {
		t.Errorf("cluster.etcd comes from %q", from)
	}
	if c, _, err := load("--join", "a:1"); err != nil || c.Cluster.Join[0] != "a:1" {
		t.Errorf("--join: %v, %v", c, err)
	}
	if _, _, err := load("--join", "a:1", "--cluster-join", "b:1"); err == nil ||
		!strings.Contains(err.Error(), "--join: given as --cluster-join, too") {
		t.Errorf("both names: %v", err)
	}
}

func TestWrongFilesAreRefusedWithLineAndWhatWasExpected(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "control:\n  lisen: a:1\n", []string{":2: unknown key control.lisen",
			"did you mean control.listen?"}},
		{"unknown section", "contol: {}\n", []string{`:1: unknown section "contol"; did you mean control?`}},
		{"bare size", "data:\n  cache: 64\n", []string{":2: data.cache: expected a size with its unit"}},
		{"bare time", "cluster:\n  lease: 5\n", []string{":2: cluster.lease: expected a time", `not "5"`}},
		{"wrong type", "data:\n  workers: many\n", []string{":2: data.workers: expected a whole number"}},
		{"duplicate", "log:\n  level: info\n  level: warn\n", []string{":3: log: level is given twice"}},
		{"out of range", "data:\n  workers: 65\n", []string{"data.workers", ":2", "expected 1 to 64, not 65"}},
		{"address", "control:\n  listen: x\n", []string{`expected HOST:PORT or unix:PATH, not "x"`}},
		{"a name of two lines", "node:\n  name: \"a\\nb\"\n", []string{"node.name", ":2",
			"printable characters"}},
		{"an endless name", "node:\n  name: " + strings.Repeat("x", 65) + "\n",
			[]string{"node.name", "at most 64"}},
		{"open to all", "control:\n  listen: 0.0.0.0:7440\n", []string{"control.listen", ":2",
			"drtmd certs makes them", "--insecure"}},
		{"etcd open to all", "control:\n  insecure: true\ncluster:\n  etcd_listen: 10.0.0.1:2379\n",
			[]string{"cluster.etcd_listen", ":4", "drtmd certs makes them"}},
		{"two etcds", "cluster:\n  etcd: [http://a:1]\n  etcd_listen: 127.0.0.1:2379\n",
			[]string{"cluster.etcd_listen", ":3", "leave one of them out"}},
		{"growth without a protocol for it", "data:\n  growth: 1MiB\n", []string{"data.growth", ":2",
			"protocol drtm keeps each table in one memory region"}},
		{"much growth", "data:\n  protocol: twopl\n  growth: 2000GiB\n", []string{"data.growth", ":3",
			"expected 0B to 1024GiB, not 2000GiB"}},
		{"the name of kept memory", "data:\n  keep: a/b\n", []string{"data.keep", ":2",
			`expected at most 64 letters, digits, - and _, not "a/b"`}},
		{"kept memory of ibv without a folder", "transport:\n  provider: ibv\ndata:\n  keep: n1\n",
			[]string{"data.keep", ":4", "name their folder with transport.keep_dir"}},
		{"a folder of kept memory for shm", "transport:\n  keep_dir: /dev/shm/x\n", []string{"transport.keep_dir",
			":2", "the shm transport keeps memory in its run_dir"}},
		{"accounts", "data:\n  accounts: -1\n", []string{"data.accounts", ":2", "expected 2 to 1073741824, not -1"}},
		{"another workload's option", "data:\n  keys: 9\n", []string{"data.keys", ":2",
			"workload smallbank has no such option; it is one of micro"}},
		{"an unknown workload", "data:\n  workload: bank\n", []string{"data.workload", ":2", `unknown workload "bank"`,
			"known: smallbank, micro"}},
		{"an option's bounds", "data:\n  lease: 0s\n", []string{"data.lease", ":2", "expected 1µs or more, not 0s",
			"counted in microseconds"}},
		{"an option's type", "data:\n  lease: 5\n", []string{":2: data.lease: expected a time", `not "5"`}},
		{"another's option", "data:\n  lease: 1ms\n  protocol: twopl\n",
			[]string{"data.lease", ":2", "protocol twopl has no such option; it is one of drtm"}},
		{"all at once", "x: 1\ndata:\n  workers: 65\n  fibers: many\n  accounts: -1\ncluster:\n  lease: 1s\n",
			[]string{`unknown section "x"`, ":3): expected 1 to 64", ":4: data.fibers: expected a whole",
				":5): expected 2 to", ":7): expected whole seconds"}},
		{"keys that are not there", "control:\n  ca: /none/ca\n  cert: /none/cert\n  key: /none/key\n",
			[]string{"control.ca", ":2", "/none/ca: no such file", "control.cert", ":3", "control.key", ":4",
				"drtmd certs makes one"}},
		{"several", "x: 1\ndata:\n  y: 1\n", []string{`:1: unknown section "x"`, ":3: unknown key data.y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := config.Load(composition.BuiltIn(), write(t, c.text), nil, nil)
			if wrong := (config.Errors)(nil); !errors.As(err, &wrong) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

// TestOptionsOfTheWorkloadAreKeys: with the defaults of the one that is chosen.
func TestOptionsOfTheWorkloadAreKeys(t *testing.T) {
	c, _, err := config.Load(composition.BuiltIn(), write(t, "data:\n  workload: micro\n  keys: 128\n"), nil,
		[]string{"DRTMD_DATA_DISTRIBUTED=0.5"})
	if err != nil {
		t.Fatal(err)
	}
	if want := (option.Settings{"keys": "128", "distributed": "0.5"}); !maps.Equal(c.Data.WorkloadOptions, want) {
		t.Errorf("options %v, want %v", c.Data.WorkloadOptions, want)
	}
	c.Data.WorkloadOptions = nil
	for _, k := range config.Keys(composition.BuiltIn()) {
		if k.Path == "data.keys" && k.Get(c) != "64" || k.Path == "data.distributed" && k.Get(c) != "0.1" {
			t.Errorf("%s of micro is %s", k.Path, k.Get(c))
		}
	}
}

// TestOptionsOfProtocolsAreKeys: in files, variables and flags.
func TestOptionsOfProtocolsAreKeys(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.RegisterFlags(composition.BuiltIn(), f)
	if err := f.Parse([]string{"--data-lock-wait=3ms"}); err != nil {
		t.Fatal(err)
	}
	before := config.Default(composition.BuiltIn())
	c, src, err := config.Load(composition.BuiltIn(), write(t, "data:\n  lease: 1500us\n"), f, []string{"DRTMD_DATA_FALLBACK_AFTER=7"})
	if err != nil {
		t.Fatal(err)
	}
	want := option.Settings{"lease": "1.5ms", "fallback-after": "7", "lock-wait": "3ms"}
	if !maps.Equal(c.Data.Options, want) || len(before.Data.Options) != 0 {
		t.Errorf("options %v, want %v; the default's are %v", c.Data.Options, want, before.Data.Options)
	}
	for path, from := range map[string]string{"data.fallback_after": "DRTMD_DATA_FALLBACK_AFTER",
		"data.lock_wait": "--data-lock-wait", "data.orphan_after": "default"} {
		if src[path] != from {
			t.Errorf("%s comes from %q, want %q", path, src[path], from)
		}
	}
}

// TestAValueThatCannotBeReadIsNoOthersFault: nothing is said of a key that only looks wrong because
// another one has its default.
func TestAValueThatCannotBeReadIsNoOthersFault(t *testing.T) {
	_, _, err := config.Load(composition.BuiltIn(), write(t, "data:\n  workers: many\n  threads: 4\n"), nil, nil)
	if err == nil || strings.Contains(err.Error(), "threads") || !strings.Contains(err.Error(), "workers") {
		t.Errorf("got %v", err)
	}
	_, _, err = config.Load(composition.BuiltIn(), write(t, "data:\n  workers: 2\n  threads: 4\n"), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "expected 0 to 2 (data.workers), not 4") {
		t.Errorf("got %v", err)
	}
}

// TestWhatIsNoFileIsNotRead: a device has no end.
func TestWhatIsNoFileIsNotRead(t *testing.T) {
	for name, want := range map[string]string{"/dev/zero": "is not a file", t.TempDir(): "is not a file",
		write(t, strings.Repeat("#", 1<<20+1)): "more than 1048576"} {
		if _, _, err := config.Load(composition.BuiltIn(), name, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestUnknownVariableIsRefused(t *testing.T) {
	for variable, want := range map[string]string{
		"DRTMD_DATA_WORKER=1":          "did you mean DRTMD_DATA_WORKERS?",
		"DRTMD_TRANSPORT_DEVCE=mlx5_0": "did you mean DRTMD_TRANSPORT_DEVICE?",
		"DRTMD_REQUIRES=ibv":           "unknown variable",
	} {
		_, _, err := config.Load(composition.BuiltIn(), "", nil, []string{variable})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

func TestVariablesOfClientsAndTestsAreNoKeys(t *testing.T) {
	_, src, err := config.Load(composition.BuiltIn(), "", nil, []string{"DRTMD_TRANSPORT=ibv", "DRTMD_REQUIRE=ibv",
		"DRTMD_ADDRESS=127.0.0.1:7440", "DRTMD_CONFIG=/etc/drtmd.yaml", "DRTMD_TEST_AS_COMMAND=1",
		"DRTMD_SOAK_TIME=10m", "DRTMD_SOAK_SEED=1"})
	if err != nil {
		t.Fatal(err)
	}
	for path, from := range src {
		if from != "default" {
			t.Errorf("%s comes from %s", path, from)
		}
	}
}

func TestEmptyFileIsTheDefault(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "data:\n"} {
		if _, _, err := config.Load(composition.BuiltIn(), write(t, text), nil, nil); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
