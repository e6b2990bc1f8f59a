package enginetest_test

import (
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/enginetest"
	"drtmd/proto/node"
	"drtmd/verbs/ibv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rdma is a host on the machine's first RDMA device.
var rdma = enginetest.Host{Name: "ibv", Provider: ibv.New(), Slow: true,
	Missing: func(t *testing.T) {
		devices, err := ibv.New().Devices()
		switch {
		case err == nil && len(devices) > 0:
		case os.Getenv("DRTMD_REQUIRE") == "ibv":
			t.Fatalf("DRTMD_REQUIRE=ibv, but: %d devices, %v", len(devices), err)
		default:
			t.Skipf("no RDMA device: %d devices, %v", len(devices), err)
		}
	}}

// replicated are the hosts with backups for a protocol. Under the race detector one protocol of each way in which
// logs are carried is enough: drtmr, drtmr-verbs, drtmh-nc and drtm-occ share their threads' memory as drtmh does.
func replicated(protocol string) []enginetest.Host {
	hosts := enginetest.ReplicatedHosts()
	if slices.Contains([]string{"farm", "fasst", "drtmh"}, protocol) {
		return hosts
	}
	for i := range hosts {
		hosts[i].Missing = func(t *testing.T) { raceskip.SameMemory(t) }
	}
	return hosts
}

// TestEngines runs the suite for every protocol on every host.
func TestEngines(t *testing.T) {
	hosts := append(enginetest.Hosts(), rdma)
	if os.Getenv("DRTMD_REQUIRE") == "ibv" {
		hosts = []enginetest.Host{rdma} // the others were run outside of the guest
	}
	for _, p := range node.Protocols() {
		t.Run(p.Name, func(t *testing.T) {
			enginetest.Run(t, p, hosts...)
			if p.Replicates && os.Getenv("DRTMD_REQUIRE") != "ibv" {
				enginetest.Run(t, p, replicated(p.Name)...)
			}
		})
	}
}
