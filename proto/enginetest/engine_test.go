package enginetest_test

import (
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/enginetest"
	"drtmd/proto/node"
	"drtmd/proto/occ/dandelion"
	"drtmd/proto/option"
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

// hosts are those of a protocol, and those with backups. Under the race detector one protocol of each way in which
// logs are carried is enough: drtmr, drtmr-verbs, drtmh-nc and drtm-occ share their threads' memory as drtmh does;
// without backups, drtmr-verbs as drtmr, and drtmh-nc as drtmh. Dandelion's protocols are run where they differ
// from fasst.
func hosts(protocol string) (single, replicated []enginetest.Host) {
	single, replicated = append(enginetest.Hosts(), rdma), enginetest.ReplicatedHosts()
	switch {
	case protocol == "xenic": // it runs in the simulator; a NIC that has one copy to keep does less of the same
		return single[:1], replicated[1:2]
	case protocol == "dnl4":
		return nil, []enginetest.Host{replicated[0], replicated[2]}
	case protocol == "dnl2":
		return single[1:2], replicated[1:]
	case protocol == "dnl1":
		return nil, replicated[:2]
	case slices.Contains([]string{"farm", "fasst", "drtmh"}, protocol):
		return single, replicated
	}
	again := func(t *testing.T) { raceskip.SameMemory(t) }
	for i := range replicated {
		replicated[i].Missing = again
	}
	if protocol == "drtmr-verbs" || protocol == "drtmh-nc" {
		single[0].Missing = again
	}
	return single, replicated
}

// TestEngines runs the suite for every protocol on every host.
func TestEngines(t *testing.T) {
	for _, p := range node.Protocols() {
		t.Run(p.Name, func(t *testing.T) {
			single, replicated := hosts(p.Name)
			if i := slices.IndexFunc(p.Options, func(o option.Option) bool { return o.Name == dandelion.OptTold }); i >= 0 {
				// Cases look at what is locked when a transaction has ended.
				o := &p.Options[i]
				*o = option.Choice(o.Name, []string{dandelion.ToldAcknowledged, dandelion.ToldSent}, o.Doc)
			}
			if os.Getenv("DRTMD_REQUIRE") == "ibv" { // the others were run outside of the guest
				single, replicated = single[min(len(single), len(enginetest.Hosts())):], nil
			}
			enginetest.Run(t, p, single...)
			if p.Replicates {
				enginetest.Run(t, p, replicated...)
			}
		})
	}
}
