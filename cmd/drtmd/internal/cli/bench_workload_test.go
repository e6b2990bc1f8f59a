package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/check"
	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// provedWorkloads are small runs of each workload, in the readings of the papers.
var provedWorkloads = []string{
	"smallbank --accounts 2000 --anywhere --value-bytes 4",
	"smallbank --accounts 200 --anywhere --hot-accounts 1 --balance-keys 1",
	"micro --keys 64 --distributed 0.5",
	"tatp --subscribers 100",
	"tatp --subscribers 100 --value-bytes 48 --numbers=false --failed-commit",
	"ycsb --letter A --keys 200 --value-bytes 100 --key-bytes 24",
	"ycsb --letter A --keys 200 --value-bytes 64 --operations 5 --distribution uniform",
	"ycsb --letter B --keys 200 --value-bytes 8 --operations 5 --distribution uniform",
	"ycsb --letter C --keys 200 --value-bytes 64 --operations 5",
	"ycsb --letter D --keys 200 --value-bytes 64 --operations 5",
	"ycsb --letter E --keys 200 --value-bytes 64 --operations 2 --scan-length 30",
	"ycsb --letter F --keys 200 --value-bytes 64 --operations 5 --distribution latest",
	"ycsb --letter F --keys 200 --value-bytes 64 --store bplustree",
	"retwis --keys 200",
	"opmix --keys 200 --gets 4 --puts 2",
	"opmix --keys 200 --gets 0 --puts 1",
	"tpcc --items 200 --customers 30 --orders 5000",
}

// TestEveryWorkloadIsProvedUnderEveryProtocol on shared memory and in the simulator, or on the transport
// that DRTMD_TRANSPORT names.
func TestEveryWorkloadIsProvedUnderEveryProtocol(t *testing.T) {
	for _, w := range composition.BuiltIn().Workloads {
		if !slices.ContainsFunc(provedWorkloads, func(args string) bool { return strings.HasPrefix(args, w.Name+" ") }) {
			t.Errorf("workload %s is not among those that are proved", w.Name)
		}
	}
	const real = "--nodes 2 --fibers 4 --threads 1 --warmup 0s --duration "
	if name := transportUnderTest(); name != "shm" {
		for _, protocol := range []string{"drtm", "twopl", "nocc"} {
			long := real + "500ms"
			if protocol == "nocc" { // it waits for nothing
				long = real + "60ms"
			}
			for _, w := range provedWorkloads {
				if slowReading.MatchString(w) {
					continue
				}
				w = ofSlowMachine(protocol, w)
				t.Run(protocol+"/"+w, func(t *testing.T) {
					t.Parallel() // a run in a guest waits most of the time
					proved(t, protocol, w, long+" --transport "+name)
				})
			}
		}
		return
	}
	for _, protocol := range []string{"drtm", "twopl", "nocc"} {
		t.Run("shm/"+protocol, func(t *testing.T) {
			if protocol != "drtm" {
				raceskip.SameMemory(t) // one thread runs all fibers, under any protocol
			}
			for _, w := range provedWorkloads {
				proved(t, protocol, ofSlowMachine(protocol, w), real+"60ms --transport shm")
			}
		})
		t.Run("sim/"+protocol, func(t *testing.T) {
			raceskip.Simulated(t)
			virtual := "--nodes 3 --fibers 2 --warmup 0s --duration 200us --transport sim"
			alone := strings.NewReplacer() // does nothing
			if protocol == "nocc" {        // which runs on one node there
				virtual = strings.Replace(virtual, "--nodes 3", "--nodes 1", 1)
				alone = strings.NewReplacer(" --anywhere", "", " --distributed 0.5", "")
			}
			for _, w := range provedWorkloads {
				proved(t, protocol, alone.Replace(w), virtual)
			}
		})
	}
}

// TestHADESWorkloadsAreProved under the protocols that HADES compares (§VII): its applications, and each of its stores with
// YCSB's A and B.
func TestHADESWorkloadsAreProved(t *testing.T) {
	raceskip.Simulated(t)
	list := []string{"smallbank --accounts 200 --anywhere", "tatp --subscribers 100",
		"tpcc --items 100 --customers 10 --orders 1000"}
	for _, store := range []string{"hash", "map", "btree", "bplustree"} {
		for _, letter := range []string{"A", "B"} {
			list = append(list, "ycsb --keys 200 --value-bytes 100 --operations 5 --letter "+letter+" --store "+store)
		}
	}
	for _, protocol := range []string{"farm", "hades", "hades-h"} {
		for _, w := range list {
			proved(t, protocol, w, "--transport sim --preset hades --nodes 3 --fibers 2 --warmup 0s --duration 40us")
		}
	}
}

