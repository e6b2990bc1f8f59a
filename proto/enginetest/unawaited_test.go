package enginetest_test

import (
	"os"
	"slices"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/enginetest"
	"drtmd/proto/occ/farm"
	"drtmd/proto/option"
)

// TestTheUnlockingIsNotAwaited runs the suite for farm with the other value of option "await-unlock", with backups:
// without them the option changes nothing.
func TestTheUnlockingIsNotAwaited(t *testing.T) {
	if os.Getenv("DRTMD_REQUIRE") == "ibv" {
		t.Skip("no replicas on RDMA devices") // as in TestEngines
	}
	raceskip.SameMemory(t)
	p := farm.Protocol()
	i := slices.IndexFunc(p.Options, func(o option.Option) bool { return o.Name == farm.OptAwaitUnlock })
	p.Options[i] = option.Bool(farm.OptAwaitUnlock, false, p.Options[i].Doc)
	hosts := enginetest.ReplicatedHosts()
	for i := range hosts {
		hosts[i].Unawaited = true
	}
	enginetest.Run(t, p, hosts...)
}
