package enginetest

import (
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/node"
)

// testCase is one of the suite's.
type testCase struct {
	name string
	run  func(t *testing.T, e env)
	// concurrent: it is about several transactions at a time, which a protocol on one thread never has.
	concurrent bool
	// simulated: it needs virtual time; real: it needs threads.
	simulated, real bool
	// direct: it looks into memory right behind a transaction, or counts allocations, which a worker that plays a NIC has.
	direct bool
}

var cases = []testCase{
	{name: "every operation on one record", run: operations},
	{name: "transactions of one record", run: singles},
	{name: "a client with several transactions", run: clients, concurrent: true},
	{name: "ReadMany sees absence and the same key twice", run: readMany},
	{name: "a transaction sees its own writes", run: ownWrites},
	{name: "what cannot be done is refused in words", run: refusals},
	{name: "accesses that were not declared", run: undeclared},
	{name: "versions grow over deletion", run: versionsGrow, direct: true},
	{name: "space of deleted records is used again", run: spaceReused},
	{name: "a full table says so and takes back", run: fullTable},
	{name: "tables grow up to a bound", run: growth},
	{name: "a panic of the program releases everything", run: panics},
	{name: "an engine may be closed twice", run: closedTwice},
	{name: "what an engine offers beside", run: offers},
	{name: "places that went out of date are noticed", run: outdatedPlaces},
	{name: "random transactions are strictly serializable", run: randomLoad},
	{name: "scans of ordered tables", run: scans},
	{name: "transactions do not allocate", run: allocations, real: true, direct: true},
	{name: "held records", run: heldRecords, concurrent: true},
	{name: "a peek is of one moment", run: peeks, concurrent: true},
	{name: "a cancelled transaction leaves nothing", run: cancelled, simulated: true},
	{name: "an unlock that nobody has heard of is done", run: unlockedUnheard, simulated: true},
	{name: "attempts by a broken way owe nothing", run: brokenWayOwesNothing, simulated: true},
	{name: "a peer dies while it holds locks", run: peerDies, simulated: true, concurrent: true},
	{name: "a lock that was stolen is a bug", run: stolenLock, simulated: true},
	{name: "the same seed is the same run", run: repeats, simulated: true},
	{name: "stories", run: stories, simulated: true, concurrent: true},
}

// played reports whether a worker of each node plays the cores of its NIC.
func (e env) played() bool {
	return e.protocol.Chips != nil && e.protocol.Chips.Cores && !e.host.Simulated
}

// Run runs every case for a protocol on hosts.
func Run(t *testing.T, p node.Protocol, hosts ...Host) {
	for _, h := range hosts {
		t.Run(h.Name, func(t *testing.T) {
			if h.Missing != nil {
				h.Missing(t)
			}
			if h.Simulated {
				raceskip.Simulated(t)
			}
			if p.Chips != nil && h.WithoutLineWords {
				return // the memory of the model has none
			}
			e := env{p, h}
			if p.Chips != nil && !p.Chips.Cores && !h.Simulated {
				t.Run("machines without its chips are refused", func(t *testing.T) { withoutChips(t, e) })
				return
			}
			for _, c := range cases {
				if c.simulated && !h.Simulated || c.real && h.Simulated {
					continue // there is no such case on this host
				}
				if c.direct && e.played() {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					if c.concurrent && p.OneThread {
						oneThreadOnly(t, e)
						return
					}
					c.run(t, e)
				})
			}
		})
	}
}