// ofSlowMachine is a command line for a machine whose CPU may be away, or be slower, for longer than
// leases usually last: emulated, busy, or under the race detector.
func ofSlowMachine(protocol, args string) string {
	if protocol == "drtm" {
		args += " --lease 50ms --lease-read-only 50ms"
	}
	return args
}

// slowReading matches what is left out on emulated RDMA, where a run takes seconds: second readings of
// one workload, and micro, which scripts/rxe-vm/tests/transactions.sh runs there. SmallBank has 2000 accounts per
// node: with 200, eight customers get 90 % of the accesses, and under drtm nearly every write waits for leases.
var slowReading = regexp.MustCompile("^micro|balance-keys|numbers|key-bytes|latest|--gets 0")

// proved runs a workload and wants what it did proved.
func proved(t *testing.T, protocol, workload, where string) {
	t.Helper()
	args := "bench --check --json - --protocol " + protocol + " --workload " + workload + " " + where
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), composition.BuiltIn(), strings.Fields(args), &stdout, &stderr)
	var b struct {
		Conserved string
		All       struct{ Committed uint64 }
		Check     struct{ Verdict string }
	}
	if err := json.Unmarshal(stdout.Bytes(), &b); err != nil || code != exitDone {
		t.Errorf("drtmd %s: exit code %d, %v: %s", args, code, err, stderr.String())
		return
	}
	if b.Check.Verdict != check.Serializable.String() || b.Conserved != "yes" || b.All.Committed == 0 {
		t.Errorf("drtmd %s: %+v", args, b)
	}
}

// TestOptionsThatDoNotFitAreRefused: with what there is instead.
func TestOptionsThatDoNotFitAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"--workload ycsb --letter G":            `expected A, B, C, D, E, F, not "G"`,
		"--workload ycsb --accounts 5":          "workload ycsb has no --accounts; it is one of workload smallbank",
		"--workload tatp --theta 0.5":           "workload tatp has no --theta; it is one of workload smallbank, ycsb",
		"--workload opmix --gets 0 --puts 0":    "take 1 to 32 in all",
		"--workload tapt":                       `unknown workload "tapt"; known: smallbank, micro, tatp`,
		"--anywhere --nodes 1":                  "--anywhere true needs two nodes",
		"--anywhere --distributed 0.5":          "leave distributed out",
		"--anywhere --far 100":                  "leave anywhere and distributed out",
		"--workload retwis --value-bytes 7":     "--value-bytes: expected 8 to 32768, not 7",
		"--workload ycsb --theta 0 --keys 100":  "zipfian needs a theta above 0",
		"--workload ycsb --distribution pareto": "pareto",
		"--workload tpcc --warehouses 0":        "--warehouses: expected 1 to 65536, not 0",
		"--workload tpcc --warehouses 70000":    "--warehouses: expected 1 to 65536",
		"--workload tpcc --warehouses 20000":    "of memory, and",
		"--protocol rtx --workload ycsb --keys 1000000000 --theta 0 --distribution uniform":     "of memory, and",
		"--protocol optimal --workload ycsb --keys 1000000000 --theta 0 --distribution uniform": "of memory, and",
		"--workload tpcc --customers 33":              "take a multiple of 10",
		"--workload lookup --keys 9":                  "workload lookup has no --keys",
		"--workload micro --slots 1024":               "workload micro has no --slots; it is one of workload lookup",
		"--workload smallbank --balance-keys 3":       "--balance-keys: expected 1 to 2, not 3",
		"--workload ycsb --keys 1 --operations 32":    "too few",
		"--workload tatp --subscribers 1000000000000": "--subscribers: expected 4 to",
	} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), composition.BuiltIn(), strings.Fields("bench "+args), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("bench %s: exit code %d, %q, want %q", args, code, stderr.String(), want)
		}
	}
}

// TestAdditionsThatClashAreRefused: an option that has the name of another flag, or of a key.
func TestAdditionsThatClashAreRefused(t *testing.T) {
	for name, want := range map[string]string{"nodes": "flag of drtmd bench", "cache": "the key data.cache"} {
		has, err := composition.New(nil, []workload.Spec{{Name: "toys",
			Options: option.List{option.Int(name, 1, 1, 9, "`N`")},
			New:     func(int, option.Values) (workload.Workload, error) { return nil, errors.New("a toy") }}})
		if err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), has, []string{"version"}, &stdout, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("option %s: exit code %d, %q, want %q", name, code, stderr.String(), want)
		}
	}
}
