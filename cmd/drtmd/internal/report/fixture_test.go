package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto/check"
)

// fixedRun is made by hand: nothing in it depends on the machine or on time.
func fixedRun() *Bench {
	loadAverage := 0.25
	latency := &LatencyNs{Samples: 1000, MeanNs: 2500, P50Ns: 2000, P90Ns: 4000, P99Ns: 9000,
		P999Ns: 31000, MaxNs: 47000}
	aborts := []AbortRow{{"locked", 30}, {"leased", 10}}
	return &Bench{Schema: BenchSchema, Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Machine: Machine{CPU: "Test CPU", CPUs: 4, GoMaxProcs: 4, Kernel: "Linux 6.1",
			Build: Build{Version: "0.1.0", Go: "go1.26", Platform: "linux/amd64", Cgo: true}},
		Environment: Environment{Governor: "performance", LoadAverage: &loadAverage},
		Command:     []string{"bench", "--report", "my folder"}, Workload: "smallbank",
		Settings: "100 customers per node", Protocol: "drtm", Transport: "shm", Device: "shm0",
		AtomicScope: "ATOMIC_GLOB", Nodes: 3, Workers: 1, Fibers: 16, Threads: 2, Processes: 1, Seed: 7,
		WarmupNs: 1e9, DurationNs: 2e9, ElapsedNs: 2e9, WallNs: 2e9, SampleEvery: 64,
		Kinds: []KindRow{{Name: "balance", Committed: 4000, PerSecond: 2000, Attempts: 4040,
			Aborts: aborts, Latency: latency}},
		All: KindRow{Name: "all", Committed: 4000, PerSecond: 2000, Attempts: 4040, Aborts: aborts,
			Latency: latency},
		Paths: PathRow{Fallback: .01, Regions: .9, LeaseWaits: .002, Lookups: 50, CacheHits: 40},
		Verbs: []VerbRow{{"RDMA_READ", 2000, .5}}, Bytes: 12.5, Conserved: "yes",
		Series: []load.Point{{At: 0, Span: time.Second, Committed: 1000, Attempts: 1010, Aborted: 10},
			{At: time.Second, Span: time.Second, Committed: 1900, Attempts: 1920, Aborted: 20},
			{At: 2 * time.Second, Span: time.Second, Committed: 2100, Attempts: 2120, Aborted: 20}},
		Quantiles: []load.Quantile{{P: 0, Ns: 900}, {P: .5, Ns: 2000}, {P: .9, Ns: 4000},
			{P: .99, Ns: 9000}, {P: 1, Ns: 47000}},
	}
}

// fixedModel is a run of the simulator.
func fixedModel() *Bench {
	b := fixedRun()
	b.Virtual, b.Transport, b.Device, b.Threads, b.CostModel = true, "sim", "", 0, "cx5-100g"
	b.Check = &check.Result{Verdict: check.Serializable, Checked: 4000}
	b.Recorded = true
	return b
}

// saved writes a run to a file and reads it back.
func saved(t *testing.T, b *Bench) *Read {
	t.Helper()
	name := filepath.Join(t.TempDir(), "run.json")
	if err := Replace(name, b.WriteJSON); err != nil {
		t.Fatal(err)
	}
	r, err := ReadBench(name)
	if err != nil {
		t.Fatal(err)
	}
	r.File = b.Protocol + ".json" // without the folder of the test
	return r
}

// golden compares with a file of testdata; DRTMD_UPDATE=1 writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("DRTMD_UPDATE") == "1" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("differs from %s (DRTMD_UPDATE=1 writes it anew):\n%s", file, got)
	}
}

func TestBenchSurvivesItsJSON(t *testing.T) {
	var first, second bytes.Buffer
	b := fixedRun()
	if err := b.WriteJSON(&first); err != nil {
		t.Fatal(err)
	}
	if err := saved(t, b).Bench.WriteJSON(&second); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Errorf("wrote\n%s\nthen\n%s", &first, &second)
	}
	golden(t, "bench.json", first.Bytes())
	if v := saved(t, fixedModel()).Verdict; v != "strictly serializable" {
		t.Errorf("verdict %q", v)
	}
}

func TestBenchHasNoNullInItsJSON(t *testing.T) {
	var b bytes.Buffer
	if err := (&Bench{}).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"series", "quantiles", "transactions"} {
		if string(doc[field]) != "[]" {
			t.Errorf("%s is %s", field, doc[field])
		}
	}
}
